"""Predict every measured run and compare: the whole of `validate`, without files or tables."""

from collections import Counter
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, get_args

from models.catalogue.profiles import profile as read_profile
from models.cost.report import candidate
from models.errors import UnknownEntry
from models.estimate import Candidate, Version
from models.profile import Profile
from models.request import Profile as ProfileName
from service.measured.answer import RunReport, Summary, ValidateAnswer
from service.measured.errors import error_table, memory_error, out_of_memory, step_error
from service.measured.rebuild import Rebuilt, rebuild
from service.measured.run import MeasuredRun
from service.measured.told import CannotPredict, Told
from service.measured.units import bytes_of, comparable_bytes, scope_of

PROFILES: tuple[str, ...] = get_args(ProfileName)
NO_CLAIM = "Step time is told beside the measured one; it is not yet fitted, and no accuracy is claimed."

UNSTATED = {"vpp": "interleave", "gradient_dtype": "gradient type", "recompute": "recompute"}
"""Blank columns that are told apart, and what they are called."""


def validate(
    runs: Sequence[MeasuredRun], profile_name: str, unknown_columns: tuple[str, ...] = ()
) -> ValidateAnswer:
    """Predict every run and sum up the errors; UnknownEntry for a profile there is none of."""
    if profile_name not in PROFILES:
        raise UnknownEntry.among("/profile", profile_name, PROFILES)
    profile = read_profile(profile_name)
    reports = tuple(report(run, profile) for run in runs)
    reasons = Counter(run.reason for run in reports if run.reason)
    return ValidateAnswer(
        profile=profile_name,
        unknown_columns=unknown_columns,
        runs=reports,
        summary=Summary(
            runs=len(reports),
            predicted=len(reports) - reasons.total(),
            not_predicted=dict(sorted(reasons.items())),
            memory=error_table(reports, memory_error),
            out_of_memory=out_of_memory(reports),
            step_time=error_table(reports, step_error),
            step_time_claim=NO_CLAIM,
        ),
        version=_version(profile),
    )


def report(run: MeasuredRun, profile: Profile) -> RunReport:
    """Predict one run, or say why not."""
    told = Told()
    try:
        rebuilt = rebuild(run, profile, told)
    except CannotPredict as why:
        return RunReport(**_facts(run), reason=str(why))
    predicted = candidate(rebuilt.layout, rebuilt.setting)
    return RunReport(
        **_facts(run),
        **_memory(run, predicted, rebuilt),
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
    return {
        "id": run.id,
        "family": run.family,
        "group": run.group,
        "gpu": run.gpu,
        "precision": run.precision,
        "kind": "moe" if run.n_experts else "dense",
        "confidence": run.confidence,
        "measured_step_s": run.measured_step_s,
        "measured_memory_bytes": bytes_of(measured, kind) if known and measured is not None else None,
        "memory_scope": scope_of(kind),
        "measured_oom": run.oom,
    }


def _memory(run: MeasuredRun, predicted: Candidate, rebuilt: Rebuilt) -> dict[str, Any]:
    """Predicted bytes of what was measured, and whether the whole of it fits the card."""
    scope = scope_of(run.mem_kind or "")
    ours = comparable_bytes(predicted.memory, scope or "process")
    peak, usable = predicted.memory.peak_bytes, rebuilt.setting.cluster.gpu.usable_memory_bytes
    return {
        "predicted_memory_bytes": ours,
        "memory_error": _relative(ours, _facts(run)["measured_memory_bytes"]),
        "predicted_peak_bytes": peak,
        "usable_bytes": usable,
        "predicted_oom": peak > usable,
    }


def _relative(predicted: float, measured: float | None) -> float | None:
    return None if measured is None else predicted / measured - 1


def _version(profile: Profile) -> Version:
    try:
        service = version("layout-search")
    except PackageNotFoundError:
        service = "unreleased"
    return Version(service=service, cost_model=profile.version)
