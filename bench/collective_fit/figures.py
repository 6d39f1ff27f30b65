"""What is told of the fit: median errors by machine and operation, and the lines they must keep."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from collective_fit.rows import Rows, left_out
from numpy.typing import NDArray

from models.catalogue.collective_constants import link_class, link_class_names
from models.cost.network.collective_time import OPERATIONS
from models.link import LinkClass

LINES = {"above": 0.15, "below": 0.30}
"""Largest median error of a cell above 1 MiB, and of 1 MiB and less."""
LEAST_ROWS = 8
"""Rows a machine and operation need to count as a cell."""
HEAD = """## Collectives

`python bench/fit_collectives.py` over {rows} measured collectives of {machines} machines
(`bench/data/collectives.csv`), from bytes to 16 GiB and 2 to 1,440 GPUs: median of |predicted / measured - 1|
by machine and operation, above 1 MiB and up to it. A machine and operation with {least} rows or more is held
to {above:.0%} above 1 MiB and {below:.0%} below: {crossed} of {cells} figures cross their line.

| machine | operation | rows | above 1 MiB | up to 1 MiB |
|---|---|---|---|---|
{table}

Left out: {left_out}.

Constants are a fabric class's, never a machine's. Fitted without one of its machines and tried on it, where
the others have rows enough to fit (median errors):

| class | machine left out | above 1 MiB | up to 1 MiB |
|---|---|---|---|
{alone}

Resting on one machine, so that nothing says how far they carry: {single}.
"""


def figures(rows: Sequence[Rows], links: dict[str, LinkClass] | None) -> dict[str, Any]:
    """Return the errors of every machine and operation under constants given or the catalogue's."""
    known = links or {name: link_class(name) for name in link_class_names()}
    cells = [cell for one in rows for cell in _cells(one, known)]
    held = [cell for cell in cells if cell["rows"] >= LEAST_ROWS]
    told = [(cell, side) for cell in held for side in LINES if cell[side] is not None]
    return {
        "command": "python bench/fit_collectives.py",
        "rows": sum(len(one.seconds) for one in rows),
        "machines": len(rows),
        "cells": len(told),
        "crossed": [
            f"{cell['machine']}, {cell['operation']}, {side} 1 MiB"
            for cell, side in told
            if cell[side] > LINES[side]
        ],
        "left_out": left_out(),
        "by_machine": cells,
    }


def _cells(one: Rows, links: dict[str, LinkClass]) -> list[dict[str, Any]]:
    error = np.abs(one.predicted(links) / one.seconds - 1)
    return [
        {
            "machine": one.machine,
            "operation": OPERATIONS[code],
            "rows": int((one.operation == code).sum()),
            "above": _median(error[(one.operation == code) & one.large]),
            "below": _median(error[(one.operation == code) & ~one.large]),
        }
        for code in np.unique(one.operation)
    ]


def _median(errors: NDArray[np.float64]) -> float | None:
    return round(float(np.median(errors)), 4) if len(errors) else None


def section(found: dict[str, Any]) -> str:
    """Return the section of the page."""
    return HEAD.format(
        rows=found["rows"],
        machines=found["machines"],
        least=LEAST_ROWS,
        above=LINES["above"],
        below=LINES["below"],
        crossed=len(found["crossed"]),
        cells=found["cells"],
        table="\n".join(
            f"| {c['machine']} | {c['operation']} | {c['rows']} | {_told(c['above'])} | {_told(c['below'])} |"
            for c in found["by_machine"]
        ),
        left_out="; ".join(f"{name} ({why})" for name, why in found["left_out"].items()),
        single=", ".join(sorted(set(link_class_names()) - set(found["leave_one_machine_out"]))),
        alone="\n".join(
            f"| {name} | {machine} | {_told(errors['above'])} | {_told(errors['below'])} |"
            for name, machines in found["leave_one_machine_out"].items()
            for machine, errors in machines.items()
        ),
    )


def _told(error: float | None) -> str:
    return "" if error is None else f"{error:.1%}"
