"""What two ranks that hold a copy of the same stage exchange when a step closes, under dualpipe."""

import numpy as np
from numpy.typing import NDArray

from models.cost.network.collective_time import SEND
from models.cost.network.routes import Routes
from models.cost.setting import Setting
from models.cost.shards import RankParameters, copies_of_stage, state_shards
from models.cost.table import LayoutTable
from models.cost.traffic.closing_traffic import Closing

Array = NDArray[np.float64]


def stage_copies(table: LayoutTable, parameters: RankParameters, setting: Setting, placed: Routes) -> Closing:
    """Add up the gradients of a stage's two copies, and hand the stepped weights back, on the fullest stage.

    The messages cross the tiers that neighbouring stages are apart.
    """
    sent = copies_sent(table, parameters, setting).max(axis=1)
    timed = placed.time(SEND, sent, "pp")
    return Closing(sent, sent, timed.seconds, placed.neighbour_shares("pp"), timed.algorithm)


def copies_sent(table: LayoutTable, parameters: RankParameters, setting: Setting) -> Array:
    """Bytes each stage's rank sends to its mirror image, (N, S). [B].

    Each keeps a shard of Psi / D gradients once DP has reduced them. Under ZeRO-1 and 2 it sends half of
    the shard to the other copy, steps the other half and sends those weights: (g + w) Psi / (2 D). Under
    ZeRO-0 the two all-reduce all of it: g Psi.
    """
    recipe = setting.workload.recipe
    dense, experts = (shards[:, None].astype(np.float64) for shards in state_shards(table))
    shard = parameters.shared / dense + parameters.routed / experts
    whole = parameters.shared + parameters.routed
    sharded = (recipe.gradient_sent + recipe.weight) / 2 * shard
    sent = np.where((table.zero == 0)[:, None], recipe.gradient_sent * whole, sharded)
    return np.where((copies_of_stage(table) > 1)[:, None], sent, 0.0)
