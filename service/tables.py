"""Answers as tables for people: decimal GB, seconds, per cent."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from models.estimate import (
    Assumption,
    Candidate,
    HostOrder,
    Memory,
    Pipeline,
    RankedCandidate,
    SearchAnswer,
    Space,
)
from models.layout import Axis, Layout
from service.order_lines import other_orders, ties

PIPE_WIDTH = 240
"""Columns written to where there is no terminal and COLUMNS does not say."""


def console() -> Console:
    """A terminal as wide as it is, or a pipe wide enough to keep rows whole."""
    wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(width=wide, highlight=False)


@dataclass(frozen=True)
class Column:
    """One column: its head, and a cell a row."""

    head: str
    cells: Sequence[str]
    left: bool = False

    @property
    def width(self) -> int:
        """Characters it takes, with the space beside it."""
        return max(map(cell_len, (self.head, *self.cells))) + 2


def print_columns(console: Console, columns: Sequence[Column]) -> None:
    """Print a table; one too wide is cut into several, each led by the first column."""
    key, *rest = columns
    while rest:
        taken = [key]
        room = console.width - key.width
        while rest and (rest[0].width <= room or len(taken) == 1):
            room -= rest[0].width
            taken.append(rest.pop(0))
        _print_table(console, taken)


def _print_table(console: Console, columns: Sequence[Column]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(Text(column.head), justify="left" if column.left else "right", overflow="fold")
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*map(Text, row))
    console.print(table)
    console.print()


def gigabytes(count: float) -> str:
    """Decimal GB.

    >>> gigabytes(80_000_000_000)
    '80.0'
    """
    return f"{count / 1e9:.1f}"


def print_search(console: Console, answer: SearchAnswer) -> None:
    """Print a shortlist, how it came about, and what was assumed."""
    if answer.shortlist:
        print_columns(console, _shortlist(answer.shortlist))
    else:
        line(console, "No layout fits.", "bold")
    line(console, _space(answer.space, answer.outcome))
    for told in (
        *ties(answer.shortlist),
        *(told for place in answer.shortlist[:1] for told in other_orders(place)),
    ):
        line(console, told)
    if answer.conflict:
        _print_conflict(console, answer)
    print_notes(console, answer.assumptions, (*answer.warnings, *_row_warnings(answer.shortlist)))


def _shortlist(rows: Sequence[RankedCandidate]) -> list[Column]:
    return [
        Column("#", [str(r.rank) for r in rows]),
        *_layout_columns([r.layout for r in rows]),
        Column("step s", [f"{r.step_time_s:.3f}" for r in rows]),
        Column("MFU", [f"{r.mfu:.1%}" for r in rows]),
        Column("TFLOP/s", [f"{r.tflops_per_gpu:.0f}" for r in rows]),
        Column("tok/s/GPU", [f"{r.tokens_per_s_per_gpu:.0f}" for r in rows]),
        Column("peak/limit GB", [peak(r.memory) for r in rows]),
        Column("fullest stage", [str(r.memory.peak_stage) for r in rows]),
        *_pipelines([r.pipeline for r in rows]),
        Column("variants", [str(r.variants) for r in rows]),
        *_start(rows),
        Column("busiest link", [_busiest(r) for r in rows], left=True),
        Column("where the time goes", [_parts(r) for r in rows], left=True),
    ]


def _pipelines(rows: Sequence[Pipeline | None]) -> list[Column]:
    """How busy the stages keep each other, where some layout has stages."""
    if not any(rows):
        return []
    return [
        Column("bubble", [f"{r.bubble_of_total:.1%}" if r else "" for r in rows]),
        Column("imbalance", [f"{r.imbalance:.1%}" if r else "" for r in rows]),
        Column("slowest stage", [str(r.limiting_stage) if r else "" for r in rows]),
    ]


def _start(rows: Sequence[RankedCandidate]) -> list[Column]:
    """How each layout starts, where some rank order is not a stock launcher's."""
    if not any(row.host_order for row in rows):
        return []
    return [Column("starts with", [_starts_with(row.host_order) for row in rows], left=True)]


def _starts_with(order: HostOrder | None) -> str:
    """What a rank order takes to start, in a word or two."""
    if order is None:
        return "stock order"
    if order.launch_order is None:
        return "no stock launcher"
    return "hosts reordered" if order.gpu_order is None else "hosts and GPUs reordered"


def _layout_columns(rows: Sequence[Layout]) -> list[Column]:
    return [
        Column("TP", [str(x.tp) for x in rows]),
        Column("CP", [str(x.cp) for x in rows]),
        Column("PP×V", [f"{x.pp}×{x.vpp}" for x in rows]),
        Column("DP", [str(x.dp) for x in rows]),
        Column("EP/ETP", [f"{x.ep}/{x.etp}" for x in rows]),
        Column("ZeRO", [str(x.zero) for x in rows]),
        Column("schedule", [x.schedule for x in rows], left=True),
        Column("mbs", [str(x.micro_batch) for x in rows]),
        Column("G", [str(x.micro_batches) for x in rows]),
        Column("recompute", [recomputed(x) for x in rows], left=True),
        Column("rank order", ["-".join(x.rank_order) for x in rows], left=True),
    ]


