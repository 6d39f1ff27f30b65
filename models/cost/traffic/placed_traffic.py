"""Who sends how much to whom: every dimension's bytes on the ranks as the layout places them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from models.cost.network.placement import Group, dense_strides, groups
from models.cost.network.routes import routes
from models.cost.network.spread import Ranks, Spread, Whole, grouped
from models.cost.network.tiered_spread import tiered_spreads
from models.cost.setting import Setting
from models.cost.table import LayoutTable
from models.cost.traffic.layers import copies_sent
from models.cost.traffic.stage_sent import ALL, ENDS, NEXT, PREVIOUS, StageSent, stage_sent, stage_to
from models.layout import Layout

MOST_IN_64_BITS = 2**62
"""A sum below it is reckoned in 64 bits, one above in Python's integers. [B]"""


@dataclass(frozen=True)
class Messages:
    """Bytes from one rank to another."""

    source: Ranks
    target: Ranks
    sent: Whole
    """(messages,). [B]"""

    def add_between(self, total: Whole, unit: int) -> None:
        """Add what each block of `unit` ranks sends to each, itself included, (B, B). [B]."""
        np.add.at(total, (self.source // unit, self.target // unit), self.sent)

    def add_within(self, total: Whole, unit: int) -> None:
        """Add what stays inside each block of `unit` ranks, (B,). [B]."""
        block = self.source // unit
        stays = block == self.target // unit
        np.add.at(total, block[stays], self.sent[stays])


@dataclass(frozen=True)
class PlacedTraffic:
    """One dimension's traffic, rank by rank."""

    told: StageSent
    sent: Whole
    """What each rank of the job sends, (gpus,). [B]"""
    flows: tuple[Spread | Messages, ...]


@dataclass(frozen=True)
class _Place:
    """Where the ranks of a layout are."""

    layout: Layout
    setting: Setting
    table: LayoutTable
    groups: dict[str, Group]
    stage: Ranks
    """Pipeline stage of each rank, (gpus,)."""
    stride: int
    """Ranks from a stage to the next."""


def placed_traffic(layout: Layout, setting: Setting) -> tuple[PlacedTraffic, ...]:
    """Return every dimension's traffic, in the order of `models.cost.traffic.stage_sent`."""
    table = LayoutTable.of([layout])
    stride = int(dense_strides(table)["pp"][0])
    stage = np.arange(layout.gpus) // stride % layout.pp
    place = _Place(layout, setting, table, groups(table), stage, stride)
    told = stage_sent(layout, setting)
    most = layout.gpus * sum(max(one.sent) for one in told)
    return tuple(
        _placed(one, place, np.dtype(np.int64 if most < MOST_IN_64_BITS else object)) for one in told
    )


def _placed(told: StageSent, place: _Place, kind: np.dtype[Any]) -> PlacedTraffic:
    sent = {name: np.array(bytes_, dtype=kind)[place.stage] for name, bytes_ in told.over.items()}
    flows = tuple(flow for name, bytes_ in sent.items() for flow in _flows(name, bytes_, place))
    return PlacedTraffic(told, np.add.reduce(list(sent.values())), flows)


def _flows(name: str, sent: Whole, place: _Place) -> list[Spread] | list[Messages]:
    """Bytes of one group of ranks, or to one neighbour, as they go from rank to rank."""
    if name in (NEXT, PREVIOUS, ENDS):
        return [_messages(name, sent, place)]
    ranks = _ranks(None if name == ALL else place.groups[name], place.layout.gpus)
    if name == "ep" and place.setting.stack.dispatcher == "deduplicating":
        return [spread for part in ranks for spread in _dispatched(part, sent, place)]
    return [Spread(part, sent[part]) for part in ranks]


def _ranks(group: Group | None, gpus: int) -> list[Ranks]:
    """Ranks of every group of a kind; all of the job where there is none."""
    ranks = np.arange(gpus)
    label = ranks.copy()
    if group is None:
        label[:] = 0
    else:
        for size, stride in zip(group.sizes, group.strides, strict=True):
            label -= ranks // stride[0] % size[0] * stride[0]
    return grouped(label, ranks)


def _messages(name: str, sent: Whole, place: _Place) -> Messages:
    """Bytes to the rank at the same place of another stage; the pipeline's ends are neighbours."""
    apart = stage_to(name, place.stage, place.layout.pp) - place.stage
    source = np.flatnonzero(sent)
    target = (np.arange(place.layout.gpus) + apart * place.stride)[source]
    return Messages(source, target, sent[source])


def _dispatched(groups_: Ranks, sent: Whole, place: _Place) -> list[Spread]:
    """Expert parallelism's bytes where one copy of a token goes to each node, by tier."""
    setting, gpus = place.setting, place.layout.gpus
    inside = routes(place.table, setting).members["ep"]
    units = [tier.gpus or gpus for tier in setting.cluster.tiers[:-1]] + [gpus]
    return tiered_spreads(groups_, sent, units, copies_sent(inside, setting)[0], inside[0])
