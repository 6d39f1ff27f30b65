"""How far clusters lie apart, and what adapting to a cluster's own runs does for its other runs.

Reads `data/runs.csv` and the values of `fit_folds.json` that were fitted without each source; writes the
spreads and scatters of `models/catalogue/profiles/own-runs.toml`, `own_runs.json` beside this file and the
section of `docs/accuracy.md` on own runs. Takes two minutes on two cores; the same tree gives the same
figures:

    python bench/own_runs.py
"""

import json
import re
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from own_fit.clusters import Cluster, clusters
from own_fit.draws import DRAWS, SIZES, drawn
from own_fit.page import section
from own_fit.spreads import Spreads, spreads
from rate_fit.runs import Runs
from sections import put

HERE = Path(__file__).parent
FIGURES, FOLDS = HERE / "own_runs.json", HERE / "fit_folds.json"
PAGE = HERE.parent / "docs" / "accuracy.md"
RULES = HERE.parent / "models" / "catalogue" / "profiles" / "own-runs.toml"
BEGIN, END = "<!-- own runs: written by bench/own_runs.py -->", "<!-- /own runs -->"
CORES = 2
FELT = 0.005
"""Change of a cluster's error that is told as better or worse. [1]"""


def committed() -> dict[str, Any]:
    """Return the figures as they were last written."""
    found: dict[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return found


def every_cluster() -> list[Cluster]:
    """Return the published runs as clusters, each predicted by values fitted without its source."""
    return clusters(Runs.read(), json.loads(FOLDS.read_text(encoding="utf-8"))["source"])


def figures(every: list[Cluster], known: Spreads) -> dict[str, Any]:
    """Return what adapting does, cluster by cluster and over all."""
    with ProcessPoolExecutor(CORES, get_context("fork"), _keep, (every,)) as pool:
        each = list(pool.map(_drawn, range(len(every))))
    told = {
        f"{one.source}, {one.gpu}": {"configurations": one.configurations, "drawn": found}
        for one, found in zip(every, each, strict=True)
        if found
    }
    return {
        "command": "python bench/own_runs.py",
        "draws": DRAWS,
        "spreads": known.terms,
        "scatter": known.scatter,
        "all": {str(size): _over_clusters(each, str(size)) for size in SIZES},
        "clusters": told,
    }


_kept: list[Cluster] = []


def _keep(every: list[Cluster]) -> None:
    _kept[:] = every


def _drawn(place: int) -> dict[str, dict[str, float]]:
    one = _kept[place]
    return drawn(one, spreads([other for other in _kept if other.source != one.source]))


def _over_clusters(each: list[dict[str, dict[str, float]]], size: str) -> dict[str, Any]:
    rows = [found[size] for found in each if size in found]
    gains = np.array([row["before"] - row["after"] for row in rows])
    return {
        "clusters": len(rows),
        "mean": {name: round(float(np.mean([row[name] for row in rows])), 4) for name in rows[0]},
        "median": {name: round(float(np.median([row[name] for row in rows])), 4) for name in rows[0]},
        "better": int((gains > FELT).sum()),
        "worse": int((gains < -FELT).sum()),
    }


def rules_file(text: str, known: Spreads) -> str:
    """Write spreads and scatters into the file of the rules."""
    for name, value in known.scatter.items():
        text = re.sub(rf"^{name} = .*$", f"{name} = {value!r}", text, flags=re.M)
    for name, value in known.terms.items():
        block = rf"(^\[terms\.{name}\]\n(?:[^\[\n].*\n|\]\n)*?spread = ).*$"
        text, found = re.subn(block, rf"\g<1>{value!r}", text, flags=re.M)
        assert found == 1, name
    return text


def main() -> None:
    every = every_cluster()
    known = spreads(every)
    RULES.write_text(rules_file(RULES.read_text(encoding="utf-8"), known), encoding="utf-8")
    found = figures(every, known)
    FIGURES.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(put(PAGE.read_text(encoding="utf-8"), section(found), BEGIN, END), encoding="utf-8")
    print(section(found))


if __name__ == "__main__":
    main()