def recomputed(layout: Layout) -> str:
    """The kind of recompute; of how many layers, where each chunk has its own number."""
    again = layout.recompute_stage_layers
    return (
        layout.recompute if again is None else f"{layout.recompute} {sum(again)}/{sum(layout.stage_layers)}"
    )


def peak(memory: Memory) -> str:
    """Peak over limit. [GB]."""
    return f"{gigabytes(memory.peak_bytes)}/{gigabytes(memory.limit_bytes)}"


def _busiest(row: Candidate) -> str:
    """The tier that sends longest, with its share of the step."""
    seconds: dict[str, float] = {}
    for dimension in row.traffic:
        for tier in dimension.tiers:
            seconds[tier.tier] = seconds.get(tier.tier, 0.0) + tier.seconds
    if not any(seconds.values()):
        return "none"
    name = max(seconds, key=lambda tier: seconds[tier])
    return f"{name} {seconds[name] / row.step_time_s:.0%}"


def time_parts(row: Candidate) -> list[tuple[str, float]]:
    """Name and seconds of the parts that take any time, longest first."""
    parts = [(n.removesuffix("_s").replace("_", " "), s) for n, s in row.time.model_dump().items()]
    return sorted((part for part in parts if part[1] > 0), key=lambda part: -part[1])


def _parts(row: Candidate, most: int = 3) -> str:
    return ", ".join(f"{name} {seconds / row.step_time_s:.0%}" for name, seconds in time_parts(row)[:most])


def _space(space: Space, outcome: str) -> str:
    rules = sorted(space.rejected.items(), key=lambda rule: (-rule[1], rule[0]))
    rejected = ", ".join(f"{rule} {count:,}" for rule, count in rules if count)
    whole = "complete" if space.complete else "NOT complete"
    return (
        f"{outcome}: {space.enumerated:,} layouts enumerated, {space.fit:,} fit; "
        f"rejected: {rejected or 'none'}; {whole}, solver {space.solver_status}, {space.wall_s:.2f} s"
    )


def _print_conflict(console: Console, answer: SearchAnswer) -> None:
    conflict = answer.conflict
    assert conflict is not None
    line(console, "Rules that leave nothing:", "bold")
    for rule in conflict.rules:
        line(console, f"  {rule.name}: {rule.statement}")
    for relaxation in conflict.relaxations:
        changes = "; ".join(f"{c.field} from {c.from_} to {c.to}" for c in relaxation.change)
        line(console, f"It would fit with {changes}: {describe(relaxation.then)}")
    if conflict.closest:
        over = gigabytes(conflict.closest.over_bytes)
        line(console, f"Closest, {conflict.closest.over_bytes:,} bytes ({over} GB) over the limit on stage "
              f"{conflict.closest.memory.peak_stage}: {describe(conflict.closest.layout)}")  # fmt: skip


def describe(layout: Layout) -> str:
    """One layout in one line."""
    names = ("tp", "cp", "pp", "vpp", "dp", "ep", "etp")
    degrees = " ".join(f"{name}={getattr(layout, name)}" for name in names)
    order = "-".join(layout.rank_order)
    return (
        f"{degrees} zero={layout.zero} {layout.schedule} micro_batch={layout.micro_batch} "
        f"G={layout.micro_batches} recompute={recomputed(layout)} order={order}"
    )


def _row_warnings(rows: Sequence[RankedCandidate]) -> list[str]:
    """Each warning once, with the places it stands at."""
    places: dict[str, list[str]] = {}
    for row in rows:
        for warning in row.warnings:
            places.setdefault(warning, []).append(f"#{row.rank}")
    return [w if len(at) == len(rows) else f"{', '.join(at)}: {w}" for w, at in places.items()]


def print_notes(console: Console, assumptions: Sequence[Assumption], warnings: Sequence[str]) -> None:
    """Print what was assumed, and what to beware of."""
    if assumptions:
        line(console, "Assumed:")
    for a in assumptions:
        line(console, f"  {a.field} = {_short(a.value)} ({a.why})")
    for warning in warnings:
        line(console, f"Warning: {warning}", "yellow")


def _short(value: object, most: int = 120) -> str:
    """A value in few characters; a rank order as launchers write it."""
    if isinstance(value, (list, tuple)):
        value = ("-" if set(value) == set(get_args(Axis)) else ", ").join(map(str, value))
    text = str(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def line(console: Console, text: str, style: str = "") -> None:
    """Print one line of plain text, folded at the terminal's width."""
    console.print(Text(text, style=style))
