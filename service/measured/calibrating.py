"""From measured runs to a calibration: which of them count, what they move, and how the error changed."""

import threading
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from models.bands import Kind
from models.calibration import (
    AdaptedBand,
    AdaptedCoefficient,
    AdaptedTerm,
    Calibration,
    LeftOut,
    Misses,
    MissesTold,
)
from models.catalogue.own_runs import BASE, SOURCE, own_runs_rules
from models.catalogue.profiles import Coefficient, coefficients, profile
from models.cost.kernels.compute import model_flops_utilisation
from models.cost.step.band import kinds_of
from models.errors import Fault, InvalidField
from search.answer import service_version
from service.measured.cases import Case, case_of, shared
from service.measured.own_runs import Adapted, Stopped, adapt, configuration
from service.measured.run import MeasuredRun
from service.measured.throughput import step_flops
from service.measured.told import CannotPredict, Told

Array = NDArray[np.float64]

DIGITS = 6
"""Figures a written coefficient keeps."""
WIDEST = 3.0
"""Half-width that says nothing any more: a factor of twenty either way. [1]"""
NINE_IN_TEN = 1.645
"""Standard deviations either side that hold nine in ten of a normal scatter. [1]"""


@dataclass(frozen=True)
class Usable:
    """The runs of a file that can be adapted to, in an order that is theirs and not the file's."""

    cases: tuple[Case, ...]
    measured: Array
    """Step time of each, (N,). [s]"""
    left_out: tuple[LeftOut, ...]


def calibrate(runs: Sequence[MeasuredRun], field: str, stop: threading.Event | None = None) -> Calibration:
    """Adapt the calibrated profile to runs.

    Parameters
    ----------
    field
        Where the runs were stated; faults of all of them together stand there.
    stop
        Set by the caller to end it early.

    Raises
    ------
    InvalidField
        Where no run can be adapted to, they are of several types of GPU, or it was ended.
    """
    usable = usable_runs(runs)
    faults = _faults(usable, field)
    if faults:
        raise InvalidField(*faults)
    try:
        found = adapt(usable.cases, usable.measured, stop=stop)
    except Stopped as error:
        reason = "stopped before the runs were adapted to"
        raise InvalidField(Fault(field, None, reason, "Ask again.")) from error
    cases = usable.cases
    return Calibration(
        cost_model=profile(BASE).version,
        service=service_version(),
        gpu=cases[0].setting.cluster.gpu.name,
        precisions=tuple(sorted({case.setting.workload.precision for case in cases})),
        most_gpus=max(case.gpus for case in cases),
        configurations=len({configuration(case) for case in cases}),
        used=tuple(sorted(case.id for case in cases)),
        left_out=usable.left_out,
        terms=_terms(found),
        coefficients=_coefficients(found),
        bands=own_bands(cases, found.left_one_out),
        errors=MissesTold(
            before=_misses(found.before), after=_misses(found.after), left_one_out=_misses(found.left_one_out)
        ),
    )


def usable_runs(runs: Sequence[MeasuredRun]) -> Usable:
    """Sort out the runs that can be adapted to; the same whatever order they stand in."""
    cases, measured, left = [], [], []
    for run in sorted(runs, key=_own_order):
        try:
            seconds = _measured_step_s(run)
            cases.append(_possible(case_of(run, profile(BASE), Told()), seconds))
            measured.append(seconds)
        except CannotPredict as why:
            left.append(LeftOut(id=run.id, reason=str(why)))
    told = tuple(sorted(left, key=lambda one: (one.id, one.reason)))
    return Usable(shared(cases), np.array(measured), told)


def own_bands(cases: Sequence[Case], misses: Array) -> tuple[AdaptedBand, ...]:
    """Half-width of each kind of run's band: between the published one and what own runs missed by. [1].

    w^2 = (m w0^2 + sum over configurations of (1.645 miss)^2) / (m + n), and no less than repeats scatter

    m published configurations' worth, n own ones of the kind, each miss as adapted to the others alone.
    """
    bands, rule = profile(BASE).bands, own_runs_rules().band
    assert bands is not None
    squares: dict[Kind, dict[object, list[float]]] = {kind: {} for kind in get_args(Kind)}
    for case, miss in zip(cases, misses.tolist(), strict=True):
        for kind in kinds_of(case.setting, case.layout):
            squares[kind].setdefault(configuration(case), []).append((NINE_IN_TEN * miss) ** 2)
    found = []
    for kind, each in squares.items():
        before: float = getattr(bands, kind)
        own = sum(sum(repeats) / len(repeats) for repeats in each.values())
        wide = ((rule.weight * before**2 + own) / (rule.weight + len(each))) ** 0.5
        kept = before if not each else min(max(wide, rule.least), WIDEST)
        found.append(
            AdaptedBand(kind=kind, configurations=len(each), default=before, adapted=_rounded(kept, 4))
        )
    return tuple(found)


