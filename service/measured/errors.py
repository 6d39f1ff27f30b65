"""Errors over many runs: mean, median and bias, each row counted or each group once."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from statistics import fmean, median

from service.measured.answer import Errors, ErrorTable, OutOfMemory, RunReport, Worst

CLAIMED = ("high", "medium")
"""Confidences whose rows are counted."""
MOST_WORST = 10

Error = Callable[[RunReport], float | None]
Key = Callable[[RunReport], Iterable[str]]


def memory_error(run: RunReport) -> float | None:
    """Relative error of the peak memory. [1]."""
    return run.memory_error


def step_error(run: RunReport) -> float | None:
    """Relative error of the step time. [1]."""
    return run.step_error


def tflops_error(run: RunReport) -> float | None:
    """Relative error of the TFLOP/s where no time is stated. [1]."""
    return run.tflops_error if run.measured_step_s is None else None


def constant_mfu_error(run: RunReport) -> float | None:
    """Relative error of one constant MFU's step time. [1]."""
    return run.constant_mfu_error


def error_table(runs: Sequence[RunReport], error: Error, once: bool) -> ErrorTable:
    """Every view of one quantity's errors; `once` counts a group once throughout."""
    known = [run for run in runs if error(run) is not None]
    rows = [run for run in known if run.confidence in CLAIMED]
    told = partial(_by, rows, error, once)
    return ErrorTable(
        all=_errors(rows, error, once),
        group_once=_errors(rows, error, once=True),
        by_source=told(lambda run: (run.family,)),
        by_gpu=told(lambda run: (run.gpu,)),
        by_precision=told(lambda run: (run.precision,)),
        by_kind=told(lambda run: (run.kind,)),
        by_unstated=told(lambda run: run.unstated or ("all stated",)),
        low_confidence=_errors([run for run in known if run.confidence not in CLAIMED], error, once),
        worst=_worst(rows, error),
    )


def out_of_memory(runs: Sequence[RunReport]) -> OutOfMemory:
    """Who ran out, and who was predicted to."""
    judged = [run for run in runs if run.predicted_oom is not None]
    claimed = [run for run in judged if run.confidence in CLAIMED]
    wrong = [run for run in judged if run.predicted_oom != run.measured_oom]
    alarms = [run for run in wrong if run.predicted_oom and run.confidence in CLAIMED]
    return OutOfMemory(
        ran_out=sum(run.measured_oom for run in claimed),
        missed=tuple(run.id for run in wrong if run.measured_oom and run.confidence in CLAIMED),
        ran=sum(not run.measured_oom for run in claimed),
        false_alarms=tuple(run.id for run in alarms if not run.unstated),
        false_alarms_unstated=tuple(run.id for run in alarms if run.unstated),
        low_confidence=tuple(run.id for run in wrong if run.confidence not in CLAIMED),
    )


def _by(rows: Sequence[RunReport], error: Error, once: bool, key: Key) -> dict[str, Errors]:
    parts: dict[str, list[RunReport]] = {}
    for run in rows:
        for name in key(run):
            parts.setdefault(name, []).append(run)
    found = {name: _errors(part, error, once) for name, part in sorted(parts.items())}
    return {name: errors for name, errors in found.items() if errors}


def _errors(rows: Sequence[RunReport], error: Error, once: bool) -> Errors | None:
    counted = _groups(rows) if once else [[run] for run in rows]
    groups = [[value for run in group if (value := error(run)) is not None] for group in counted]
    if not groups:
        return None
    sizes = [fmean(map(abs, group)) for group in groups]
    return Errors(
        rows=len(rows),
        n=len(groups),
        mean=fmean(sizes),
        median=median(sizes),
        bias=fmean(map(fmean, groups)),
    )


def _groups(rows: Sequence[RunReport]) -> list[list[RunReport]]:
    """Rows that count once; one without a group is its own."""
    groups: dict[str, list[RunReport]] = {}
    for run in rows:
        groups.setdefault(f"group {run.group}" if run.group else f"row {run.id}", []).append(run)
    return list(groups.values())


def _worst(rows: Sequence[RunReport], error: Error) -> tuple[Worst, ...]:
    """The furthest off of each group, furthest first."""
    found = []
    for group in _groups(rows):
        run = max(group, key=lambda one: abs(error(one) or 0.0))
        found.append(Worst(id=run.id, error=error(run) or 0.0))
    return tuple(sorted(found, key=lambda w: (-abs(w.error), w.id))[:MOST_WORST])
