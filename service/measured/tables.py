"""Predicted beside measured as tables for people."""

from collections.abc import Sequence

from rich.console import Console

from service.measured.answer import Errors, ErrorTable, OutOfMemory, RunReport, ValidateAnswer
from service.tables import Column, gigabytes, line, print_columns

VIEWS = (
    ("source", "by_source"),
    ("GPU", "by_gpu"),
    ("precision", "by_precision"),
    ("kind", "by_kind"),
    ("columns left blank", "by_unstated"),
)
"""Head of the table, and the view of the errors it shows."""


def print_validation(console: Console, answer: ValidateAnswer) -> None:
    """Print every run, then the errors of memory and of step time, and what was not predicted."""
    summary = answer.summary
    predicted = [run for run in answer.runs if run.reason is None]
    if predicted:
        print_columns(console, _runs(predicted))
    _print_errors(console, "Peak memory", summary.memory)
    _print_out_of_memory(console, summary.out_of_memory)
    _print_errors(console, "Step time", summary.step_time)
    line(console, summary.step_time_claim)
    line(console, f"{summary.predicted} of {summary.runs} rows predicted, profile {answer.profile}.")
    if answer.unknown_columns:
        line(console, f"Columns not known, and not read: {', '.join(answer.unknown_columns)}", "yellow")
    for reason, rows in summary.not_predicted.items():
        ids = ", ".join(run.id for run in answer.runs if run.reason == reason)
        line(console, f"Not predicted, {rows}: {reason} ({ids})", "yellow")


def _runs(runs: Sequence[RunReport]) -> list[Column]:
    return [
        Column("run", [run.id for run in runs], left=True),
        Column("confidence", [run.confidence for run in runs], left=True),
        Column("GPU", [run.gpu for run in runs], left=True),
        Column("what", [run.memory_scope or "" for run in runs], left=True),
        Column("predicted GB", [_gigabytes(run.predicted_memory_bytes) for run in runs]),
        Column("measured GB", [_gigabytes(run.measured_memory_bytes) for run in runs]),
        Column("error", [_signed(run.memory_error) for run in runs]),
        Column("out of memory", [_out(run) for run in runs], left=True),
        Column("predicted s", [_seconds(run.predicted_step_s) for run in runs]),
        Column("measured s", [_seconds(run.measured_step_s) for run in runs]),
        Column("error", [_signed(run.step_error) for run in runs]),
    ]


def _print_errors(console: Console, name: str, table: ErrorTable) -> None:
    line(console, f"{name}, rows of confidence high or medium, a group once", "bold")
    if table.all is None:
        line(console, "  nothing measured")
        return
    for head, view in VIEWS:
        parts: dict[str, Errors] = getattr(table, view)
        print_columns(console, _errors(head, {**parts, "all": table.all}))
    if table.low_confidence:
        print_columns(console, _errors("left out", {"confidence low": table.low_confidence}))
    worst = ", ".join(f"{row.id} {row.error:+.0%}" for row in table.worst)
    line(console, f"Furthest off: {worst}")
    console.print()


def _errors(head: str, parts: dict[str, Errors]) -> list[Column]:
    rows = list(parts.values())
    return [
        Column(head, list(parts), left=True),
        Column("rows", [str(e.rows) for e in rows]),
        Column("n", [str(e.n) for e in rows]),
        Column("mean", [f"{e.mean:.1%}" for e in rows]),
        Column("median", [f"{e.median:.1%}" for e in rows]),
        Column("bias", [f"{e.bias:+.1%}" for e in rows]),
    ]


def _print_out_of_memory(console: Console, found: OutOfMemory) -> None:
    line(console, f"{found.ran_out} rows ran out of memory, predicted to fit: {_names(found.missed)}")
    line(console, f"{found.ran} rows ran, predicted out of memory: {_names(found.false_alarms)}")
    line(console, f"  and where what decides is not stated: {_names(found.false_alarms_unstated)}")
    line(console, f"Of low confidence, on the wrong side: {_names(found.low_confidence)}")
    console.print()


def _names(ids: Sequence[str]) -> str:
    return ", ".join(ids) or "none"


def _out(run: RunReport) -> str:
    if run.measured_oom:
        return "ran out" if run.predicted_oom else "ran out, NOT predicted"
    return "predicted, but RAN" if run.predicted_oom else ""


def _gigabytes(count: int | None) -> str:
    return "" if count is None else gigabytes(count)


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _signed(error: float | None) -> str:
    return "" if error is None else f"{error:+.1%}"
