"""Whole bytes a GPU of each pipeline stage sends in a step: by dimension, and by the group they go over.

Stages differ: the ends send fewer PP messages, hold the embedding and the head, and reduce their
gradients; layers of experts may stand on some stages only. The GPU that sends the most in a
dimension sends what `models.cost.traffic_report` tells of it, to the byte.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.cost.apportion import apportion
from models.cost.setting import Setting
from models.cost.stages import Stages, every_stage
from models.cost.step_time import Traffic, all_traffic
from models.cost.table import LayoutTable
from models.cost.traffic import LayerTraffic, PipelineTraffic
from models.cost.traffic_report import CLOSING, operation
from models.layout import Axis, Layout

Array = NDArray[np.float64]

Flow = tuple[Array, dict[str, Array]]
"""Bytes a rank of each stage sends, (p,), in all and by the group they go over. [B]"""

NEXT, PREVIOUS, ENDS, ALL = "next stage", "previous stage", "end stages", "all"
"""What bytes go to where it is no group of `models.cost.placement.groups`: neighbours of the pipeline
(its ends are neighbours too, of interleaved chunks), its first and last stage, every rank of the job."""


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
    stages = every_stage(layout.pp, layout.vpp, setting, layout.stage_layers)
    traffic = all_traffic(table, stages, setting)
    flows: dict[Axis, Flow] = {
        "tp": _layered(traffic.tp, ("tp", "etp"), layout, stages),
        "cp": _layered(traffic.cp, ("cp",), layout, stages),
        "ep": _layered(traffic.ep, ("ep",), layout, stages),
        "pp": _pipeline(layout, traffic.pp),
        "dp": (traffic.dp.sent[0], {name: bytes_[0] for name, bytes_ in traffic.dp.over.items()}),
    }
    found = [
        StageSent(name, operation(name, table), _whole(*flow))
        for name, flow in flows.items()
        if flow[0].max() > 0
    ]
    if not setting.profile.real_valued_stages:
        found += _closing(layout, traffic)
    return tuple(one for one in found if max(one.sent) > 0)


def _layered(one: LayerTraffic, names: tuple[str, ...], layout: Layout, stages: Stages) -> Flow:
    """A step's bytes of what is told a layer and micro-batch, over the groups its flows go over, if any."""
    runs = layout.micro_batches
    over = {name: runs * flow.sent.on(stages)[0] for name, flow in zip(names, one.flows, strict=False)}
    return runs * one.sent.on(stages)[0], over


def _pipeline(layout: Layout, traffic: PipelineTraffic) -> Flow:
    """Messages to neighbours: each micro-batch crosses each chunk boundary forward, and again backward.

    Chunks run through the stages in turn, so the last stage's next chunk is on the first again.
    """
    pp, path = layout.pp, np.arange(layout.pp * layout.vpp) % layout.pp
    crossed = path[:-1] != path[1:]
    sides = (path[:-1][crossed], path[1:][crossed])
    left, entered = (np.bincount(side, minlength=pp).astype(np.float64) for side in sides)
    runs, message = layout.micro_batches, float(traffic.message[0])
    return (left + entered) * runs * message, {
        NEXT: left * runs * message,
        PREVIOUS: entered * runs * message,
    }


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
