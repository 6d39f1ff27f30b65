"""Whole bytes a GPU of each pipeline stage sends in a step: by dimension, and by the group they go over.

Stages differ: the ends send fewer PP messages, hold the embedding and the head, and reduce their
gradients; layers of experts may stand on some stages only. The GPU that sends the most in a
dimension sends what `models.cost.traffic.traffic_report` tells of it, to the byte.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.cost.apportion import apportion
from models.cost.setting import Setting
from models.cost.shards import rank_parameters
from models.cost.stages import Stages, every_stage
from models.cost.step.step_time import Traffic, all_traffic
from models.cost.table import LayoutTable
from models.cost.traffic.copies_traffic import copies_sent
from models.cost.traffic.layers import LayerTraffic
from models.cost.traffic.pipeline_traffic import PipelineTraffic, stage_messages
from models.cost.traffic.traffic_report import CLOSING, COPIES, operation
from models.layout import Axis, Layout

Array = NDArray[np.float64]
Ranks = NDArray[np.int64]

Flow = tuple[Array, dict[str, Array]]
"""Bytes a rank of each stage sends, (p,), in all and by the group they go over. [B]"""

NEXT, PREVIOUS, ENDS, ALL = "next stage", "previous stage", "end stages", "all"
"""What bytes go to where it is no group of `models.cost.network.placement.groups`: neighbours of the pipeline
(its ends are neighbours too, of interleaved chunks), the stage as far from the other end, as the first
and the last are, every rank of the job."""


@dataclass(frozen=True)
class StageSent:
    """What one dimension sends in a step."""

    dimension: Axis
    operation: str
    over: dict[str, tuple[int, ...]]
    """Bytes a rank of each stage sends, (p,), by the group they go over. [B]"""

    @property
    def sent(self) -> tuple[int, ...]:
        """Bytes a rank of each stage sends, (p,). [B]."""
        return tuple(map(sum, zip(*self.over.values(), strict=True)))


def stage_sent(layout: Layout, setting: Setting) -> tuple[StageSent, ...]:
    """Return what every dimension sends, in the order of the traffic report, the closing ones last."""
    table = LayoutTable.of([layout])
    code = int(table.schedule[0])
    stages = every_stage(layout.pp, layout.vpp, setting, layout.stage_layers, code, table.recomputed)
    return sent_by_stage(layout, table, stages, all_traffic(table, stages, setting), setting)


def sent_by_stage(
    layout: Layout, table: LayoutTable, stages: Stages, traffic: Traffic, setting: Setting
) -> tuple[StageSent, ...]:
    """Return what every dimension sends where its traffic is reckoned already."""
    runs = float(table.passes(setting.workload.global_batch)[0])
    flows: dict[Axis, Flow] = {
        "tp": _layered(traffic.tp, ("tp", "etp"), runs, stages),
        "cp": _layered(traffic.cp, ("cp",), runs, stages),
        "ep": _layered(traffic.ep, ("ep",), runs, stages),
        "pp": _pipeline(table, traffic.pp, setting),
        "dp": (traffic.dp.sent[0], {name: bytes_[0] for name, bytes_ in traffic.dp.over.items()}),
    }
    found = [
        StageSent(name, operation(name, table), _whole(*flow))
        for name, flow in flows.items()
        if flow[0].max() > 0
    ]
    if not setting.profile.real_valued_stages:
        found += _closing(layout, traffic)
        copies = copies_sent(table, rank_parameters(table, stages, setting), setting)[0]
        found.append(StageSent("dp", COPIES, _whole(copies, {ENDS: copies})))
    return tuple(one for one in found if max(one.sent) > 0)


def stage_to(to: str, stage: Ranks, pp: int) -> Ranks:
    """Stage that bytes to a neighbour or to the other end go to, of each stage; the ends are neighbours.

    >>> stage_to(NEXT, np.arange(4), 4).tolist(), stage_to(ENDS, np.arange(4), 4).tolist()
    ([1, 2, 3, 0], [3, 2, 1, 0])
    """
    if to == ENDS:
        return np.asarray(pp - 1 - stage)
    return np.asarray((stage + {NEXT: 1, PREVIOUS: -1}[to]) % pp)


def _layered(one: LayerTraffic, names: tuple[str, ...], runs: float, stages: Stages) -> Flow:
    """A step's bytes of what is told a layer and micro-batch, over the groups its flows go over, if any."""
    over = {name: runs * flow.sent.on(stages)[0] for name, flow in zip(names, one.flows, strict=False)}
    return runs * one.sent.on(stages)[0], over


def _pipeline(table: LayoutTable, traffic: PipelineTraffic, setting: Setting) -> Flow:
    """Messages to neighbours, in bytes."""
    up, down = (count * float(traffic.message[0]) for count in stage_messages(table, setting))
    return up + down, {NEXT: up, PREVIOUS: down}


def _closing(layout: Layout, traffic: Traffic) -> list[StageSent]:
    """What closes the step: the shared embedding between the end stages, the norm among all ranks."""
    embedding, norm = (
        round(float(traffic.tied_embedding.sent[0])),
        round(float(traffic.gradient_norm.sent[0])),
    )
    ends = tuple(embedding if stage in (0, layout.pp - 1) else 0 for stage in range(layout.pp))
    return [
        StageSent("pp", CLOSING["pp"], {ENDS: ends}),
        StageSent("dp", CLOSING["dp"], {ALL: (norm,) * layout.pp}),
    ]


def _whole(sent: Array, over: dict[str, Array]) -> dict[str, tuple[int, ...]]:
    """Round what each stage sends as the traffic report does, and split it over the groups."""
    stages = range(len(sent))
    split = [apportion(round(float(sent[i])), [float(part[i]) for part in over.values()]) for i in stages]
    return dict(zip(over, zip(*split, strict=True), strict=True))
