"""How long each chunk of a layout takes: forward, input gradient, weight gradient, and the message after it.

What `models.cost.step_time` prices for a stage and micro-batch, parted by the pass that runs it: each
chunk's three add up to what it takes there.

Symbols: C chunks in execution order; every array is (C,). [s]

Limits
------
Recompute and the collectives of a backward run in its input half. Every boundary's message takes what
the layout's pipeline group pays on average. Where full recompute covers some layers of a stage only,
each of its v chunks recomputes a v-th of them, rounded up.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.cost.compute import compute_seconds, forward_seconds
from models.cost.pipeline.simulate import Durations
from models.cost.routes import Routes, routes
from models.cost.setting import Setting
from models.cost.stages import Stages, every_stage
from models.cost.step_time import FORWARD_SHARE, cp_exposed, host_seconds, tp_exposed
from models.cost.table import KEEP_ALL, ULYSSES, LayoutTable
from models.cost.traffic import (
    LayerTraffic,
    cp_traffic,
    ep_traffic,
    partly_recomputed,
    pp_traffic,
    tp_traffic,
)
from models.cost.units import PerLayer
from models.layout import Layout

Array = NDArray[np.float64]
Dimension = Callable[[LayoutTable, Setting, Routes], LayerTraffic]


def chunk_durations(layout: Layout, stages: int, setting: Setting) -> Durations:
    """Return what every pass of every chunk takes, and a message.

    Parameters
    ----------
    layout
        The layout; its micro-batches are of one replica.
    stages
        C: chunks the model is cut into, p v.
    setting
        What it is priced under.
    """
    chunks = _Chunks.of(layout, stages, setting)
    compute, waits = _compute(chunks), _waits(chunks)
    passes = _Passes(*(c + w for c, w in zip(compute, waits, strict=True)))
    worked = passes.forward + passes.inputs + passes.weights
    paced = np.maximum(worked, host_seconds(chunks.table, chunks.stages, setting)[0])
    slower = np.divide(paced, worked, out=np.ones_like(worked), where=worked > 0)
    hidden = setting.profile.pp_hidden
    message = 0.0 if hidden else pp_traffic(chunks.table, setting, chunks.placed).message_seconds[0]
    return Durations.of(
        stages, slower * passes.forward, slower * passes.inputs, slower * passes.weights, message
    )


class _Passes(NamedTuple):
    """Time of a micro-batch on each chunk by pass, (C,) each. [s]."""

    forward: Array
    inputs: Array
    weights: Array


@dataclass(frozen=True)
class _Chunks:
    """A layout cut into its chunks, each a stage of its own."""

    table: LayoutTable
    stages: Stages
    """(1, C)."""
    setting: Setting
    placed: Routes

    @classmethod
    def of(cls, layout: Layout, stages: int, setting: Setting) -> "_Chunks":
        table = LayoutTable.of([layout])
        some = layout.recompute_layers
        if some is not None:
            table = replace(table, recompute_layers=-(-some * layout.pp // stages))
        split = layout.stage_layers if len(layout.stage_layers) == stages else None
        return cls(table, every_stage(stages, 1, setting, split), setting, routes(table, setting))

    def on(self, cost: PerLayer) -> Array:
        """Add up a cost over what each chunk holds, (C,)."""
        return np.asarray(cost.on(self.stages)[0])


def _compute(chunks: _Chunks) -> _Passes:
    """Kernels: weight gradients repeat the forward's products, all else of a backward is the input's."""
    table, setting = chunks.table, chunks.setting
    both, again = (chunks.on(cost) for cost in compute_seconds(table, setting))
    if setting.profile.flat_compute_fraction is not None:
        third = both * FORWARD_SHARE
        return _Passes(third, both - 2 * third + again, third)
    run = forward_seconds(table, setting)
    weights = chunks.on(run.matmul)
    forward = weights + chunks.on(run.attention) + chunks.on(run.streamed)
    return _Passes(forward, both - forward - weights + again, weights)


def _waits(chunks: _Chunks) -> _Passes:
    """Collectives that compute waits for: what the forward sends, and the rest with the input's gradient."""
    table, setting, placed = chunks.table, chunks.setting, chunks.placed
    tp, cp, ep = (
        partly_recomputed(each, table, setting, placed) for each in (tp_traffic, cp_traffic, ep_traffic)
    )
    compute = compute_seconds(table, setting)[0].on(chunks.stages)
    exposed = (
        tp_exposed(table, tp, chunks.stages, setting)[0],
        cp_exposed(table, cp, compute, chunks.stages, setting)[0],
        chunks.on(ep.seconds),
    )
    shares = [
        _forward_share(chunks, each, whole.seconds, part)
        for each, whole, part in (
            (tp_traffic, tp, 1 / 2),
            (cp_traffic, cp, 1 / 2 if int(table.cp_comm[0]) == ULYSSES else 1 / 3),
            (ep_traffic, ep, 1 / 2),
        )
    ]
    forward = np.add.reduce([wait * share for wait, share in zip(exposed, shares, strict=True)])
    return _Passes(forward, np.add.reduce(list(exposed)) - forward, np.zeros_like(forward))


def _forward_share(chunks: _Chunks, dimension: Dimension, whole: PerLayer, part: float) -> Array:
    """Forward's share of a dimension's time, (C,): a fixed part of what it takes when nothing is repeated."""
    table = replace(chunks.table, recompute=np.full_like(chunks.table.recompute, KEEP_ALL))
    profile = chunks.setting.profile.model_copy(update={"tp_regathers": False})
    plain = dimension(table, replace(chunks.setting, profile=profile), chunks.placed)
    every = chunks.on(whole)
    return np.divide(part * chunks.on(plain.seconds), every, out=np.zeros_like(every), where=every > 0)
