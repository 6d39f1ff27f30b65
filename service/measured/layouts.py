"""The workload and the layout a run's columns describe; what is blank takes a default.

Defaults are those of the framework that ran it, each with its reason: they are told, run by run.
"""

from typing import Any, cast, get_args

from models.architecture import Architecture
from models.catalogue.recipes import recipe
from models.cost.flops import token_flops
from models.cost.splits import EMPTY_CHUNKS, balanced_split, weighed_split
from models.layout import LAUNCHABLE_ORDERS, RECOMPUTES, Layout, RecomputeModule, Schedule
from models.recipe import Recipe
from models.workload import LOW_PRECISIONS, GradientType, Precision, Workload
from service.measured.run import MeasuredRun
from service.measured.told import CannotPredict, Told

HIGH_PRECISION_INPUTS = frozenset({"torchtitan", "fsdp", "meta"})
"""Frameworks whose FP8 is PyTorch's: `torchao.float8` saves what a linear layer was given, not its cast."""
SCHEDULES: dict[str, Schedule] = {
    "none": "none", "fsdp": "none", "fsdp2": "none", "gpipe": "gpipe", "1f1b": "1f1b",
    "interleaved": "interleaved", "interleaved-1f1b": "interleaved",
}  # fmt: skip
"""Word of the `schedule` column, in small letters and before a remark in parentheses, to the schedule."""
MODULES: dict[str, RecomputeModule] = {"norm": "layernorm", **{m: m for m in get_args(RecomputeModule)}}
"""Word of the `recompute_modules` column to the module."""


def workload_of(run: MeasuredRun, told: Told) -> Workload:
    """Rebuild the workload."""
    precision = _precision(run)
    kept = _gradients(run, precision, told)
    return Workload(
        sequence_length=run.seq_len,
        global_batch=run.global_batch,
        precision=precision,
        gradient_dtype=kept,
        gradient_reduce_dtype=kept,
        optimizer="adam",
        recipe=_recipe(run, precision, kept, told),
    )


def _recipe(run: MeasuredRun, precision: Precision, kept: GradientType, told: Told) -> Recipe:
    """Bytes a parameter and an activation cost, where the framework departs from its precision's."""
    usual = recipe(precision, kept, kept, "adam", "fp32", run.hidden)
    if run.framework == "oneflow":
        why = "OneFlow's automatic mixed precision keeps FP32 variables and casts them where they are used"
        told.assume("recipe", "weights and gradients in fp32", why)
        return usual.model_copy(update={"weight": 4, "gradient": 4, "master": 0})
    if run.framework in HIGH_PRECISION_INPUTS and precision == "fp8":
        why = "float8 linear layers keep their inputs in BF16 and cast again (pytorch/ao torchao/float8)"
        told.assume("recipe", "linear inputs kept in bf16", why)
        return usual.model_copy(update={"product_input": usual.activation})
    return usual


def _precision(run: MeasuredRun) -> Precision:
    if run.precision not in get_args(Precision):
        raise CannotPredict.unknown("precision", run.precision, get_args(Precision))
    return cast("Precision", run.precision)


def _gradients(run: MeasuredRun, precision: Precision, told: Told) -> GradientType:
    """Type the gradients are kept in."""
    for known in get_args(GradientType):
        if run.gradient_dtype == known:
            return cast("GradientType", known)
    if run.gradient_dtype:
        raise CannotPredict.unknown("gradient_dtype", run.gradient_dtype, get_args(GradientType))
    if precision == "fp16":
        return told.assume("gradient_dtype", "fp16", "FP16 training keeps FP16 gradients (Megatron-LM)")
    if run.release or (run.framework == "megatron-core" and run.precision in LOW_PRECISIONS):
        why = "NVIDIA's recipes keep and reduce in BF16: grad_reduce_in_fp32 off, NVIDIA-NeMo/Megatron-Bridge"
        return told.assume("gradient_dtype", "bf16", why)
    return told.assume("gradient_dtype", "fp32", "BF16 training keeps FP32 gradients")


def layout_of(run: MeasuredRun, architecture: Architecture, told: Told) -> Layout:
    """Rebuild the layout, or say what of it cannot be."""
    etp = run.etp or 1
    micro_batch = _micro_batch(run, told)
    _check_grids(run, etp)
    vpp = run.vpp or _chunks(run, micro_batch, told)
    if run.layers < run.pp * vpp - EMPTY_CHUNKS:
        raise CannotPredict(f"{run.layers} layers do not fill {run.pp} stages of {vpp} chunks")
    return Layout(
        tp=run.tp, cp=run.cp, pp=run.pp, vpp=vpp, dp=run.dp, ep=run.ep, etp=etp,
        edp=run.tp * run.cp * run.dp // (etp * run.ep),
        gpus=run.gpus,
        hsdp_shard=run.hsdp_shard,
        schedule=_schedule(run, vpp, told),
        micro_batch=micro_batch,
        micro_batches=run.global_batch // (micro_batch * run.dp),
        micro_batch_group=run.pp,
        sequence_parallel=run.sp,
        cp_comm="ring" if run.framework == "megatron-core" else "all_gather",
        tp_overlap=run.tp_overlap,
        dp_overlap=told.assume("dp_overlap", True, "no column"),
        rank_order=told.assume("rank_order", LAUNCHABLE_ORDERS[0], "no column: Megatron's default"),
        stage_layers=_split(run, architecture, run.pp * vpp, told),
        **_recompute(run, vpp, told),
        **_sharding(run, told),
    )  # fmt: skip


