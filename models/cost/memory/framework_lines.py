"""Lines of a stage's memory that a training framework's habits add, switched by `Framework`.

Everything is broadcastable to (N, S): N layouts, S stages each. [B]

Symbols: T tokens of a micro-batch on one CP rank, a bytes of an activation, h hidden, t TP degree,
r = t with sequence parallelism else 1, G micro-batches, V_p padded vocabulary, D shards.
"""

import numpy as np
from numpy.typing import NDArray

from models.cost.memory import activations, state
from models.cost.setting import Setting
from models.cost.shards import RankParameters, embedding_matrix, held_shards, state_shards
from models.cost.stages import Stages
from models.cost.table import ONCE, LayoutTable

Array = NDArray[np.float64]

NEW_GRADIENT_BYTES = 4.0
"""The FP32 copy the optimizer steps with. [B]"""


def activation_habits(table: LayoutTable, stages: Stages, held: Array, setting: Setting) -> dict[str, Array]:
    """Activations a framework keeps beside the layers' own.

    stage_outputs     a T h / r of every micro-batch in flight, p > 1
    merged_logits     2 a T V_p / t of all G micro-batches on the last stage, p > 1: the list and its join
    gathered_inputs   2 a T h (1 - 1/t) of the layer at work, with sequence parallelism

    Parameters
    ----------
    held : (N, S)
        Micro-batches in flight.
    """
    habits, architecture = setting.framework, setting.architecture
    part = activations.split(table, setting)
    piped = (table.pp > 1)[:, None]
    stream = (part.element * part.tokens * architecture.hidden)[:, None]
    lines: dict[str, Array] = {}
    if habits.keeps_stage_outputs:
        lines["stage_outputs"] = np.where(piped, held * stream / part.residual[:, None], 0.0)
    if habits.merges_pipeline_logits:
        logits = activations.logits_bytes(architecture, table, part, 0)[:, None]
        runs = table.micro_batches(setting.workload.global_batch)[:, None]
        lines["merged_logits"] = np.where(piped, stages.last * 2 * runs * logits, 0.0)
    if habits.keeps_gathered_inputs:
        split = (table.sequence_parallel == 1)[:, None] & (table.tp > 1)[:, None]
        lines["gathered_inputs"] = np.where(split, 2 * stream * (1 - 1 / part.tp[:, None]), 0.0)
    return lines


def gradient_habits(
    table: LayoutTable, stages: Stages, parameters: RankParameters, freed: Array, setting: Setting
) -> dict[str, Array]:
    """Gradients a framework holds beside the kept ones.

    end_gradients      a V_p h / t on the first and the last stage: made whole before it is added up
    second_gradient    the 16-bit gradient beside an FP32 accumulator
    gradient_shards    the reduced shard beside the whole gradient, ZeRO-2 with one reduction
    gradient_copy      the FP32 copy of a 16-bit gradient's shard, beyond the activations it replaces;
                       where the experts' shards depend on ep (ZeRO-0, HSDP) their copy is counted beside
                       the activations, on the safe side

    Parameters
    ----------
    freed : (N, S)
        Activations that are gone when the optimizer steps. [B]
    """
    habits, recipe = setting.framework, setting.workload.recipe
    dense, experts = (shards[:, None].astype(np.float64) for shards in state_shards(table))
    stepping, experts_stepping = (shards[:, None].astype(np.float64) for shards in held_shards(table))
    lines = {}
    if habits.end_gradients:
        matrix = embedding_matrix(table, setting.architecture)[:, None]
        lines["end_gradients"] = (stages.first + stages.last) * recipe.activation * matrix
    if habits.gradient_beside_accumulator and recipe.gradient > recipe.activation:
        lines["second_gradient"] = parameters.shared * recipe.activation
        lines["second_gradient_routed"] = parameters.routed * recipe.activation
    if habits.gradient_shard_beside_whole:
        beside = ((table.zero == 2) & (table.gradient_reduce == ONCE))[:, None]
        lines["gradient_shards"] = np.where(beside, recipe.gradient * parameters.shared / dense, 0.0)
        lines["gradient_shards_routed"] = np.where(beside, recipe.gradient * parameters.routed / experts, 0.0)
    if habits.gradient_copy_at_step and recipe.gradient < NEW_GRADIENT_BYTES and recipe.master > 0:
        replicated = (table.zero == 0)[:, None] | (table.hsdp_shard is not None)
        own = parameters.shared / state.optimizer_divisor(table.zero[:, None], stepping)
        own_routed = np.where(replicated, 0.0, parameters.routed / experts_stepping)
        lines["gradient_copy"] = np.maximum(NEW_GRADIENT_BYTES * (own + own_routed) - freed, 0.0)
        whole = parameters.routed / state.optimizer_divisor(table.zero[:, None], experts_stepping)
        lines["gradient_copy_routed"] = np.where(replicated, NEW_GRADIENT_BYTES * whole, 0.0)
    return lines


def allocator_habits(lines: dict[str, NDArray[np.int64]], routed: str, setting: Setting) -> dict[str, Array]:
    """What the allocator holds beyond what it handed out: a share of everything it serves.

    `routed` is the suffix of the lines that go with the experts' own state.
    """
    share = setting.framework.reserved_over_allocated - 1
    found = {}
    for name, ours in (("fragmentation", False), (f"fragmentation{routed}", True)):
        served = [value for line, value in lines.items() if line.endswith(routed) == ours]
        if share and served:
            found[name] = share * np.add.reduce(served)
    return found
