"""Predict every measured run and compare: the whole of `validate`, without files or tables."""

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, get_args

from models.catalogue.profiles import profile as read_profile
from models.cost.report import candidate
from models.errors import UnknownEntry
from models.estimate import Candidate, Version
from models.profile import Profile
from models.request import Profile as ProfileName
from service.measured.answer import RunReport, Summary, ValidateAnswer
from service.measured.baseline import constant_rate_seconds
from service.measured.calibrating import calibrate
from service.measured.cases import Case, case_of
from service.measured.errors import (
    CLAIMED,
    constant_mfu_error,
    error_table,
    memory_error,
    out_of_memory,
    step_error,
    tflops_error,
)
from service.measured.order import kendall, order
from service.measured.run import MeasuredRun
from service.measured.throughput import (
    Counts,
    counts_by_source,
    counts_of,
    step_flops,
    tflops_per_gpu,
    tokens_per_s_per_gpu,
)
from service.measured.told import CannotPredict, Told
from service.measured.units import bytes_of, comparable_bytes, scope_of

PROFILES: tuple[str, ...] = get_args(ProfileName)
CLAIM = (
    "Rates are fitted to published runs by bench/fit.py: runs of the same file are no test of them. "
    "docs/accuracy.md tells the error of runs whose source, or whose model, was left out."
)

UNSTATED = {"vpp": "interleave", "gradient_dtype": "gradient type", "recompute": "recompute"}
"""Blank columns that are told apart, and what they are called."""


def validate(
    runs: Sequence[MeasuredRun],
    profile_name: str,
    unknown_columns: tuple[str, ...] = (),
    *,
    fit: bool = False,
) -> ValidateAnswer:
    """Predict every run and sum up the errors, and adapt to them where asked.

    Raises
    ------
    UnknownEntry
        For a profile there is none of.
    InvalidField
        Where there is nothing that can be adapted to.
    """
    if profile_name not in PROFILES:
        raise UnknownEntry.among("/profile", profile_name, PROFILES)
    profile, counted = read_profile(profile_name), counts_by_source(runs)
    cases: dict[str, Case] = {}
    reports = [_report(run, profile, counted, cases) for run in runs]
    reports = _with_constant_mfu(reports, cases)
    return ValidateAnswer(
        profile=profile_name,
        unknown_columns=unknown_columns,
        runs=tuple(reports),
        summary=_summary(reports, cases),
        calibration=calibrate(runs, "/rows") if fit else None,
        version=_version(profile),
    )


def _summary(reports: Sequence[RunReport], cases: Mapping[str, Case]) -> Summary:
    reasons = Counter(run.reason for run in reports if run.reason)
    claimed = [run for run in reports if run.confidence in CLAIMED]
    timed = [run for run in claimed if run.step_error is not None]
    seconds = [run.predicted_step_s or 0.0 for run in timed]
    return Summary(
        runs=len(reports),
        predicted=len(reports) - reasons.total(),
        not_predicted=dict(sorted(reasons.items())),
        memory=error_table(reports, memory_error, once=True),
        out_of_memory=out_of_memory(reports),
        step_time=error_table(reports, step_error, once=False),
        constant_mfu=error_table(reports, constant_mfu_error, once=False),
        tflops_alone=error_table(reports, tflops_error, once=False),
        order=order([cases[run.id] for run in timed], seconds),
        rank_correlation=_rank_correlation(claimed),
        step_time_claim=CLAIM,
    )


def _rank_correlation(claimed: Sequence[RunReport]) -> dict[str, float]:
    """Kendall's tau of TFLOP/s in each source that states them for two runs or more. [1]."""
    rates: dict[str, list[tuple[float, float]]] = {}
    for run in claimed:
        if run.predicted_tflops_per_gpu is not None and run.measured_tflops_per_gpu is not None:
            both = (run.predicted_tflops_per_gpu, run.measured_tflops_per_gpu)
            rates.setdefault(run.family, []).append(both)
    found = {name: kendall([p for p, _ in both], [m for _, m in both]) for name, both in rates.items()}
    return {name: tau for name, tau in sorted(found.items()) if tau is not None}


def report(run: MeasuredRun, profile: Profile, counted: Mapping[str, Counts] | None = None) -> RunReport:
    """Predict one run, or say why not; `counted` is how its source's other runs count FLOPs."""
    return _report(run, profile, counted or {}, {})


