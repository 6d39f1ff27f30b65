"""A layout's layers placed on its stages: what a split costs it, and the best one."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from models.cost.kernels.compute import compute_seconds
from models.cost.memory.stage_bytes import memory_lines, stages_in_flight
from models.cost.pipeline.actions import round_robin, there_and_back
from models.cost.recomputed_layers import Recomputed
from models.cost.setting import Setting
from models.cost.stages import Stages, every_stage, stage_kinds
from models.cost.step.step_time import all_traffic, micro_batch_parts
from models.cost.table import LayoutTable
from models.layout import Layout
from search.stage_alike import alike_split
from search.stage_dynamic import dynamic_split
from search.stage_problem import (
    StageProblem,
    cost_of,
    least_longest_rank,
    smallest_longest_chunk,
)
from search.stages import StageSplit, assign_layers

LIMIT_S = 0.05
"""Longest the solver may take for one layout before the dynamic program answers. [s]"""

Array = NDArray[np.float64]


def placed_layers(layout: Layout, setting: Setting, *, for_memory: bool = False) -> Layout:
    """Return a layout with its layers placed for the shortest step that fits, or for the least memory.

    The layout itself without pipeline stages, in real-valued stages, and where no split is found.
    """
    if layout.pp == 1 or setting.profile.real_valued_stages:
        return layout
    problem = stage_problem(layout, setting)
    split = _least_memory(problem) if for_memory else _shortest_step(problem, layout.stage_layers)
    return layout if split is None else layout.model_copy(update={"stage_layers": split})


def _shortest_step(problem: StageProblem, even: tuple[int, ...]) -> tuple[int, ...] | None:
    """The even split where ranks run several chunks and none is faster; else what the solver finds."""
    if not problem.one_each and _is_shortest(problem, even):
        return even
    found = assign_layers(problem, LIMIT_S)
    return found.layers if isinstance(found, StageSplit) else None


def _is_shortest(problem: StageProblem, split: tuple[int, ...]) -> bool:
    """Whether a split fits, and no other has shorter chunks or shorter ranks."""
    if len(split) != problem.chunks:
        return False
    cost = cost_of(problem, split)
    chunk, rank = int(cost.chunk_steps.max()), int(cost.rank_steps.max())
    return cost.fits and chunk <= smallest_longest_chunk(problem) and rank <= least_longest_rank(problem)


def _least_memory(problem: StageProblem) -> tuple[int, ...] | None:
    """The least peak; where layers are alike the fastest of those that have it."""
    alike, split = alike_split(problem, memory_first=True)
    if alike:
        return split
    timeless = replace(problem, time=(0.0,) * len(problem.time), extra_time=(0.0,) * problem.chunks)
    return dynamic_split(timeless)


def stage_problem(layout: Layout, setting: Setting) -> StageProblem:
    """Return what a split of a layout's layers depends on, as the cost model prices it."""
    table = LayoutTable.of([layout])
    sparse = setting.architecture.sparse_layers()
    kinds = sorted(set(sparse))
    (time,) = layer_times(table, setting)
    rank_of = placed(layout)
    held = _Held.of(layout, table, setting)
    chunks = len(rank_of)
    extra_time, extra_bytes = [0.0] * chunks, [0] * chunks
    extra_time[0] += time.first
    extra_time[-1] += time.last + setting.mtp_layers * time.layer(sparse[-1])
    for rank, beside in enumerate(held.beside):
        extra_bytes[rank_of.index(rank)] += beside
    return StageProblem(
        kinds=tuple(kinds.index(kind) for kind in sparse),
        time=tuple(time.layer(kind) for kind in kinds),
        state_bytes=tuple(held.state[kind] for kind in kinds),
        activation_bytes=tuple(held.activations[kind] for kind in kinds),
        rank_of=rank_of,
        in_flight=tuple(held.in_flight[rank] for rank in rank_of),
        extra_time=tuple(extra_time),
        extra_bytes=tuple(extra_bytes),
        limit_bytes=(setting.memory_limit_bytes,) * (max(rank_of) + 1),
        least_layers=(0, *(1,) * (chunks - 2), 0),
    )


