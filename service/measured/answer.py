"""What `validate` answers: each run predicted beside measured, and the errors over all of them."""

from typing import Literal

from models.base import Schema
from models.calibration import Calibration
from models.estimate import Assumption, Version
from service.measured.answer_order import Order
from service.measured.throughput import Counts
from service.measured.units import Scope


class RunReport(Schema):
    """One run: what was predicted of it, or why it could not be."""

    id: str
    family: str
    """The source's short name."""
    group: str | None
    """Runs of one group are one configuration, or share one memory measurement."""
    gpu: str
    precision: str
    kind: Literal["dense", "moe"]
    confidence: str
    predicted_step_s: float | None = None
    measured_step_s: float | None = None
    predicted_memory_bytes: int | None = None
    """Of the bytes the measurement counts (`memory_scope`); the whole process without one."""
    measured_memory_bytes: int | None = None
    memory_scope: Scope | None = None
    """What was measured: allocated, reserved, or the whole process."""
    predicted_peak_bytes: int | None = None
    """The whole process on the heaviest stage."""
    usable_bytes: int | None = None
    """What a process can allocate on the GPU: above it the prediction is "out of memory"."""
    predicted_oom: bool | None = None
    measured_oom: bool
    memory_error: float | None = None
    """(predicted - measured) / measured. [1]"""
    step_error: float | None = None
    """The same of the step time. [1]"""
    unstated: tuple[str, ...] = ()
    """Columns left blank that move memory most: interleave, gradient type, recompute."""
    assumed: tuple[Assumption, ...] = ()
    """Every default that filled a blank column."""
    ignored: tuple[str, ...] = ()
    """What the file states and the cost model does not price."""
    predicted_tokens_per_s_per_gpu: float | None = None
    measured_tokens_per_s_per_gpu: float | None = None
    predicted_tflops_per_gpu: float | None = None
    """In the way of counting of the measured ones; causal without any."""
    measured_tflops_per_gpu: float | None = None
    flops_counted: Counts | None = None
    """Attention over the tokens before, over the whole sequence, or that and what recompute repeats."""
    tflops_error: float | None = None
    """(predicted - measured) / measured TFLOP/s. [1]"""
    constant_mfu_step_s: float | None = None
    """Step time at one MFU for the GPU and precision, taken from other sources' runs."""
    constant_mfu_error: float | None = None
    """Its relative error. [1]"""
    reason: str | None = None
    """Why nothing was predicted; null where something was."""


class Errors(Schema):
    """Relative errors of a set of runs."""

    rows: int
    n: int
    """What the means are over: rows, or groups, each by the mean of its rows' errors."""
    mean: float
    """Mean absolute error. [1]"""
    median: float
    """Median absolute error. [1]"""
    bias: float
    """Mean signed error; positive predicts too much. [1]"""


class Worst(Schema):
    """A row that is far off."""

    id: str
    error: float


class ErrorTable(Schema):
    """Errors of one quantity over rows of confidence high or medium, in all and by what they share."""

    all: Errors | None
    group_once: Errors | None
    """In all, a group counted once."""
    by_source: dict[str, Errors]
    by_gpu: dict[str, Errors]
    by_precision: dict[str, Errors]
    by_kind: dict[str, Errors]
    by_unstated: dict[str, Errors]
    """Rows that leave interleave, gradient type or recompute to us; `all stated` are the others."""
    low_confidence: Errors | None
    """The rows left out of all the above."""
    worst: tuple[Worst, ...]
    """The ten rows furthest off, one a group."""


class OutOfMemory(Schema):
    """Rows of confidence high or medium, judged by the GPU's usable bytes and the point figure."""

    ran_out: int
    """Rows that ran out of memory and have a prediction."""
    missed: tuple[str, ...]
    """Of these, the ones predicted to fit."""
    ran: int
    """Rows that ran and have a prediction."""
    false_alarms: tuple[str, ...]
    """Of these, the ones predicted to run out though all that decides memory is stated."""
    false_alarms_unstated: tuple[str, ...]
    """The ones whose interleave, gradient type or recompute the file does not state."""
    low_confidence: tuple[str, ...]
    """Rows of low confidence on the wrong side; no part of the claim."""


class Summary(Schema):
    """Errors over all runs."""

    runs: int
    predicted: int
    not_predicted: dict[str, int]
    """Reasons, and how many rows each stopped."""
    memory: ErrorTable
    """Peak memory; a group counts once throughout, since its rows share a measurement."""
    out_of_memory: OutOfMemory
    step_time: ErrorTable
    """Step time, every row counted."""
    constant_mfu: ErrorTable
    """For reference, the same of one constant MFU a GPU and precision, leaving sources out."""
    tflops_alone: ErrorTable
    """TFLOP/s of the rows that state no time, which are no part of `step_time`."""
    order: Order
    rank_correlation: dict[str, float]
    """Kendall's tau between predicted and measured TFLOP/s over the rows of a source that state them."""
    step_time_claim: str


class ValidateAnswer(Schema):
    """Predicted beside measured."""

    profile: str
    unknown_columns: tuple[str, ...] = ()
    """Columns of the file that nobody knows: they were not read."""
    runs: tuple[RunReport, ...]
    summary: Summary
    calibration: Calibration | None = None
    """What the runs make of the profile, where that was asked; the predictions are the profile's own."""
    version: Version
