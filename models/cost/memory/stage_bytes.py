"""Memory of a pipeline stage: named lines of whole bytes that add up, the heaviest stage decides.

The solver's limit, the exact rejection, the scorer and the report all read `memory_lines`.
Everything has shape (N, S): N layouts, S stages each. [B]
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.cost.memory import activations, offload, state
from models.cost.memory.buffers import buffer_lines, overhead_lines
from models.cost.memory.framework_lines import activation_habits, allocator_habits, gradient_habits
from models.cost.pipeline import schedule
from models.cost.setting import Setting
from models.cost.shards import RankParameters, held_shards, rank_parameters, state_shards
from models.cost.stages import Stages, stage_kinds
from models.cost.table import FULL, KEEP_FOR_STEP, IntVector, LayoutTable

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

ROUTED = "_routed"
"""Suffix of the lines that depend on the expert degrees through etp * ep only."""

PART_OF_LINE = {
    "weights": "weights",
    "weights_routed": "weights",
    "gradients": "gradients",
    "gradients_routed": "gradients",
    "optimizer": "optimizer",
    "optimizer_routed": "optimizer",
    "layer_activations": "activations",
    "working_layer": "activations",
    "final_norm": "activations",
    "embedding_dropout": "activations",
    "logits": "activations",
    "stage_outputs": "activations",
    "merged_logits": "activations",
    "gathered_inputs": "buffers",
    "end_gradients": "buffers",
    "second_gradient": "gradients",
    "second_gradient_routed": "gradients",
    "gradient_shards": "gradients",
    "gradient_shards_routed": "gradients",
    "gradient_copy": "buffers",
    "gradient_copy_routed": "buffers",
    "reduce_buckets": "buffers",
    "fragmentation": "overhead",
    "fragmentation_routed": "overhead",
    "pipeline_messages": "buffers",
    "sequence_gather": "buffers",
    "backward_workspace": "buffers",
    "expert_dispatch": "buffers",
    "gathered_weights": "buffers",
    "gathered_weights_routed": "buffers",
    "unreduced_gradients": "buffers",
    "unreduced_gradients_routed": "buffers",
    "cuda_context": "overhead",
    "communicators": "overhead",
}
"""Which of the six parts of a stage each line belongs to."""


def memory_lines(table: LayoutTable, stages: Stages, setting: Setting) -> dict[str, IntArray]:
    """Every named line of each stage, rounded up to whole bytes, (N, S). [B]."""
    parameters = rank_parameters(table, stages, setting)
    lines = _state_lines(table, parameters, setting)
    held = stages_in_flight(table, stages, setting)
    freed = _activation_lines(table, stages, held, setting)
    lines |= freed
    if not setting.profile.working_buffers:
        return _whole_bytes(lines | overhead_lines(table, setting), stages)
    freed |= activation_habits(table, stages, held, setting)
    lines |= freed
    gone = np.asarray(sum(freed.values(), start=np.zeros(stages.dense.shape)))
    lines |= gradient_habits(table, stages, parameters, gone, setting)
    lines |= buffer_lines(table, stages, parameters, setting)
    if not setting.framework.logits_outlive_loss:
        lines |= _at_the_heavier_moment(table, stages, lines, setting)
    whole = _whole_bytes(lines, stages)
    outside = allocator_habits(whole, ROUTED, setting) | overhead_lines(table, setting)
    return whole | _whole_bytes(outside, stages)


WORKING = ("working_layer", "backward_workspace", "gathered_inputs", "sequence_gather", "expert_dispatch")
"""Lines of the layer whose backward runs, which begins when the loss's is done."""


def _at_the_heavier_moment(
    table: LayoutTable, stages: Stages, lines: dict[str, Array], setting: Setting
) -> dict[str, Array]:
    """Keep the loss of one micro-batch or the layer at work, whichever is larger: never both at once.

    Logits of other micro-batches (GPipe holds G) stay beside either.
    """
    part = activations.split(table, setting)
    one = activations.logits_bytes(setting.architecture, table, part, setting.logits_copies)
    loss = stages.last * one[:, None]
    present = [name for name in WORKING if name in lines]
    work = sum((lines[name] for name in present), start=np.zeros(stages.dense.shape))
    at_loss = loss >= work
    kept = {name: np.where(at_loss, 0.0, lines[name]) for name in present}
    return kept | {"logits": np.where(at_loss, lines["logits"], lines["logits"] - loss)}


def _whole_bytes(lines: dict[str, Array], stages: Stages) -> dict[str, IntArray]:
    """Round every line up to whole bytes, (N, S)."""
    shape = stages.dense.shape
    return {name: np.broadcast_to(np.ceil(value), shape).astype(np.int64) for name, value in lines.items()}


