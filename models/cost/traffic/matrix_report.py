"""One layout's traffic matrices in the words of the answer."""

from typing import Any

from models.cost.network.spread import Whole
from models.cost.setting import Setting
from models.cost.traffic.matrix import MOST_CELLS, MOST_UNITS, Matrices, added, matrices, row_sums
from models.cost.traffic.node_traffic import node_traffic
from models.cost.traffic.placed_traffic import PlacedTraffic, placed_traffic
from models.layout import Layout
from models.traffic_matrix import Cell, DimensionMatrix, Level, Matrix, NodeTraffic, RankRange, Unit

SPREAD = (
    "Each rank's bytes in a collective are spread evenly over the other ranks of its group, whichever "
    "algorithm carries them; under a deduplicating dispatcher, over the ranks each tier reaches first. An "
    "evaluation splits the same bytes over tiers by the algorithm that runs: row sums agree with it to the "
    "byte, its tiers need not. Bytes that do not divide go to the nearest ranks, the gradient norm's among "
    "them. Messages between stages go from rank to rank as they are sent."
)
"""How bytes are shared out, for the answer."""

LEVELS: dict[Level, str] = {"gpu": "GPUs", "node": "nodes"}
"""What a level asks for, in words."""


def matrix_report(layout: Layout, setting: Setting, level: Level) -> dict[str, Any]:
    """Return the fields of `models.traffic_matrix.TrafficAnswer` that follow from the layout alone."""
    placed = placed_traffic(layout, setting)
    found = matrices(placed, level, setting.cluster, layout.gpus)
    *nodes, whole = node_traffic(placed, layout.gpus, setting.cluster.gpus_per_node)
    size = found.unit.gpus
    sent = [row_sums(one, size) for one in placed]
    reason = _aggregated(found, level, layout.gpus, setting.cluster.gpus_per_node)
    return {
        "level": level,
        "layout": layout,
        "spread": SPREAD,
        "unit": found.unit,
        "aggregated": reason,
        "units": tuple(
            RankRange(first_rank=first, last_rank=min(first + size, layout.gpus) - 1)
            for first in range(0, layout.gpus, size)
        ),
        "dimensions": tuple(map(_dimension, placed, found.each, sent, nodes)),
        "sum": Matrix(**_matrix(found.sum, added(sent, (found.count,)), whole)),
    }


def _dimension(placed: PlacedTraffic, between: Whole, sent: Whole, nodes: NodeTraffic) -> DimensionMatrix:
    return DimensionMatrix(
        dimension=placed.told.dimension,
        operation=placed.told.operation,
        sent_bytes_per_gpu=max(placed.told.sent),
        stage_sent_bytes_per_gpu=placed.told.sent,
        **_matrix(between, sent, nodes),
    )


def _matrix(between: Whole, sent: Whole, nodes: NodeTraffic) -> dict[str, Any]:
    rows, columns = between.nonzero()
    found = zip(rows.tolist(), columns.tolist(), between[rows, columns].tolist(), strict=True)
    cells = tuple(Cell.model_construct(from_=row, to=column, bytes=count) for row, column, count in found)
    return {"sent_bytes": tuple(sent.tolist()), "cells": cells, "nodes": nodes}


def _aggregated(found: Matrices, level: Level, gpus: int, gpus_per_node: int) -> str | None:
    """Why a row is more than a GPU, or more than a node."""
    unit = found.unit
    if unit.count == 1 and unit.kind == level:
        return None
    asked = gpus if level == "gpu" else -(-gpus // gpus_per_node)
    return (
        f"{asked:,} {LEVELS[level]} make more than {MOST_UNITS} rows or {MOST_CELLS:,} cells: "
        f"each row and column stands for {unit.gpus:,} consecutive ranks, {unit_words(unit)}."
    )


def unit_words(unit: Unit) -> str:
    """Name what a row stands for.

    >>> unit_words(Unit(kind="gpu", count=1, gpus=1)), unit_words(Unit(kind="node", count=4, gpus=32))
    ('1 GPU', '4 nodes')
    >>> unit_words(Unit(kind="leaf", count=2, gpus=512))
    '2 units of the leaf tier'
    """
    many = "s" if unit.count > 1 else ""
    word = {"gpu": f"GPU{many}", "node": f"node{many}"}.get(unit.kind, f"unit{many} of the {unit.kind} tier")
    return f"{unit.count} {word}"
