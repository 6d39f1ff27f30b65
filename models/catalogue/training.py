"""A stated workload with every choice made: the batch in sequences, the types of the gradients."""

from models.base import LARGEST_COUNT
from models.catalogue.recipes import recipe
from models.errors import Fault, InvalidField
from models.estimate import Assumption
from models.hardware import Gpu
from models.request import Profile
from models.workload import GradientType, Precision, Workload, WorkloadRequest

GRADIENT_REDUCE_TYPE: GradientType = "fp32"
"""Gradients are sent in FP32 under both profiles (NVIDIA/Megatron-LM sets
`accumulate_allreduce_grads_in_fp32` with `--bf16`, megatron/training/arguments.py)."""
PEAKS: dict[Precision, str] = {
    "bf16": "peak_bf16_flops",
    "fp16": "peak_fp16_flops",
    "fp32": "peak_fp32_flops",
    "fp8": "peak_fp8_flops",
    "nvfp4": "peak_fp4_flops",
}
"""The rate a precision computes at."""


def resolve_workload(
    stated: WorkloadRequest, profile: Profile, hidden: int
) -> tuple[Workload, tuple[Assumption, ...]]:
    """Return the workload and what was assumed about it, or raise every fault at once."""
    faults = batch_faults(stated)
    if faults:
        raise InvalidField(*faults)
    derived: list[Assumption] = []
    batch = stated.global_batch
    if batch is None:
        batch = (stated.global_batch_tokens or 0) // stated.sequence_length
        derived.append(
            Assumption(
                field="/workload/global_batch", value=batch, why="global_batch_tokens / sequence_length"
            )
        )
    gradients = stated.gradient_dtype or gradient_type(stated.precision, profile)
    sent = stated.gradient_reduce_dtype or GRADIENT_REDUCE_TYPE
    workload = Workload(
        sequence_length=stated.sequence_length,
        global_batch=batch,
        precision=stated.precision,
        gradient_dtype=gradients,
        gradient_reduce_dtype=sent,
        optimizer=stated.optimizer,
        recipe=recipe(stated.precision, gradients, sent, stated.optimizer, stated.master_dtype, hidden),
    )
    return workload, (*derived, *_defaults(stated, workload, profile))


def gradient_type(precision: Precision, profile: Profile) -> GradientType:
    """Type the gradients are kept in: the weights' own under `textbook`, FP32 as Megatron keeps them else.

    >>> gradient_type("bf16", "textbook"), gradient_type("bf16", "calibrated")
    ('bf16', 'fp32')
    """
    if profile != "textbook":
        return "fp32"
    return "bf16" if precision == "fp8" or precision == "nvfp4" else precision


def batch_faults(stated: WorkloadRequest) -> list[Fault]:
    """Check that the batch is stated once, and in whole sequences.

    >>> [f.field for f in batch_faults(WorkloadRequest(sequence_length=4096, global_batch_tokens=4097))]
    ['/workload/global_batch_tokens']
    """
    tokens, length = stated.global_batch_tokens, stated.sequence_length
    if stated.global_batch is not None and tokens is not None:
        reason = "the batch is stated in sequences and in tokens"
        return [Fault("/workload/global_batch_tokens", tokens, reason, "Leave one of them out.")]
    if stated.global_batch is not None:
        return []
    if tokens is None:
        reason = "the batch of a step is not stated"
        return [Fault("/workload/global_batch", None, reason, "State global_batch or global_batch_tokens.")]
    if tokens // length > LARGEST_COUNT:
        reason = f"a batch is at most {LARGEST_COUNT} sequences, and this is {tokens // length} of {length}"
        fix = f"{LARGEST_COUNT * length} would do."
        return [Fault("/workload/global_batch_tokens", tokens, reason, fix)]
    if tokens % length:
        near = max(1, round(tokens / length)) * length
        reason = f"a batch is whole sequences, and {tokens} is no multiple of {length}"
        return [Fault("/workload/global_batch_tokens", tokens, reason, f"{near} would do.")]
    return []


def precision_faults(precision: Precision, gpu: Gpu, *, inline: bool) -> list[Fault]:
    """Check that the GPU computes in the precision at all."""
    if getattr(gpu, PEAKS[precision]) is not None:
        return []
    able = [name for name, peak in PEAKS.items() if getattr(gpu, peak) is not None]
    if inline:
        reason = f"the workload is in {precision}, and the GPU states no rate for it"
        return [Fault(f"/cluster/gpu/{PEAKS[precision]}", None, reason, "State the dense rate.")]
    reason = f"{gpu.name} has no {precision} rate"
    return [Fault("/workload/precision", precision, reason, f"Try {' or '.join(able)}.")]


def _defaults(stated: WorkloadRequest, workload: Workload, profile: Profile) -> tuple[Assumption, ...]:
    why = {"gradient_dtype": f"default of the {profile} profile"}
    names = ("precision", "gradient_dtype", "gradient_reduce_dtype", "optimizer", "master_dtype")
    given = stated.model_dump(exclude_unset=True, exclude_none=True)
    chosen = workload.model_dump() | {"master_dtype": stated.master_dtype}
    return tuple(
        Assumption(field=f"/workload/{name}", value=chosen[name], why=why.get(name, "default"))
        for name in names
        if name not in given
    )