def stage_parts(table: LayoutTable, setting: Setting) -> tuple[IntArray, IntArray]:
    """Bytes of each kind of stage as (rest, routed), each (N, S); their sum is the stage's total. [B].

    `routed` is the routed experts' state: with gpus, pp, vpp and ZeRO fixed it depends on etp * ep
    alone. `rest` is least at ep = 1, etp = 1. Both facts are what lets the solver bound memory by a
    sum over its decisions.
    """
    stages = stage_kinds(table, setting)
    lines = memory_lines(table, stages, setting)
    zero = np.zeros(stages.dense.shape, dtype=np.int64)
    routed = sum((value for name, value in lines.items() if name.endswith(ROUTED)), start=zero)
    rest = sum((value for name, value in lines.items() if not name.endswith(ROUTED)), start=zero)
    return rest, routed


def peak_bytes(table: LayoutTable, setting: Setting) -> IntVector:
    """Bytes on the heaviest stage of each layout, (N,). [B]."""
    rest, routed = stage_parts(table, setting)
    peak: IntVector = (rest + routed).max(axis=1)
    return peak


def _state_lines(table: LayoutTable, parameters: RankParameters, setting: Setting) -> dict[str, Array]:
    """Weights, gradients and optimizer state of the dense part over dp * cp, of the experts over edp.

    A group of one rank holds them whole: nothing is made whole beside them but a cast of FP32 masters.
    """
    lines: dict[str, Array] = {}
    recipe = setting.workload.recipe
    choice = (table.zero, table.schedule, table.gradient_reduce, table.weight_gather)
    extra = state.peak_extra_bytes(*choice, recipe)
    dense, experts = state_shards(table)
    stepping, experts_stepping = held_shards(table)
    own_weight = np.where(
        (table.zero == 3) & (table.weight_gather != KEEP_FOR_STEP) & setting.weight_is_master, 0.0, 1.0
    )
    groups = [("", dense, stepping, parameters.shared)]
    if setting.architecture.moe is not None:
        groups.append((ROUTED, experts, experts_stepping, parameters.routed))
    for suffix, shards, steps, count in groups:
        held = state.resident_bytes(*choice, shards, recipe)
        apart = shards > 1
        made_whole = np.where(apart | setting.weight_is_master, extra.weights, 0.0)
        unreduced = np.where(apart, extra.gradients, 0.0)
        lines[f"weights{suffix}"] = count * (held.weights * own_weight + made_whole)[:, None]
        lines[f"gradients{suffix}"] = count * (held.gradients + unreduced)[:, None]
        owned = recipe.optimizer / state.optimizer_divisor(table.zero, steps)
        lines[f"optimizer{suffix}"] = count * owned[:, None]
    if recipe.end_optimizer != recipe.optimizer:
        more = parameters.ends * (recipe.end_optimizer - recipe.optimizer)
        lines["optimizer"] = (
            lines["optimizer"] + more / state.optimizer_divisor(table.zero, stepping)[:, None]
        )
    return lines


def _activation_lines(table: LayoutTable, stages: Stages, held: Array, setting: Setting) -> dict[str, Array]:
    """Layers' activations times the micro-batches in flight, the recomputed layer, and the loss."""
    architecture, profile = setting.architecture, setting.profile
    part = activations.split(table, setting)
    checkpoint = activations.checkpoint_bytes(part.tokens, architecture.hidden, part.residual, part.element)
    whole, kept = layer_bytes(table, setting, part), kept_layer_bytes(table, setting, part, checkpoint)
    stored, most = _stage_activations(table, stages, whole, kept), _largest_kept(table, stages, whole, kept)
    lines = {
        "layer_activations": offload.resident_bytes(held, stored, most, setting.offloaded),
        "working_layer": (table.recompute == FULL)[:, None] * _largest_recomputed(stages, whole),
    }
    if not profile.real_valued_stages:
        micro_batches = table.micro_batches(setting.workload.global_batch)
        logits = activations.logits_bytes(architecture, table, part, setting.logits_copies)
        heads = stages.last * (1 + setting.mtp_layers)
        losses = heads * schedule.logits_in_flight(table.schedule, micro_batches)[:, None]
        lines["final_norm"] = losses * 2 * checkpoint[:, None]
        if setting.stack.dropout:
            masks = part.tokens * architecture.hidden / part.residual
            lines["embedding_dropout"] = stages.first * held * masks[:, None]
        late = schedule.logit_gradients_waiting(table.schedule, table.pp, micro_batches)[:, None]
        lines["logits"] = losses * logits[:, None] + heads * late * _logit_gradients(table, part, setting)
    return lines


def _logit_gradients(table: LayoutTable, part: activations.Split, setting: Setting) -> Array:
    """Gradient of one micro-batch's logits in the activations' type, (N, 1). [B]."""
    return activations.logits_bytes(setting.architecture, table, part, 0)[:, None]