def _split(run: MeasuredRun, architecture: Architecture, chunks: int, told: Told) -> tuple[int, ...]:
    """Layers of each chunk: equal where they divide; else whoever ran it had to say, and is taken to balance.

    The last chunk's head, and the layers that predict further tokens, count as the layers they take as
    long as.
    """
    if architecture.layers % chunks == 0 or run.pp == 1:
        return balanced_split(architecture.layers, chunks)
    predicted = architecture.mtp_layers if run.mtp else 0
    head = 6.0 * architecture.hidden * architecture.vocabulary
    layer = (token_flops(architecture, run.seq_len).training_causal - head) / architecture.layers
    last = (head + predicted * (head + layer)) / layer
    split = weighed_split(architecture.layers, chunks, last)
    why = "not stated, and the layers do not divide: balanced with the head on the last stage"
    return told.assume("stage_layers", split, why)


def _schedule(run: MeasuredRun, vpp: int, told: Told) -> Schedule:
    """Schedule of the column; what its degrees make of it where it is blank.

    Interleaving with one chunk a stage is 1F1B, and told.
    """
    if not run.schedule:
        piped: Schedule = "interleaved" if vpp > 1 else "1f1b"
        return "none" if run.pp == 1 else piped
    named = _named_schedule(run)
    if named == "interleaved" and vpp == 1 and run.pp > 1:
        told.ignore("schedule", run.schedule, "priced as 1f1b, with one chunk a stage")
        return "1f1b"
    return named


def _named_schedule(run: MeasuredRun) -> Schedule:
    """Schedule the column names; `none` where it is blank."""
    said = (run.schedule or "none").partition("(")[0].strip().lower().replace(" ", "-")
    if said not in SCHEDULES:
        raise CannotPredict.unknown("schedule", run.schedule or "", SCHEDULES)
    return SCHEDULES[said]


def _chunks(run: MeasuredRun, micro_batch: int, told: Told) -> int:
    """Chunks a stage where the file does not say how many; CannotPredict where none can be.

    Interleaving is there to shorten the bubble, and a chunk of one layer shortens it most.
    """
    interleaves = _named_schedule(run) == "interleaved" and run.pp > 1
    fills = run.global_batch // (micro_batch * run.dp) % run.pp == 0
    if not (interleaves and fills):
        return told.assume("vpp", 1, "not stated: no interleaving")
    return told.assume("vpp", -(-run.layers // run.pp), "interleaved, not stated how: a layer a chunk")


def _micro_batch(run: MeasuredRun, told: Told) -> int:
    micro_batch = run.micro_batch or told.assume(
        "micro_batch", 1, "not stated: the least, as memory is short"
    )
    if run.global_batch % (micro_batch * run.dp):
        raise CannotPredict(
            f"global_batch {run.global_batch} is no multiple of micro_batch {micro_batch} x dp {run.dp}"
        )
    return micro_batch


def _check_grids(run: MeasuredRun, etp: int) -> None:
    ranks = run.tp * run.cp * run.dp
    if ranks * run.pp != run.gpus:
        raise CannotPredict(f"tp x cp x pp x dp is {ranks * run.pp}, and gpus is {run.gpus}")
    if ranks % (etp * run.ep):
        raise CannotPredict(f"etp {etp} x ep {run.ep} does not divide the {ranks} ranks of a stage")


def _recompute(run: MeasuredRun, vpp: int, told: Told) -> dict[str, Any]:
    """Recompute, its modules and its layers; the count of the file is one chunk's."""
    kind = run.recompute or told.assume("recompute", "none", "not stated")
    if kind not in RECOMPUTES:
        raise CannotPredict.unknown("recompute", kind, RECOMPUTES)
    chosen: dict[str, Any] = {"recompute": kind}
    if run.recompute_modules:
        words = [word.strip() for word in run.recompute_modules.split(",")]
        for word in words:
            if word not in MODULES:
                told.ignore("recompute_modules", word, "kept, not recomputed")
        chosen["recompute_modules"] = tuple(MODULES[word] for word in words if word in MODULES)
    elif kind == "selective":
        chosen |= _unstated_selective(run, told)
    if run.recompute_layers_per_stage:
        chosen["recompute_layers"] = run.recompute_layers_per_stage * vpp
    return chosen


def _unstated_selective(run: MeasuredRun, told: Told) -> dict[str, Any]:
    """What a framework calls selective where the file names no modules."""
    if run.framework == "fsdp":
        why = "selective there is whole blocks, how many is not stated: all of them"
        return {"recompute": told.assume("recompute", "full", why)}
    modules: tuple[RecomputeModule, ...] = ("core_attn",)
    why = "not stated: Megatron's default"
    if run.framework == "torchtitan":
        modules = ("every_second_product",)
        why = "torchtitan keeps every other matrix product"
    return {"recompute_modules": told.assume("recompute_modules", modules, why)}


def _sharding(run: MeasuredRun, told: Told) -> dict[str, Any]:
    """ZeRO stage and how its traffic is scheduled.

    Under a pipeline gradients are reduced once a step whatever the stage: chunks work all their micro-batches
    before they send (the all-forward-all-backward that Llama 3 pairs with ZeRO-2, arXiv:2407.21783).
    PyTorch's FSDP under a pipeline gathers the stage's weights once and reduces its gradients once
    a step, so both stay whole meanwhile: what is sharded is the optimizer's state, as in ZeRO-2 with
    one reduction (pytorch/torchtitan torchtitan/distributed/fsdp.py, reshard_after_forward).
    """
    whole = run.zero_stage == 3 and run.pp > 1 and run.framework == "torchtitan"
    zero = (
        told.assume("zero_stage", 2, "FSDP keeps weights and gradients whole under PP")
        if whole
        else (run.zero_stage)
    )
    once = zero <= 1 or run.pp > 1
    return {
        "zero": zero,
        "gradient_reduce": "once" if once else "per_micro_batch",
        "weight_gather": "per_pass",
    }
