"""A pipeline's timeline drawn: a row a stage, a bar a slot, white where it waits."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import ListedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from models.cost.pipeline.actions import Action, Kind, Slot, parts
from models.cost.pipeline.simulate import Timeline
from models.cost.pipeline.timeline_report import Timed, chunks_of
from models.errors import Fault, InvalidField
from search import Told
from service.drawing import PIXELS_PER_INCH

COLOURS = {
    Kind.FORWARD: "#56b4e9",
    Kind.BACKWARD: "#e69f00",
    Kind.INPUT: "#d55e00",
    Kind.WEIGHT: "#009e73",
}
"""Told apart by colour-blind readers too: M. Okabe and K. Ito, "Color universal design", 2008."""
NAMES = {
    Kind.FORWARD: "forward",
    Kind.BACKWARD: "backward",
    Kind.INPUT: "input gradient",
    Kind.WEIGHT: "weight gradient",
}
WIDTH_INCHES = 14.0
ROW_INCHES = 0.3
EDGES_INCHES = 1.6
"""Title, axis and legend together."""
LEAST_INCHES, MOST_INCHES = 2.4, 40.0
HEIGHT = 0.9
"""Of a bar, in rows."""
MOST_BARS = 4_000
"""Slots drawn each as a bar; more are painted a pixel at a time, so that a picture stays small."""
COLUMNS = 2_400
"""Pixels across a painted timeline."""
FONT_POINTS = 6.0
DIGIT_PIXELS = 0.65 * FONT_POINTS * PIXELS_PER_INCH / 72
"""Width of a digit as drawn."""
PALEST = 0.55
"""How far the last chunk's colour goes towards white."""


@dataclass(frozen=True)
class Bar:
    """A computation as drawn; a pair's two share its row."""

    action: Action
    chunk: int
    """Which of its stage's chunks."""
    start: float
    end: float
    bottom: float
    height: float


def gantt(told: Told) -> Figure:
    """Draw a timeline.

    Raises
    ------
    InvalidField
        It is too long to have been laid out.
    """
    found = told.timed
    if found.timeline is None:
        reason = "the schedule is too long to draw: no slot of it was laid out"
        raise InvalidField(
            Fault("Accept", "image/*", reason, "Accept application/json, or use fewer micro-batches.")
        )
    height = EDGES_INCHES + ROW_INCHES * found.size.pp
    figure = Figure(figsize=(WIDTH_INCHES, min(max(height, LEAST_INCHES), MOST_INCHES)), layout="constrained")
    axes = figure.add_subplot()
    if found.slots <= MOST_BARS:
        _draw_bars(axes, found)
    else:
        _paint(axes, found.timeline)
    _describe(figure, axes, told)
    return figure


def _draw_bars(axes: Axes, found: Timed) -> None:
    chunks = max(len(chunks_of(found, rank)) for rank in range(found.size.pp))
    bars = [bar for rank in range(found.size.pp) for bar in _bars(found, rank)]
    colours = [_shade(bar.action.kind, bar.chunk, chunks) for bar in bars]
    axes.add_collection(
        PolyCollection(
            [_corners(bar) for bar in bars], facecolors=colours, edgecolors="white", linewidths=0.3
        )
    )
    pixels = 0.9 * WIDTH_INCHES * PIXELS_PER_INCH / found.totals.span
    for bar in bars:
        label, length = str(bar.action.micro_batch), bar.end - bar.start
        if length * pixels > DIGIT_PIXELS * (len(label) + 0.5):
            middle = (bar.start + length / 2, bar.bottom + bar.height / 2)
            axes.text(*middle, label, ha="center", va="center_baseline", fontsize=FONT_POINTS)


def _corners(bar: Bar) -> list[tuple[float, float]]:
    top = bar.bottom + bar.height
    return [(bar.start, bar.bottom), (bar.start, top), (bar.end, top), (bar.end, bar.bottom)]


def _bars(found: Timed, rank: int) -> Iterator[Bar]:
    assert found.timeline is not None
    held = chunks_of(found, rank)
    for slot, start, end in found.timeline.slots(rank):
        actions = parts(slot)
        height = HEIGHT / len(actions)
        for place, action in enumerate(actions):
            bottom = rank - HEIGHT / 2 + place * height
            yield Bar(action, held.index(action.stage), start, end, bottom, height)


def _shade(kind: Kind, chunk: int, chunks: int) -> tuple[float, ...]:
    """A kind's colour, paler for later chunks."""
    towards_white = PALEST * chunk / max(chunks - 1, 1)
    return tuple(part + (1 - part) * towards_white for part in to_rgb(COLOURS[kind]))


def _paint(axes: Axes, timeline: Timeline) -> None:
    """Colour each pixel by what runs at its middle; of a pair the upper half of the row is the forward."""
    kinds = tuple(COLOURS)
    moments = (np.arange(COLUMNS) + 0.5) * timeline.span / COLUMNS
    rows = [
        _colours(timeline, rank, moments, kinds, half)
        for rank in range(timeline.schedule.ranks)
        for half in (0, -1)
    ]
    colours = ListedColormap(["white", *COLOURS.values()])
    extent = (0.0, timeline.span, timeline.schedule.ranks - 0.5, -0.5)
    axes.imshow(
        np.array(rows),
        cmap=colours,
        vmin=-0.5,
        vmax=len(kinds) + 0.5,
        extent=extent,
        aspect="auto",
        interpolation="nearest",
    )


def _colours(
    timeline: Timeline, rank: int, moments: NDArray[np.float64], kinds: tuple[Kind, ...], half: int
) -> NDArray[np.int64]:
    """Number of the kind that runs at each moment, from 1; 0 where the rank waits."""
    starts, ends = timeline.starts[rank], timeline.ends[rank]
    of_slot = np.array([_kind(slot, kinds, half) for slot in timeline.schedule.orders[rank]])
    at = np.searchsorted(starts, moments, side="right") - 1
    runs = (at >= 0) & (moments < ends[np.maximum(at, 0)])
    return np.where(runs, of_slot[np.maximum(at, 0)], 0)


def _kind(slot: Slot, kinds: tuple[Kind, ...], half: int) -> int:
    return 1 + kinds.index(parts(slot)[half].kind)


def _describe(figure: Figure, axes: Axes, told: Told) -> None:
    """Say what is seen: axes, title, and the colours there are."""
    found = told.timed
    size, totals = found.size, found.totals
    assert found.timeline is not None
    chunks = f" × {size.vpp} chunks" if size.vpp > 1 else ""
    length = f"{totals.span:.4g} s" if told.in_seconds else f"{totals.span:g} slots"
    axes.set_title(
        f"{found.name}: {size.pp} stages{chunks}, {size.micro_batches} micro-batches, {length}, "
        f"bubble {totals.bubble_of_total:.1%} of total",
        fontsize=10,
    )
    axes.set_xlim(0, totals.span)
    axes.set_ylim(size.pp - 0.5, -0.5)
    axes.set_xlabel("s" if told.in_seconds else "slot")
    axes.set_ylabel("stage")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    used = {
        action.kind for order in found.timeline.schedule.orders for slot in order for action in parts(slot)
    }
    legend = [Patch(color=COLOURS[kind], label=NAMES[kind]) for kind in COLOURS if kind in used]
    figure.legend(handles=legend, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
