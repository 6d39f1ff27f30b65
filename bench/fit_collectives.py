"""Fit the fabric classes' collective constants to measured collectives and tell how far they are off.

Reads `data/collectives.csv` and `data/collective_machines.toml` (sources: `data/SOURCES.md`); writes
`models/catalogue/collectives/<class>.toml`, `collectives.json` beside this file and the collectives
section of `docs/accuracy.md`. Takes ten seconds (the scan a minute); the same tree gives the same figures:

    python bench/fit_collectives.py            # everything
    python bench/fit_collectives.py --figures  # figures of the constants as they stand, no fit
    python bench/fit_collectives.py --scan     # loss over the constants all classes share

A class's constants are what makes the mean of |log(predicted / measured)| least over its rows, each
group of rows (machine, operation, GPUs, above or below 1 MiB) counting the same. Fabrics inside a
node are fitted first, on one unit's rows; then the networks, on the rows that cross them.
"""

import json
import sys
from pathlib import Path
from typing import Any

from collective_fit.figures import figures, section
from collective_fit.rows import read_rows
from collective_fit.search import CLASSES, fit_all, leave_one_out, scan, text
from sections import put

HERE = Path(__file__).parent
FIGURES = HERE / "collectives.json"
PAGE = HERE.parent / "docs" / "accuracy.md"
CATALOGUE = HERE.parent / "models" / "catalogue" / "collectives"
BEGIN, END = "<!-- collectives: written by bench/fit_collectives.py -->", "<!-- /collectives -->"


def committed() -> dict[str, Any]:
    """Return the figures as they were last written."""
    found: dict[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return found


def as_they_stand() -> dict[str, Any]:
    """Return the figures of the catalogue's constants; machines left out are as last written."""
    return figures(read_rows(), None) | {"leave_one_machine_out": committed()["leave_one_machine_out"]}


def fitted_anew() -> tuple[dict[str, Any], dict[str, str]]:
    """Return the figures of constants fitted now, and each class's file."""
    rows = read_rows()
    links = fit_all(rows)
    found = figures(rows, links) | {"leave_one_machine_out": leave_one_out(rows, links)}
    return found, {name: text(name, links[name], rows) for name in CLASSES}


def main() -> None:
    if "--scan" in sys.argv:
        print(scan(read_rows()))
        return
    if "--figures" in sys.argv:
        found = as_they_stand()
    else:
        found, files = fitted_anew()
        for name, body in files.items():
            (CATALOGUE / f"{name}.toml").write_text(body, encoding="utf-8")
    FIGURES.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(put(PAGE.read_text(encoding="utf-8"), section(found), BEGIN, END), encoding="utf-8")
    print(section(found))


if __name__ == "__main__":
    main()
