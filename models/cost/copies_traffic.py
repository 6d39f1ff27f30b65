"""What two ranks that hold a copy of the same stage exchange when a step closes, under dualpipe."""

import numpy as np
from numpy.typing import NDArray

from models.cost.closing_traffic import Closing
from models.cost.collectives import message_seconds
from models.cost.setting import Setting
from models.cost.shards import RankParameters, copies_of_stage, state_shards
from models.cost.table import LayoutTable
from models.cost.traffic import Route, wire

Array = NDArray[np.float64]


def stage_copies(
    table: LayoutTable, parameters: RankParameters, setting: Setting, placed: dict[str, Route]
) -> Closing:
    """Add up the gradients of a stage's two copies, and hand the stepped weights back.

    Each rank keeps a shard of Psi / D gradients once DP has reduced them. Under ZeRO-1 and 2 it sends
    half of the shard to the other copy, steps the other half and sends those weights:
    (g + w) Psi / (2 D). Under ZeRO-0 the two all-reduce all of it: g Psi. The messages cross the tiers
    that neighbouring stages are apart.
    """
    recipe = setting.workload.recipe
    dense, experts = (shards[:, None].astype(np.float64) for shards in state_shards(table))
    shard = (parameters.shared / dense + parameters.routed / experts).max(axis=1)
    whole = (parameters.shared + parameters.routed).max(axis=1)
    sent = np.where(
        table.zero == 0, recipe.gradient_sent * whole, (recipe.gradient_sent + recipe.weight) / 2 * shard
    )
    apart = copies_of_stage(table) > 1
    sent = np.where(apart, sent, 0.0)
    message = np.where(apart, recipe.gradient_sent * np.where(table.zero == 0, whole, shard), 0.0)
    shares = placed["pp"].shares
    return Closing(
        message, sent, message_seconds(sent, shares, np.where(apart, 2.0, 0.0), wire(setting)), shares
    )