def placed(layout: Layout) -> tuple[int, ...]:
    """Return the rank of each chunk, (C,); under dualpipe a rank stands for its mirror image too.

    >>> from tests.builders import layout
    """
    if layout.schedule == "dualpipe":
        return tuple(min(stage, layout.pp - 1 - stage) for stage in range(layout.pp))
    if layout.schedule in ("zb-v", "dualpipe-v"):
        return there_and_back(layout.pp)
    return round_robin(layout.pp, layout.vpp)


@dataclass(frozen=True)
class LayerTimes:
    """A micro-batch, both ways, in a layer of either kind and at either end. [s]."""

    dense: float
    sparse: float
    first: float
    last: float

    def layer(self, sparse: bool) -> float:
        """Return what a layer takes."""
        return self.sparse if sparse else self.dense


def layer_times(table: LayoutTable, setting: Setting) -> list[LayerTimes]:
    """Return what a layer of each kind and either end take in each layout: each as a stage of its own."""
    none = np.zeros((len(table), 4))
    dense, sparse, first, last = (none + one for one in np.eye(4))
    alone = Stages(none, dense, sparse, first, last, none + 1)
    traffic = all_traffic(table, stage_kinds(table, setting), setting)
    parts = micro_batch_parts(table, compute_seconds(table, setting), alone, traffic, setting)
    return [LayerTimes(*each) for each in np.add.reduce(list(parts.values())).tolist()]


@dataclass(frozen=True)
class _Held:
    """What ranks hold: of each layer, and beside their layers. [B]."""

    state: dict[bool, int]
    """By whether the layer is sparse."""
    activations: dict[bool, int]
    """The same of one micro-batch."""
    in_flight: list[float]
    beside: list[int]

    @classmethod
    def of(cls, layout: Layout, table: LayoutTable, setting: Setting) -> "_Held":
        """Read a layer's bytes off the stages with a layer more, on the first rank and the last."""
        code = int(table.schedule[0])
        stages = every_stage(layout.pp, layout.vpp, setting, layout.stage_layers, code, table.recomputed)
        ranks = max(placed(layout)) + 1
        held = stages_in_flight(table, stages, setting)[0]
        whole = _bytes(table, stages, setting)
        state, activations = {}, {}
        beside = whole
        for sparse, counts in ((False, stages.dense[0]), (True, stages.sparse[0])):
            if not counts.any():
                continue
            more = _bytes(table, _with_one_more(stages, table.recomputed, sparse=sparse), setting) - whole
            apart = float(held[0] - held[ranks - 1])
            each = float(more[0] - more[ranks - 1]) / apart if apart > 0 else 0.0
            activations[sparse] = max(int(np.ceil(each)), 0)
            state[sparse] = int(np.ceil(more[0] - held[0] * activations[sparse]))
            beside = beside - counts * (state[sparse] + held * activations[sparse])
        return cls(state, activations, held[:ranks].tolist(), np.ceil(beside[:ranks]).astype(int).tolist())


def _with_one_more(stages: Stages, recomputed: Recomputed, *, sparse: bool) -> Stages:
    """A layer more on each stage: recomputed, unless as many are as may be."""
    more = np.ones_like(stages.dense)
    spared = more * (isinstance(recomputed, int) and stages.dense + stages.sparse >= recomputed)
    return Stages(
        stages.index,
        stages.dense + more * (not sparse),
        stages.sparse + more * sparse,
        stages.first,
        stages.last,
        stages.count,
        stages.spared_dense + spared * (not sparse),
        stages.spared_sparse + spared * sparse,
    )


def _bytes(table: LayoutTable, stages: Stages, setting: Setting) -> Array:
    """Bytes of each stage, (p,)."""
    lines = memory_lines(table, stages, setting)
    return np.asarray(np.add.reduce([value[0] for value in lines.values()]), dtype=np.float64)
