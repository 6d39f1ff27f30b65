"""Fit the rates of a step's time to measured runs, and tell how far off runs are that were no part of it.

Reads `data/runs.csv` (its sources: `data/SOURCES.md`) and the beliefs of
`models/catalogue/profiles/calibrated-rates.toml`; writes the values there, `calibrated-bands.toml` beside
it, `fit.json` and `fit_folds.json` beside this file and the step-time section of `docs/accuracy.md`. Takes
a few minutes on two cores; the same tree gives the same figures:

    python bench/fit.py            # everything
    python bench/fit.py --figures  # figures of the values as they stand, no fit

Cross-validated: fitted again without each source, without each model of a source, and without each
generation of GPUs; the values of every such fit stand in `fit_folds.json`, and what they predict of the
runs left out are the figures that count.
"""

import json
import re
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from rate_fit.figures import bands, figures, held_out
from rate_fit.page import section
from rate_fit.runs import FOLDS, Runs, beliefs, rounded
from sections import put

from models.catalogue import profiles
from service.measured.solve import Found, search

HERE = Path(__file__).parent
FIGURES, VALUES = HERE / "fit.json", HERE / "fit_folds.json"
PAGE = HERE.parent / "docs" / "accuracy.md"
CATALOGUE = HERE.parent / "models" / "catalogue" / "profiles"
RATES, BANDS = CATALOGUE / "calibrated-rates.toml", CATALOGUE / "calibrated-bands.toml"
BEGIN, END = "<!-- fit: written by bench/fit.py -->", "<!-- /fit -->"
CORES = 2

Folds = dict[str, dict[str, dict[str, float]]]


def committed() -> dict[str, Any]:
    """Return the figures as they were last written."""
    found: dict[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return found


def as_they_stand() -> dict[str, Any]:
    """Return the figures of the values as they stand, and of the folds' values as last written."""
    folds: Folds = json.loads(VALUES.read_text(encoding="utf-8"))
    return figures(Runs.read(), folds)


def fit_all(runs: Runs) -> tuple[Found, Folds]:
    """Fit to all runs, then without each fold."""
    believed = beliefs()
    whole = search(runs.residuals(believed.names), believed, runs.weights)
    jobs = [(kind, name) for kind, of in FOLDS.items() for name in sorted(set(runs.labels(of).tolist()))]
    with ProcessPoolExecutor(CORES, get_context("fork"), _keep, (runs, whole)) as pool:
        values = list(pool.map(_without, jobs, chunksize=4))
    folds: Folds = {kind: {} for kind in FOLDS}
    for (kind, name), found in zip(jobs, values, strict=True):
        folds[kind][name] = found
    return whole, folds


_kept: list[Any] = []


def _keep(runs: Runs, whole: Found) -> None:
    _kept[:] = [runs, whole]


def _without(job: tuple[str, str]) -> dict[str, float]:
    """Values fitted without one fold."""
    runs, whole = _kept
    kind, name = job
    believed = beliefs()
    weights = np.where(runs.labels(FOLDS[kind]) == name, 0.0, runs.weights)
    found = search(runs.residuals(believed.names), believed, weights, whole, anew=int(kind != "model"))
    return rounded(found.x, believed.names)


def touched(runs: Runs, whole: Found) -> dict[str, int]:
    """Runs whose prediction hangs on each coefficient."""
    return dict(zip(beliefs().names, (np.abs(whole.slopes) > 1e-4).sum(axis=0).tolist(), strict=True))


def rates_file(text: str, values: dict[str, float], hang: dict[str, int]) -> str:
    """Write values, and the runs that tell them, into the file of the rates."""

    def filled(block: re.Match[str]) -> str:
        name, body = block[1], re.sub(r"^runs = .*\n", "", block[2], flags=re.M)
        if name not in values:
            return block[0]
        body = re.sub(r"^value = .*$", f"value = {values[name]!r}", body, flags=re.M)
        body = re.sub(r"^(source = .*)$", rf"\1\nruns = {hang[name]}", body, flags=re.M)
        return f"[{name}]\n{body}"

    return re.sub(r"^\[([^\]]+)\]\n((?:[^\[\n].*\n)+)", filled, text, flags=re.M)


def bands_file(text: str, widths: dict[str, float]) -> str:
    """Write half-widths into the file of the bands."""
    for kind, width in widths.items():
        text = re.sub(rf"^{kind} = .*$", f"{kind} = {width!r}", text, flags=re.M)
    return text


def rewrite(path: Path, change: Callable[[str], str]) -> None:
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")


def main() -> None:
    if "--figures" not in sys.argv:
        runs = Runs.read()
        whole, folds = fit_all(runs)
        values = rounded(whole.x, beliefs().names)
        rewrite(RATES, lambda text: rates_file(text, values, touched(runs, whole)))
        VALUES.write_text(json.dumps(folds, indent=1) + "\n", encoding="utf-8")
        widths = bands(runs, held_out(runs, "source", folds["source"]),
                       held_out(runs, "generation", folds["generation"]))  # fmt: skip
        rewrite(BANDS, lambda text: bands_file(text, widths))
        profiles.profile.cache_clear()
        profiles.coefficients.cache_clear()
    found = as_they_stand()
    FIGURES.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    rewrite(PAGE, lambda text: put(text, section(found), BEGIN, END))
    print(section(found))


if __name__ == "__main__":
    main()
