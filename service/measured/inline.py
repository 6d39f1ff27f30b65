"""Measured runs as a request states them: objects of columns, read as the rows of a file are."""

from collections.abc import Mapping, Sequence

from models.calibration import Cell
from models.errors import Fault
from service.measured.reader import COLUMNS, UNREAD, run_of, tell
from service.measured.run import MeasuredRun
from service.pointers import pointer

WHERE = "/calibration/runs"


def read_objects(stated: Sequence[Mapping[str, Cell]]) -> tuple[MeasuredRun, ...]:
    """Read every run of a request.

    Raises
    ------
    InvalidField
        With every fault, at the field of the run it is in.
    """
    runs, faults, seen = [], [], dict[str, int]()
    for place, cells in enumerate(stated):
        where = f"{WHERE}/{place}"
        row = {name: _text(cell) for name, cell in cells.items() if cell is not None}
        row = {"id": f"own-{place + 1}"} | row
        run, wrong = run_of(row, where)
        faults += _unknown(cells, where) + wrong
        first = seen.setdefault(row["id"], place)
        if first != place:
            fix = "Give each its own."
            faults.append(Fault(f"{where}/id", row["id"], f"run {first} has this id too", fix))
        runs += [run] if run else []
    tell(faults)
    return tuple(runs)


def _unknown(cells: Mapping[str, Cell], where: str) -> list[Fault]:
    fix = "Leave it out; the columns are those of bench/data/runs.csv."
    return [
        Fault(where + pointer((name,)), cells[name], "no column of this name", fix)
        for name in cells
        if name not in COLUMNS and name not in UNREAD
    ]


def _text(cell: Cell) -> str:
    """The cell as a file would hold it.

    >>> [_text(cell) for cell in (True, 8, 0.5, " bf16 ")]
    ['1', '8', '0.5', 'bf16']
    """
    if isinstance(cell, bool):
        return str(int(cell))
    return str(cell).strip()