def _own_order(run: MeasuredRun) -> tuple[str, str]:
    """What a run says, its name last: where it stands in its file and what it is called decide nothing."""
    return repr(astuple(replace(run, id="", source=""))), run.id


def _measured_step_s(run: MeasuredRun) -> float:
    """Step time as stated, or as its tokens a second make it; CannotPredict says what else is amiss. [s]."""
    if run.confidence == "low":
        raise CannotPredict("confidence low")
    if run.oom:
        raise CannotPredict("ran out of memory")
    if run.measured_step_s is not None:
        return run.measured_step_s
    if run.measured_tokens_per_s_per_gpu is None:
        raise CannotPredict("neither measured_step_s nor measured_tokens_per_s_per_gpu is stated")
    return run.seq_len * run.global_batch / (run.gpus * run.measured_tokens_per_s_per_gpu)


def _possible(case: Case, seconds: float) -> Case:
    """Return a run whose GPUs compute no more than they can: a slip of a unit carries the others away."""
    gpu, precision = case.setting.cluster.gpu, case.setting.workload.precision
    rate = step_flops(case.setting, case.layout, "causal") / seconds / case.setting.gpus
    used = model_flops_utilisation(rate, gpu, precision)
    if used >= 1:
        raise CannotPredict(
            f"a step of {seconds:g} s takes {used:.3g} times the peak of its GPUs: what unit?"
        )
    return case


def _faults(usable: Usable, field: str) -> list[Fault]:
    gpus: dict[str, int] = {}
    for case in usable.cases:
        gpus[case.setting.cluster.gpu.name] = gpus.get(case.setting.cluster.gpu.name, 0) + 1
    if not gpus:
        reasons = "; ".join(f"{one.id}: {one.reason}" for one in usable.left_out[:10])
        reason = f"none of the {len(usable.left_out)} runs can be adapted to: {reasons}"
        return [Fault(field, None, reason, "State at least one run with a step time.")]
    if len(gpus) > 1:
        told = ", ".join(f"{name} ({count})" for name, count in sorted(gpus.items()))
        reason = f"runs of {len(gpus)} types of GPU, and a calibration is of one: {told}"
        return [Fault(field, None, reason, "Keep the runs of one of them.")]
    return []


def _terms(found: Adapted) -> tuple[AdaptedTerm, ...]:
    rows = zip(found.terms, np.exp(found.x).tolist(), found.spread.tolist(), strict=True)
    return tuple(
        AdaptedTerm(
            name=term.name,
            meaning=term.meaning,
            adapted=_rounded(times, DIGITS),
            prior_spread=term.spread,
            posterior_spread=_rounded(spread, DIGITS),
            source=SOURCE,
        )
        for term, times, spread in rows
    )


def _coefficients(found: Adapted) -> tuple[AdaptedCoefficient, ...]:
    """Every coefficient that has moved, inside what physics allows."""
    known = coefficients(BASE)
    adapted = found.values({name: one.value for name, one in known.items()})
    return tuple(
        AdaptedCoefficient(name=name, unit=known[name].unit, default=known[name].value, adapted=value)
        for name, moved in sorted(adapted.items())
        if (value := _allowed(moved, known[name])) != known[name].value
    )


def _allowed(value: float, known: Coefficient) -> float:
    return min(max(_rounded(value, DIGITS), known.low), known.high)


def _misses(logs: Array) -> Misses:
    off = np.expm1(logs)
    size = np.abs(off)
    return Misses(
        mean=_rounded(float(size.mean()), 4),
        median=_rounded(float(np.median(size)), 4),
        bias=_rounded(float(off.mean()), 4),
    )


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")
