"""From a CSV file of measured runs to runs, or to every fault of the file with its row."""

import csv
import io
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_type_hints

from models.errors import Fault, InvalidField
from service.files import read_bounded
from service.measured.run import MeasuredRun

Cell = str
Row = dict[str, Cell]

CONFIDENCES = ("high", "medium", "low")
MOST_FAULTS = 100
"""Faults told at once; a file with more is told how many were left out."""
MOST_BYTES = 64_000_000
"""Largest file of runs read; ours of 579 runs holds 350,000. [B]"""
MAY_BE_ZERO = frozenset(
    {"zero_stage", "shared_experts", "n_dense_layers", "n_experts", "top_k", "moe_ffn", "q_lora_rank",
     "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"}
)  # fmt: skip
"""Whole-number columns in which 0 is said and means none."""
WHERE_MISSING: dict[str, Cell] = {
    "source": "own runs", "confidence": "high", "mla": "0", "cp": "1", "ep": "1", "tp_overlap": "0",
    "ep_overlap": "0", "token_drop": "0", "mtp": "0", "activation_offload": "0", "oom": "0",
}  # fmt: skip
"""Columns a file may leave out though none of their cells may be blank, and what every cell then is; columns
whose cells may be blank may be left out as well."""
UNREAD = frozenset({"params_active_B", "measured_mfu", "notes"})
"""Columns of `bench/data/runs.csv` that tell a reader more and no prediction anything."""
MOST_DIGITS = 18
"""Digits of the largest whole number a cell may hold."""
LEAST, MOST = 1e-9, 1e15
"""Bounds of the other numbers: a byte in GB, and more bytes a second than any network has."""


class BadCell(ValueError):
    """A cell that cannot be read: why, and what would pass."""

    def __init__(self, reason: str, fix: str) -> None:
        super().__init__(reason)
        self.reason, self.fix = reason, fix


@dataclass(frozen=True)
class RunsFile:
    """What a file holds."""

    runs: tuple[MeasuredRun, ...]
    unknown_columns: tuple[str, ...]
    """Columns nobody knows: they were not read."""


def read_runs(path: Path) -> tuple[MeasuredRun, ...]:
    """Read every run of a file, as `read_file` does."""
    return read_file(path).runs


def read_file(path: Path) -> RunsFile:
    """Read every run of a file, and the names of its columns that nobody knows.

    Raises
    ------
    InvalidField
        With every fault: a file that cannot be read, missing columns, and cells by row and column.
    """
    header, rows = _table(path)
    faults = _column_faults(header)
    if faults:
        raise InvalidField(*faults)
    runs: list[MeasuredRun] = []
    seen: dict[str, int] = {}
    for line, cells in rows:
        run, wrong = _run(line, cells, header, seen)
        faults += wrong
        runs += [run] if run else []
    if not runs and not faults:
        faults = [Fault("/rows", None, "the file has no row below its header", "Add a run.")]
    tell(faults)
    return RunsFile(tuple(runs), _unknown_columns(header))


def tell(faults: list[Fault]) -> None:
    """Raise InvalidField with every fault, if there are any; so many at most."""
    if not faults:
        return
    left = len(faults) - MOST_FAULTS
    more = [Fault("/rows", None, f"{left} more faults were left out", "Mend these first.")]
    raise InvalidField(*faults[:MOST_FAULTS], *(more if left > 0 else []))


def _unknown_columns(header: list[str]) -> tuple[str, ...]:
    return tuple(name for name in header if name and name not in COLUMNS and name not in UNREAD)


def stated_runs(path: Path, flag: str) -> dict[str, list[Row]]:
    """Return the runs of a file as a request states them: blank cells and unknown columns left out."""
    header, rows = _table(path, flag)
    faults = _column_faults(header)
    faults += [_uneven(line, cells, header) for line, cells in rows if len(cells) != len(header)]
    tell(faults)
    known = [(place, name) for place, name in enumerate(header) if name in COLUMNS]
    return {
        "runs": [
            {name: cells[place].strip() for place, name in known if cells[place].strip()} for _, cells in rows
        ]
    }


def _table(path: Path, flag: str = "RUNS.csv") -> tuple[list[str], list[tuple[int, list[Cell]]]]:
    """Header and the rows that are not blank, each with its line number."""
    content = read_bounded(str(path), flag, MOST_BYTES)
    try:
        lines = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        header = [name.strip() for name in next((cells for cells in lines if any(cells)), [])]
        return header, [(lines.line_num, cells) for cells in lines if any(cells)]
    except UnicodeDecodeError as error:
        raise InvalidField(Fault(flag, str(path), "not text in UTF-8", "Save it as CSV in UTF-8.")) from error
    except csv.Error as error:
        raise InvalidField(Fault(flag, str(path), f"not CSV: {error}", "Mend its quotes.")) from error


def _column_faults(header: list[str]) -> list[Fault]:
    if not set(header) & COLUMNS.keys() and {";", "\t"} & set("".join(header)):
        reason = "they are parted by semicolons or tabs, not by commas"
        return [Fault("/columns", None, reason, "Save it with commas, and points in its numbers.")]
    missing = [name for name in NEEDED if name not in header]
    twice = sorted({name for name in header if header.count(name) > 1})
    fix = "Add it; leave its cells blank where the run does not say."
    return [Fault(f"/columns/{name}", None, "the column is missing", fix) for name in missing] + [
        Fault(f"/columns/{name}", name, "the column stands there twice", "Keep one.") for name in twice
    ]


