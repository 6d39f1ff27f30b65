"""Software knobs: what their defaults are told as, and which of them mean nothing where they are stated."""

from models.architecture import Architecture
from models.errors import Fault
from models.estimate import Assumption
from models.hardware import Gpu
from models.stack import MX_NOT_ON, RUNS_NOT_ON, Stack, StackRequest
from models.workload import LOW_PRECISIONS, Precision

FOR_EXPERTS = ("dispatcher", "token_drop", "imbalance", "ep_overlap")
"""Knobs of a mixture of experts."""


def stack_defaults(
    stack: StackRequest, architecture: Architecture, precision: Precision, gpu: Gpu
) -> list[Assumption]:
    """Software knobs left at their defaults, those of experts and prediction layers where there are any."""
    names = ["attention_kernel", "fused_loss", "dropout", "cuda_graph", "activation_offload"]
    names += ["offload_share"] if stack.activation_offload else []
    names += ["fp8_recipe"] if precision in LOW_PRECISIONS else []
    names += FOR_EXPERTS if architecture.moe else []
    names += ["mtp"] if architecture.mtp_layers else []
    taken = Stack.of(stack, gpu.generation)
    return [
        Assumption(field=f"/stack/{name}", value=getattr(taken, name), why="default")
        for name in names
        if name not in stack.model_fields_set
    ]


def recipe_faults(stack: StackRequest, precision: Precision, gpu: Gpu | None = None) -> list[Fault]:
    """Check that a recipe of scaling factors has products to scale, of its own format, that the GPU makes.

    >>> [fault.field for fault in recipe_faults(StackRequest(fp8_recipe="mx"), "bf16")]
    ['/stack/fp8_recipe']
    >>> recipe_faults(StackRequest(fp8_recipe="mx"), "fp8")
    []
    """
    if stack.fp8_recipe is None:
        return []
    if precision not in LOW_PRECISIONS:
        reason = f"products in {precision} are not scaled"
        fix = f"Leave it out, or train in {' or '.join(sorted(LOW_PRECISIONS))}."
    elif (stack.fp8_recipe == "nvfp4") != (precision == "nvfp4"):
        reason = f"products in {precision} are not scaled so"
        fix = "Leave it out." if precision == "nvfp4" else "Train in nvfp4, or leave it out."
    elif stack.fp8_recipe == "mx" and gpu is not None and gpu.generation in MX_NOT_ON:
        reason = f"it does not run on {gpu.name} ({gpu.generation})"
        fix = "Try tensorwise, current-scaling or rowwise."
    else:
        return []
    return [Fault("/stack/fp8_recipe", stack.fp8_recipe, reason, fix)]


def machine_faults(stack: StackRequest, gpu: Gpu) -> list[Fault]:
    """Check that the GPU runs the attention kernel, and has a link to offload over.

    >>> from models.catalogue import gpu
    >>> [fault.fix for fault in machine_faults(StackRequest(attention_kernel="flash3"), gpu("b200"))]
    ['Try unfused, flash-triton, flash2 or cudnn.']
    """
    faults, kernel = [], stack.attention_kernel
    if kernel is not None and gpu.generation in RUNS_NOT_ON[kernel]:
        *others, last = (name for name, without in RUNS_NOT_ON.items() if gpu.generation not in without)
        fix = f"Try {', '.join(others)} or {last}." if others else f"Try {last}."
        reason = f"it does not run on {gpu.name} ({gpu.generation})"
        faults.append(Fault("/stack/attention_kernel", kernel, reason, fix))
    if stack.activation_offload and gpu.host_bandwidth_bytes_per_s is None:
        field, reason = "/cluster/gpu/host_bandwidth_bytes_per_s", "activations are offloaded over a link"
        faults.append(Fault(field, None, reason, "State what copies to the host's memory reach."))
    return faults


def share_faults(stack: StackRequest) -> list[Fault]:
    """Check that a share is one of something.

    >>> [fault.field for fault in share_faults(StackRequest(offload_share=0.5))]
    ['/stack/offload_share']
    """
    if stack.activation_offload or "offload_share" not in stack.model_fields_set:
        return []
    fix, reason = "Set activation_offload to true.", "no activations are offloaded"
    return [Fault("/stack/offload_share", stack.offload_share, reason, fix)]


def stack_faults(stack: StackRequest, architecture: Architecture) -> list[Fault]:
    """Check that the software knobs mean something for the architecture."""
    moved = stack.model_dump(exclude_defaults=True)
    lacking = {} if architecture.mtp_layers else {"mtp": "multi-token-prediction layers"}
    lacking |= {} if architecture.moe else dict.fromkeys(FOR_EXPERTS, "experts")
    return [
        Fault(f"/stack/{name}", moved[name], f"{architecture.name} has no {part}", "Leave it out.")
        for name, part in lacking.items()
        if name in moved
    ]
