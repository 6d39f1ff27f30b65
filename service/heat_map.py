"""A layout's traffic matrices drawn as heat maps."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray

from models.cost.traffic.matrix_report import unit_words
from models.traffic_matrix import DimensionMatrix, Matrix, TrafficAnswer

COLUMNS = 3
"""Panels side by side."""
PANEL_INCHES = 5.5
DECADES = 6
"""Powers of ten the colours span: what is less than the most by more is drawn as the least."""


def heat_map(answer: TrafficAnswer) -> Figure:
    """Draw the sum, then each dimension: rows send, columns receive, one colour scale for all."""
    panels = [("all dimensions", answer.sum), *((_title(one), one) for one in answer.dimensions)]
    columns = min(len(panels), COLUMNS)
    rows = -(-len(panels) // COLUMNS)
    size = (PANEL_INCHES * columns + 1.5, PANEL_INCHES * rows + 1.0)
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(_caption(answer), fontsize="medium")
    places = figure.subplots(rows, columns, squeeze=False).reshape(-1)
    most = max((cell.bytes for cell in answer.sum.cells), default=1)
    scale = LogNorm(max(1.0, most / 10**DECADES), max(float(most), 2.0), clip=True)
    for axes, (title, matrix) in zip(places, panels, strict=False):
        _draw(axes, title, matrix, answer, scale)
    for axes in places[len(panels) :]:
        axes.set_axis_off()
    figure.colorbar(places[0].images[0], ax=list(places), label="bytes a step", shrink=0.8)
    return figure


def _draw(axes: Axes, title: str, matrix: Matrix, answer: TrafficAnswer, scale: LogNorm) -> None:
    end = len(answer.units) * answer.unit.gpus
    axes.imshow(
        _dense(matrix, len(answer.units)), norm=scale, extent=(0, end, end, 0), interpolation="nearest"
    )
    ranks = answer.units[-1].last_rank + 1
    axes.set_xlim(0, ranks)
    axes.set_ylim(ranks, 0)
    axes.set_title(title, fontsize="small")
    axes.set_xlabel("receiving rank", fontsize="small")
    axes.set_ylabel("sending rank", fontsize="small")
    axes.tick_params(labelsize="x-small")


def _dense(matrix: Matrix, units: int) -> "np.ma.MaskedArray[tuple[int, int], np.dtype[np.float64]]":
    """The cells as a picture, those that send nothing left blank."""
    dense: NDArray[np.float64] = np.zeros((units, units))
    for cell in matrix.cells:
        dense[cell.from_, cell.to] = cell.bytes
    return np.ma.masked_equal(dense, 0.0)


def _title(one: DimensionMatrix) -> str:
    return f"{one.dimension}: {one.operation}\n{_bytes(one.sent_bytes_per_gpu)} from the busiest GPU"


def _bytes(count: int) -> str:
    """Decimal, as people read it.

    >>> _bytes(8), _bytes(20_301_281_280)
    ('8 B', '20.3 GB')
    """
    size, unit = next(
        ((size, unit) for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if count >= size), (1, "B")
    )
    return f"{count / size:.3g} {unit}"


def _caption(answer: TrafficAnswer) -> str:
    layout = answer.layout
    degrees = " ".join(f"{name.upper()}{getattr(layout, name)}" for name in ("tp", "cp", "pp", "dp", "ep"))
    order = "-".join(layout.rank_order)
    return f"{layout.gpus:,} GPUs, {degrees}, {order}; one row is {unit_words(answer.unit)}"