def _run(
    line: int, cells: list[Cell], header: list[str], seen: dict[str, int]
) -> tuple[MeasuredRun | None, list[Fault]]:
    """One run, or the faults of its row."""
    if len(cells) != len(header):
        return None, [_uneven(line, cells, header)]
    row = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
    where = f"/rows/{row['id'] or f'line {line}'}"
    run, faults = run_of(row, where)
    first = seen.setdefault(row["id"], line)
    if row["id"] and first != line:
        faults.append(Fault(f"{where}/id", row["id"], f"line {first} has this id too", "Give each its own."))
    return (None if faults else run), faults


def _uneven(line: int, cells: list[Cell], header: list[str]) -> Fault:
    reason = f"{len(cells)} cells under {len(header)} columns"
    return Fault(f"/rows/line {line}", None, reason, "Give one cell a column; quote commas.")


def run_of(row: Row, where: str) -> tuple[MeasuredRun | None, list[Fault]]:
    """Return the run that cells by their columns say, or the faults of the row at `where`."""
    values: dict[str, Any] = {}
    faults = []
    for name, read in COLUMNS.items():
        cell = row.get(name, WHERE_MISSING.get(name, ""))
        try:
            values[name] = read(cell)
        except BadCell as bad:
            faults.append(Fault(f"{where}/{name}", cell or None, bad.reason, bad.fix))
    faults += _row_faults(where, row)
    return (None if faults else MeasuredRun(**values)), faults


def _row_faults(where: str, row: Row) -> list[Fault]:
    """What is wrong of a row though each of its cells can be read."""
    faults = []
    confidence = row.get("confidence")
    if confidence and confidence not in CONFIDENCES:
        fix = f"Use one of {', '.join(CONFIDENCES)}."
        faults.append(Fault(f"{where}/confidence", confidence, "not a known confidence", fix))
    if row.get("measured_memory_GB_per_gpu") and not row.get("mem_kind"):
        reason = "a measured memory whose unit and kind are not said"
        faults.append(Fault(f"{where}/mem_kind", None, reason, "Say allocated, reserved or nvidia-smi."))
    return faults


def _whole(name: str) -> Callable[[Cell], int]:
    least = 0 if name in MAY_BE_ZERO else 1

    def read(cell: Cell) -> int:
        digits = cell.removeprefix("-")
        if not (digits.isascii() and digits.isdigit()):
            raise BadCell("must be a whole number", f"Write a whole number from {least}.")
        if digits.lstrip("0") and digits != cell:
            raise BadCell(f"below the least accepted, {least}", f"Use {least} or more.")
        if len(digits.lstrip("0")) > MOST_DIGITS:
            raise BadCell("too large", f"Write at most {MOST_DIGITS} digits.")
        if int(cell) < least:
            raise BadCell(f"below the least accepted, {least}", f"Use {least} or more.")
        return int(cell)

    return read


def _number(cell: Cell) -> float:
    try:
        value = float(cell.replace("_", "?"))  # which Python leaves out: 3_7 is no 37
    except ValueError:
        raise BadCell("must be a number", "Write a number, with a point.") from None
    if not math.isfinite(value) or value <= 0:
        raise BadCell("must be a finite number more than 0", "Leave it blank where it is not known.")
    if not LEAST <= value <= MOST:
        raise BadCell(f"outside {LEAST:g} to {MOST:g}", "Look at the column's unit.")
    return value


def _flag(cell: Cell) -> bool:
    if cell not in ("0", "1"):
        raise BadCell("must be 0 or 1", "Write 0 for no, 1 for yes.")
    return cell == "1"


def _text(cell: Cell) -> str:
    if not cell:
        raise BadCell("blank, and it has no default", "Say it.")
    if not cell.isprintable():
        raise BadCell("holds what cannot be printed", "Leave control characters out.")
    return cell


def _blanks() -> Iterator[tuple[str, bool]]:
    """Whether a column's cells may be blank, from the run's own field types."""
    for name, kind in get_type_hints(MeasuredRun).items():
        yield name, isinstance(kind, UnionType)


def _columns() -> Iterator[tuple[str, Callable[[Cell], Any]]]:
    """How each column is read, from the run's own field types."""
    for name, kind in get_type_hints(MeasuredRun).items():
        optional = isinstance(kind, UnionType)
        plain = next(k for k in get_args(kind) if k is not type(None)) if optional else kind
        read = {int: _whole(name), float: _number, bool: _flag, str: _text}[plain]
        yield name, _optional(read) if optional else read


def _optional(read: Callable[[Cell], Any]) -> Callable[[Cell], Any]:
    return lambda cell: read(cell) if cell else None


COLUMNS: dict[str, Callable[[Cell], Any]] = dict(_columns())
"""Columns a file may have, and how each is read; it may have others, which are not read."""
NEEDED = tuple(name for name, may_be_blank in _blanks() if not may_be_blank and name not in WHERE_MISSING)
"""Columns a file must have."""
