"""Layouts as columns: what the cost physics prices, N at once.

Every column is an integer array of shape (N,). Choices with names (schedule, recompute, …) are
stored as their index in the tuples of `models.layout`; rank orders as an index into `orders`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.layout import (
    CONTEXT_COMMS,
    GRADIENT_REDUCES,
    RECOMPUTES,
    SCHEDULES,
    WEIGHT_GATHERS,
    Axis,
    Layout,
    RecomputeModule,
)

IntVector = NDArray[np.int64]
Vector = NDArray[np.float64]

NONE, GPIPE, ONE_F_ONE_B, INTERLEAVED, ZB_H1, ZB_V, DUALPIPE_V, DUALPIPE = range(8)
"""Codes of `SCHEDULES`."""
KEEP_ALL, SELECTIVE, FULL = range(3)
"""Codes of `RECOMPUTES`."""
ALL_GATHER, RING, ULYSSES = range(3)
"""Codes of `CONTEXT_COMMS`."""
ONCE, PER_MICRO_BATCH = range(2)
"""Codes of `GRADIENT_REDUCES`."""
PER_PASS, KEEP_TO_BACKWARD, KEEP_FOR_STEP = range(3)
"""Codes of `WEIGHT_GATHERS`."""

CODES: dict[str, tuple[str, ...]] = {
    "schedule": SCHEDULES,
    "recompute": RECOMPUTES,
    "cp_comm": CONTEXT_COMMS,
    "gradient_reduce": GRADIENT_REDUCES,
    "weight_gather": WEIGHT_GATHERS,
}
"""Columns that hold an index into a tuple of names."""

BOOLEAN = ("sequence_parallel", "tp_overlap", "dp_overlap")
"""Columns that hold 0 or 1."""


SHARED = ("stage_layers", "recompute_modules", "recompute_layers", "recompute_stage_layers", "hsdp_shard")
"""Knobs that are not searched: one value for all rows of a table."""


@dataclass(frozen=True)
class LayoutTable:
    """N layouts of one job, a column a knob."""

    tp: IntVector
    cp: IntVector
    pp: IntVector
    vpp: IntVector
    dp: IntVector
    ep: IntVector
    etp: IntVector
    zero: IntVector
    schedule: IntVector
    micro_batch: IntVector
    micro_batch_group: IntVector
    recompute: IntVector
    sequence_parallel: IntVector
    cp_comm: IntVector
    gradient_reduce: IntVector
    weight_gather: IntVector
    tp_overlap: IntVector
    dp_overlap: IntVector
    order: IntVector
    """Index into `orders`."""
    orders: tuple[tuple[Axis, ...], ...]
    """The rank orders the rows choose among, innermost axis first."""
    stage_layers: tuple[int, ...] | None = None
    """Layers of each chunk where the caller fixed them (all rows then share pp and vpp);
    the balanced split of `models.cost.stages` otherwise."""
    recompute_modules: tuple[RecomputeModule, ...] = ("core_attn",)
    """What `selective` recomputes, for all rows."""
    recompute_layers: int | None = None
    """Layers of each stage that `full` recomputes, for all rows; every layer unless set."""
    recompute_stage_layers: tuple[int, ...] | None = None
    """Layers of each chunk that `full` recomputes, for all rows, which then share pp and vpp."""
    hsdp_shard: int | None = None
    """Ranks ZeRO shards over, for all rows; all of dp * cp unless set."""
    sparing: bool = False
    """Whether stages are given that say for each row which layers `full` spares."""

    def __len__(self) -> int:
        """Return N."""
        return len(self.tp)

    @property
    def recomputed(self) -> int | tuple[int, ...] | None:
        """Layers `full` recomputes: so many of each stage, or of each chunk; nothing where it is all."""
        each = self.recompute_stage_layers
        return self.recompute_layers if each is None else each

    @property
    def spares(self) -> bool:
        """Whether `full` may leave layers alone."""
        return self.sparing or self.recomputed is not None

    @property
    def gpus(self) -> IntVector:
        """GPUs of the job, tp * cp * pp * dp, shape (N,)."""
        return self.tp * self.cp * self.pp * self.dp

    @property
    def edp(self) -> IntVector:
        """Data-parallel degree of the experts, tp * cp * dp / (etp * ep), shape (N,)."""
        return (self.tp * self.cp * self.dp) // (self.etp * self.ep)

    def micro_batches(self, global_batch: int) -> IntVector:
        """Micro-batches of a step on each replica, G = global_batch / (micro_batch * dp), shape (N,)."""
        return global_batch // (self.micro_batch * self.dp)

    def passes(self, global_batch: int) -> Vector:
        """Micro-batches that pass each stage of a rank, shape (N,): G; half from each end under dualpipe."""
        runs = self.micro_batches(global_batch)
        return np.where(self.schedule == DUALPIPE, runs / 2, runs).astype(np.float64)

    def take(self, rows: NDArray[Any] | slice) -> "LayoutTable":
        """Return the chosen rows as a table of their own."""
        return replace(self, **{name: getattr(self, name)[rows] for name in COLUMNS})

    @classmethod
    def joined(cls, tables: Sequence["LayoutTable"]) -> "LayoutTable":
        """Return the rows of several tables that share their orders and unsearched knobs, in turn."""
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(table, name) for table in tables]) for name in COLUMNS
        }
        return replace(tables[0], **columns)

    @classmethod
    def of(cls, layouts: Sequence[Layout]) -> "LayoutTable":
        """Return layouts as rows; full recompute of no layer is none.

        Raises
        ------
        ValueError
            When layouts that differ in a knob of `SHARED` are put into one table.
        """
        orders = tuple(dict.fromkeys(layout.rank_order for layout in layouts))
        shared = {name: {getattr(layout, name) for layout in layouts} for name in SHARED}
        mixed = [name for name, found in shared.items() if len(found) > 1]
        if mixed:
            raise ValueError(f"one table holds one value of {', '.join(mixed)}")
        values: dict[str, Any] = {name: _column(name, layouts, orders) for name in COLUMNS}
        values |= {name: next(iter(found)) for name, found in shared.items()}
        if not any(values["recompute_stage_layers"] or (1,)):
            values["recompute"] = np.where(values["recompute"] == FULL, KEEP_ALL, values["recompute"])
        return cls(**values, orders=orders)

    def layout(self, row: int, global_batch: int, stage_layers: tuple[int, ...]) -> Layout:
        """Return one row as a layout."""
        values: dict[str, Any] = {name: int(getattr(self, name)[row]) for name in COLUMNS if name != "order"}
        for name, names in CODES.items():
            values[name] = names[values[name]]
        for name in BOOLEAN:
            values[name] = bool(values[name])
        return Layout(
            **values,
            rank_order=self.orders[int(self.order[row])],
            edp=int(self.edp[row]),
            gpus=int(self.gpus[row]),
            micro_batches=int(self.micro_batches(global_batch)[row]),
            stage_layers=stage_layers,
            hsdp_shard=self.hsdp_shard,
            **self._recompute_extent(values["recompute"]),
        )

    def _recompute_extent(self, recompute: str) -> dict[str, Any]:
        """Return what the row's recompute covers: modules mean something to selective, layers to full."""
        if recompute == "selective":
            return {"recompute_modules": self.recompute_modules}
        if recompute != "full":
            return {}
        return {name: getattr(self, name) for name in ("recompute_layers", "recompute_stage_layers")}


NO_COLUMNS = ("orders", "sparing")
"""What is one for all rows and no knob."""
COLUMNS: tuple[str, ...] = tuple(f.name for f in fields(LayoutTable) if f.name not in (*NO_COLUMNS, *SHARED))


def _column(name: str, layouts: Iterable[Layout], orders: tuple[tuple[Axis, ...], ...]) -> IntVector:
    if name == "order":
        return np.array([orders.index(layout.rank_order) for layout in layouts], dtype=np.int64)
    values = (getattr(layout, name) for layout in layouts)
    if name in CODES:
        values = (CODES[name].index(value) for value in values)
    return np.array([int(value) for value in values], dtype=np.int64)
