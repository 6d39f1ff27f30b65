"""What a step takes besides kernels and traffic: the host that launches them, copies, stragglers.

Symbols: N layouts, S kinds of stages. Everything is in seconds.
"""

import numpy as np
from numpy.typing import NDArray

from models.cost.kernels.pace import pace
from models.cost.setting import Setting
from models.cost.shards import held_shards, rank_parameters
from models.cost.stages import Stages
from models.cost.step.overlap import together
from models.cost.table import (
    FULL,
    LayoutTable,
)
from models.rates import Rates

Array = NDArray[np.float64]


def launched_seconds(table: LayoutTable, stages: Stages, worked: Array, setting: Setting) -> Array:
    """Time of a micro-batch on each stage with the host that launches its kernels, (N, S). [s].

    Where the GPUs need longer the host is ahead and costs little. ZeRO-3 also copies its gathered units, and
    an engine does its own for each layer while nothing else runs.
    """
    rates = setting.profile.rates
    if rates is None:
        return worked
    host = host_seconds(table, stages, setting, rates)
    alone = copy_seconds(table, stages, setting, rates)
    if setting.framework.time.engine_loop:
        alone = alone + (stages.dense + stages.sparse) * rates.engine_seconds_per_layer
    return together(worked, host, rates.host_norm) + alone


def host_seconds(table: LayoutTable, stages: Stages, setting: Setting, rates: Rates) -> Array:
    """Time the host needs to launch a micro-batch's kernels on each stage, (N, S). [s].

    So much a layer, and for each expert a rank holds. Full recompute launches a third more for the
    layers it covers.
    """
    own, moe = pace(setting, rates), setting.architecture.moe
    held = (moe.experts / table.ep if moe else np.zeros(len(table)))[:, None]
    dense, sparse = own.host_layer, own.host_layer + held * own.host_expert
    layers = stages.dense * dense + stages.sparse * sparse
    full = (table.recompute == FULL)[:, None]
    launched = layers * (1.0 + full / 3)
    if table.spares:
        launched = launched - full * (stages.spared_dense * dense + stages.spared_sparse * sparse) / 3
    return np.asarray(launched)


def copy_seconds(table: LayoutTable, stages: Stages, setting: Setting, rates: Rates) -> Array:
    """Casts and copies of ZeRO-3's gathered units in a micro-batch on each stage, (N, S). [s]."""
    parameters = rank_parameters(table, stages, setting)
    copied = setting.framework.time.copies_gathered_units
    moved = rates.unit_copy_bytes if copied else rates.unit_in_place_bytes
    sharded = ((table.zero == 3) & (held_shards(table)[0] > 1))[:, None]
    return np.asarray(sharded * (parameters.shared + parameters.routed) * moved * pace(setting, rates).byte)


def besides_seconds(table: LayoutTable, parts: dict[str, Array], setting: Setting) -> Array:
    """What a step takes besides its parts so far: what slows all of it, and its own fixed cost, (N,). [s]."""
    rates = setting.profile.rates
    if rates is None:
        return np.zeros(len(table))
    running = np.add.reduce(list(parts.values()))
    return np.asarray(running * (slowed(table, setting) - 1) + rates.step_seconds)


def slowed(table: LayoutTable, setting: Setting) -> Array:
    """Time of a step over that of its parts, (N,): stragglers, and an engine's loop. [1].

    The slowest of n equal GPUs sets the pace: a share for each doubling beyond one server's eight.
    """
    rates = setting.profile.rates
    if rates is None:
        return np.ones(len(table))
    slower = 1 + rates.straggling * np.log2(np.maximum(table.gpus / 8, 1.0))
    return np.asarray(slower * (1 + rates.engine_loop * setting.framework.time.engine_loop))