def kept_bytes(table: LayoutTable, stages: Stages, setting: Setting) -> Array:
    """What a stage's layers keep of one micro-batch until its backward, wherever it waits, (N, S). [B]."""
    part = activations.split(table, setting)
    checkpoint = activations.checkpoint_bytes(
        part.tokens, setting.architecture.hidden, part.residual, part.element
    )
    whole, kept = layer_bytes(table, setting, part), kept_layer_bytes(table, setting, part, checkpoint)
    return _stage_activations(table, stages, whole, kept)


@dataclass(frozen=True)
class LayerBytes:
    """Activations of one layer and micro-batch, (N,) each. [B]."""

    dense: Array
    sparse: Array


def layer_bytes(table: LayoutTable, setting: Setting, part: activations.Split) -> LayerBytes:
    """All a layer makes, recompute aside."""
    return LayerBytes(
        _flat_layer(table, setting, part)
        if setting.profile.activation_terms == "flat34"
        else activations.layer_total(activations.dense_layer_tensors(setting.architecture, part), part),
        activations.layer_total(activations.sparse_layer_tensors(setting.architecture, part), part),
    )


def kept_layer_bytes(
    table: LayoutTable, setting: Setting, part: activations.Split, checkpoint: Array
) -> LayerBytes:
    """What a layer keeps until its backward under each row's recompute.

    The texts' flat layer keeps everything under `selective`: their scores are gone already.
    """
    architecture = setting.architecture
    sparse = activations.sparse_layer_tensors(architecture, part)
    kept_sparse = activations.kept_bytes(sparse, checkpoint, table, part)
    if setting.profile.activation_terms == "flat34":
        flat = _flat_layer(table, setting, part)
        return LayerBytes(np.where(table.recompute == FULL, checkpoint, flat), kept_sparse)
    dense = activations.dense_layer_tensors(architecture, part)
    return LayerBytes(activations.kept_bytes(dense, checkpoint, table, part), kept_sparse)


def _flat_layer(table: LayoutTable, setting: Setting, part: activations.Split) -> Array:
    """The texts' layer, in the workload's type; with its scores where the kernel is unfused."""
    architecture = setting.architecture
    scores = (
        0.0
        if part.fused
        else activations.flat_score_bytes(part.tokens, part.sequence, architecture.heads, part.tp)
    )
    flat = activations.flat_layer_bytes(
        part.tokens, architecture.hidden, table.tp, table.sequence_parallel, scores
    )
    return flat * part.element / 2.0


def _stage_activations(table: LayoutTable, stages: Stages, whole: LayerBytes, kept: LayerBytes) -> Array:
    """What a stage's layers keep of one micro-batch; full recompute may cover some of them only."""
    if not table.spares:
        return stages.dense * kept.dense[:, None] + stages.sparse * kept.sparse[:, None]
    full = (table.recompute == FULL)[:, None]
    dense, sparse = stages.spared_dense * full, stages.spared_sparse * full
    again = (stages.dense - dense) * kept.dense[:, None] + (stages.sparse - sparse) * kept.sparse[:, None]
    return np.asarray(again + dense * whole.dense[:, None] + sparse * whole.sparse[:, None])


def _largest_recomputed(stages: Stages, layer: LayerBytes) -> Array:
    """The larger kind of layer among those of the stage that full recompute covers."""
    return _larger(stages.dense - stages.spared_dense, stages.sparse - stages.spared_sparse, layer)


def _largest_kept(table: LayoutTable, stages: Stages, whole: LayerBytes, kept: LayerBytes) -> Array:
    """The most that one layer of the stage keeps: all it makes where full recompute spares it."""
    full = (table.recompute == FULL)[:, None]
    spared = _larger(stages.spared_dense * full, stages.spared_sparse * full, whole)
    return np.maximum(_larger(stages.dense, stages.sparse, kept), spared)


def _larger(dense: Array, sparse: Array, layer: LayerBytes) -> Array:
    """Bytes of the larger kind of layer among so many dense and sparse ones."""
    of_dense = np.where(dense > 0, layer.dense[:, None], 0.0)
    return np.maximum(of_dense, np.where(sparse > 0, layer.sparse[:, None], 0.0))


def stages_in_flight(table: LayoutTable, stages: Stages, setting: Setting) -> Array:
    """Micro-batches whose activations each stage holds, (N, S). [1]."""
    micro_batches = table.micro_batches(setting.workload.global_batch)[:, None]
    return schedule.in_flight(
        table.schedule[:, None],
        stages.index,
        table.pp[:, None],
        micro_batches,
        table.vpp[:, None],
        table.micro_batch_group[:, None],
    )