def _report(
    run: MeasuredRun, profile: Profile, counted: Mapping[str, Counts], cases: dict[str, Case]
) -> RunReport:
    """Predict one run and put its case among the others, or say why not."""
    told = Told()
    try:
        case = case_of(run, profile, told)
    except CannotPredict as why:
        return RunReport(**_facts(run), reason=str(why))
    cases[run.id] = case
    predicted = candidate(case.layout, case.setting)
    return RunReport(
        **_facts(run),
        **_memory(run, predicted, case),
        **_rates(case, predicted.step_time_s, counted, told),
        predicted_step_s=predicted.step_time_s,
        step_error=_relative(predicted.step_time_s, run.measured_step_s),
        unstated=tuple(name for column, name in UNSTATED.items() if getattr(run, column) is None),
        assumed=tuple(told.assumed),
        ignored=tuple(told.ignored),
    )


def _facts(run: MeasuredRun) -> dict[str, Any]:
    """What is known of a run without predicting it."""
    kind = run.mem_kind or ""
    measured = run.measured_memory_GB_per_gpu
    known = measured is not None and scope_of(kind) is not None
    tokens = run.seq_len * run.global_batch / run.gpus
    return {
        "id": run.id,
        "family": run.family,
        "group": run.group,
        "gpu": run.gpu,
        "precision": run.precision,
        "kind": "moe" if run.n_experts else "dense",
        "confidence": run.confidence,
        "measured_step_s": run.measured_step_s,
        "measured_tokens_per_s_per_gpu": tokens / run.measured_step_s
        if run.measured_step_s
        else run.measured_tokens_per_s_per_gpu,
        "measured_tflops_per_gpu": run.measured_tflops_per_gpu,
        "measured_memory_bytes": bytes_of(measured, kind) if known and measured is not None else None,
        "memory_scope": scope_of(kind),
        "measured_oom": run.oom,
    }


def _memory(run: MeasuredRun, predicted: Candidate, case: Case) -> dict[str, Any]:
    """Predicted bytes of what was measured, and whether the whole of it fits the card."""
    scope = scope_of(run.mem_kind or "")
    ours = comparable_bytes(predicted.memory, scope or "process")
    peak, usable = predicted.memory.peak_bytes, case.setting.cluster.gpu.usable_memory_bytes
    return {
        "predicted_memory_bytes": ours,
        "memory_error": _relative(ours, _facts(run)["measured_memory_bytes"]),
        "predicted_peak_bytes": peak,
        "usable_bytes": usable,
        "predicted_oom": peak > usable,
    }


def _rates(case: Case, step_s: float, counted: Mapping[str, Counts], told: Told) -> dict[str, Any]:
    """Tokens and FLOPs a second, the latter in the way the source counts."""
    run = case.run
    counts = counts_of(run.flops_kind)
    if counts is None:
        counts = counted.get(run.family, "causal")
        if run.measured_tflops_per_gpu is not None:
            why = "not stated: as the source's other runs" if run.family in counted else "not stated"
            told.assume("flops_kind", counts, why)
    rate = tflops_per_gpu(step_flops(case.setting, case.layout, counts), step_s, run.gpus)
    return {
        "predicted_tokens_per_s_per_gpu": tokens_per_s_per_gpu(case.setting, step_s),
        "predicted_tflops_per_gpu": rate,
        "flops_counted": counts,
        "tflops_error": _relative(rate, run.measured_tflops_per_gpu),
    }


def _with_constant_mfu(reports: Sequence[RunReport], cases: Mapping[str, Case]) -> list[RunReport]:
    """Add what one MFU for each GPU and precision predicts, leaving the run's source out."""
    timed = [r.id for r in reports if r.step_error is not None and r.confidence in CLAIMED]
    seconds = dict(zip(timed, constant_rate_seconds([cases[name] for name in timed]), strict=True))
    found = []
    for one in reports:
        at = seconds.get(one.id)
        error = None if at is None else _relative(at, one.measured_step_s)
        found.append(one.model_copy(update={"constant_mfu_step_s": at, "constant_mfu_error": error}))
    return found


def _relative(predicted: float, measured: float | None) -> float | None:
    return None if measured is None else predicted / measured - 1


def _version(profile: Profile) -> Version:
    try:
        service = version("layout-search")
    except PackageNotFoundError:
        service = "unreleased"
    return Version(service=service, cost_model=profile.version)
