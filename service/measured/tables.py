"""Predicted beside measured as tables for people."""

from collections.abc import Mapping, Sequence

from rich.console import Console

from service.measured.answer import Errors, ErrorTable, OutOfMemory, RunReport, Summary, ValidateAnswer
from service.measured.answer_order import Order, PairCount
from service.measured.calibration_tables import print_calibration
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
    _print_errors(console, "Peak memory, rows of confidence high or medium, a group once", summary.memory)
    _print_out_of_memory(console, summary.out_of_memory)
    _print_step_time(console, summary)
    print_order(console, summary.order, summary.rank_correlation)
    line(console, summary.step_time_claim)
    line(console, f"{summary.predicted} of {summary.runs} rows predicted, profile {answer.profile}.")
    if answer.unknown_columns:
        line(console, f"Columns not known, and not read: {', '.join(answer.unknown_columns)}", "yellow")
    _print_not_predicted(console, answer)
    if answer.calibration is not None:
        print_calibration(console, answer.calibration)


def _print_not_predicted(console: Console, answer: ValidateAnswer) -> None:
    for reason, rows in answer.summary.not_predicted.items():
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
        Column("tok/s/GPU", [_rate(run.predicted_tokens_per_s_per_gpu) for run in runs]),
        Column("measured", [_rate(run.measured_tokens_per_s_per_gpu) for run in runs]),
        Column("TFLOP/s", [_rate(run.predicted_tflops_per_gpu) for run in runs]),
        Column("measured", [_rate(run.measured_tflops_per_gpu) for run in runs]),
        Column("counted", [run.flops_counted or "" for run in runs], left=True),
    ]


def _print_step_time(console: Console, summary: Summary) -> None:
    """Step time, one constant MFU beside it, and TFLOP/s where no time is stated."""
    name = "Step time, rows of confidence high or medium; beside it one constant MFU, leaving sources out"
    _print_errors(console, name, summary.step_time, summary.constant_mfu)
    _print_errors(console, "TFLOP/s of rows that state no time", summary.tflops_alone)


def _print_errors(
    console: Console, name: str, table: ErrorTable, reference: ErrorTable | None = None
) -> None:
    line(console, name, "bold")
    if table.all is None:
        line(console, "  nothing measured")
        return
    for head, view in VIEWS:
        columns = _errors(head, {**getattr(table, view), "all": table.all})
        if reference is not None:
            beside = {**getattr(reference, view), "all": reference.all}
            columns += _beside([beside.get(name) for name in columns[0].cells])
        print_columns(console, columns)
    if table.group_once is not None and table.group_once.n != table.all.n:
        print_columns(console, _errors("a group once", {"all": table.group_once}))
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


def _beside(found: list[Errors | None]) -> list[Column]:
    """Errors of the reference for the same rows of the table; blank where it says nothing."""
    return [
        Column("one MFU: n", ["" if e is None else str(e.n) for e in found]),
        Column("mean", ["" if e is None else f"{e.mean:.1%}" for e in found]),
        Column("median", ["" if e is None else f"{e.median:.1%}" for e in found]),
        Column("bias", ["" if e is None else f"{e.bias:+.1%}" for e in found]),
    ]


def print_order(console: Console, order: Order, correlation: Mapping[str, float]) -> None:
    """Print how many pairs of layouts stand in their measured order, group by group and in all."""
    line(console, "Order of layouts of one source, model, GPUs, sequence and precision", "bold")
    if order.groups:
        print_columns(console, _order(order))
        line(
            console,
            f"The layout predicted best costs {order.mean_cost:.1%} more than the best measured, "
            f"on average over {len(order.groups)} groups; {order.most_cost:.1%} at most.",
        )
    else:
        line(console, "  no group of three layouts")
    if correlation:
        told = ", ".join(f"{name} {tau:+.2f}" for name, tau in correlation.items())
        line(console, f"Rank correlation (Kendall) of TFLOP/s: {told}")
    console.print()


def _order(order: Order) -> list[Column]:
    groups = order.groups
    names = [f"{g.source} {g.model or 'unnamed'} ({g.heads} heads)" for g in groups]
    machines = [f"{g.gpus} {g.gpu} {g.sequence_length} {g.precision}" for g in groups]
    near, far = [g.pairs for g in groups], [g.far_pairs for g in groups]
    return [
        Column("group", [*names, "all"], left=True),
        Column("GPUs, sequence, precision", [*machines, ""], left=True),
        Column("layouts", [*(str(g.layouts) for g in groups), ""]),
        Column("pairs > 3 %", [_pairs(count) for count in (*near, order.pairs)]),
        Column("pairs > 8 %", [_pairs(count) for count in (*far, order.far_pairs)]),
        Column("predicted best costs", [*(f"{g.cost:+.1%}" for g in groups), f"{order.mean_cost:+.1%}"]),
    ]


def _pairs(count: PairCount) -> str:
    return f"{count.right} of {count.pairs}" + ("" if count.share is None else f" ({count.share:.0%})")


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


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _signed(error: float | None) -> str:
    return "" if error is None else f"{error:+.1%}"
