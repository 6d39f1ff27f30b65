"""What a stage holds besides state and activations: working buffers and fixed overhead.

Everything is broadcastable to (N, S): N layouts, S stages each. [B]
"""

import numpy as np
from numpy.typing import NDArray

from models.cost.memory import activations
from models.cost.setting import Setting
from models.cost.shards import RankParameters, state_shards
from models.cost.stages import Stages
from models.cost.table import PER_MICRO_BATCH, PER_PASS, LayoutTable

Array = NDArray[np.float64]

GATHERED_UNITS = 2
"""Layers whose weights ZeRO-3 holds whole: the one at work and the one prefetched
(Megatron-LM docs/user-guide/features/megatron_fsdp.md: at least two units). [1]"""


def buffer_lines(
    table: LayoutTable, stages: Stages, parameters: RankParameters, setting: Setting
) -> dict[str, Array]:
    """Working buffers by name."""
    lines = _message_lines(table, stages, setting) | _sharding_lines(table, parameters, setting)
    if setting.framework.bucket_bytes:
        lines["reduce_buckets"] = np.full((len(table), 1), float(setting.framework.bucket_bytes))
    return lines


def _message_lines(table: LayoutTable, stages: Stages, setting: Setting) -> dict[str, Array]:
    """Buffers of one micro-batch in transit.

    pipeline_messages    2 a T h / r: the activation received and the gradient to send, p > 1
    sequence_gather      a T h: the whole sequence in front of a column-parallel product, SP
    backward_workspace   2 a T f / t: gradient of the gated pair
    expert_dispatch      2 a U h: token copies sent and received, U of `dispatched_tokens`
    """
    architecture = setting.architecture
    part = activations.split(table, setting)
    hidden = part.element * part.tokens * architecture.hidden
    sequence = np.where((table.sequence_parallel == 1) & (table.tp > 1), hidden, 0.0)
    pair = 2 * part.element * part.tokens * architecture.ffn / part.tp
    lines = {
        "pipeline_messages": np.where(table.pp > 1, 2 * hidden / part.residual, 0.0)[:, None],
        "sequence_gather": sequence[:, None],
        "backward_workspace": np.where(stages.dense > 0, pair[:, None], 0.0),
    }
    if architecture.moe is not None:
        copies = activations.dispatched_tokens(architecture, part)
        dispatch = 2 * part.element * copies * architecture.hidden
        lines["expert_dispatch"] = np.where(stages.sparse > 0, dispatch[:, None], 0.0)
    return lines


def _sharding_lines(table: LayoutTable, parameters: RankParameters, setting: Setting) -> dict[str, Array]:
    """Whole weights and gradients of a layer that ZeRO holds while it works on it.

    ZeRO-3 holds `GATHERED_UNITS` layers' weights where the stage's are not whole already; ZeRO-2 and 3
    that reduce after every micro-batch hold one layer's whole gradient in the type it is sent in. A
    group of one rank has nothing to gather and nothing to reduce.
    """
    bytes_of = setting.workload.recipe
    dense, experts = state_shards(table)
    groups = [("", dense, parameters.layer_shared)]
    if setting.architecture.moe is not None:
        groups.append(("_routed", experts, parameters.layer_routed))
    reducing = (table.zero >= 2) & (table.gradient_reduce == PER_MICRO_BATCH)
    lines: dict[str, Array] = {}
    for suffix, shards, layer in groups:
        gathered = np.where(_gathers(table, shards, setting), float(GATHERED_UNITS * bytes_of.weight), 0.0)
        unreduced = np.where(reducing & (shards > 1), float(bytes_of.gradient_sent), 0.0)
        lines[f"gathered_weights{suffix}"] = gathered[:, None] * layer
        lines[f"unreduced_gradients{suffix}"] = unreduced[:, None] * layer
    return lines


def _gathers(table: LayoutTable, shards: NDArray[np.int64], setting: Setting) -> NDArray[np.bool_]:
    """Whether a layout makes whole weights layer by layer, (N,).

    Under ZeRO-3 that keeps none of them, over more than one rank; over one rank too where the sharded
    weight is the FP32 master, which is cast layer by layer.
    """
    passing = (table.zero == 3) & (table.weight_gather == PER_PASS)
    return np.asarray(passing & ((shards > 1) | setting.weight_is_master))


def overhead_lines(table: LayoutTable, setting: Setting) -> dict[str, Array]:
    """CUDA context (the GPU's own where it was measured), and a buffer for each communicator."""
    groups, profile = communicators(table)[:, None], setting.profile
    measured = setting.cluster.gpu.context_bytes if profile.working_buffers else None
    return {
        "cuda_context": np.full(groups.shape, float(measured or profile.context_bytes)),
        "communicators": groups * float(profile.communicator_bytes),
    }


def communicators(table: LayoutTable) -> Array:
    """Communicators of more than one rank a GPU belongs to: TP, CP, DP x CP, PP, EP, expert DP. [1]."""
    experts = (table.ep > 1, (table.ep > 1) & (table.edp > 1))
    used = (table.tp > 1, table.cp > 1, table.dp * table.cp > 1, table.pp > 1, *experts)
    return np.asarray(np.add.reduce([flag.astype(np.float64) for flag in used]))
