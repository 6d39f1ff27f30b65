"""Who sends how much to whom in a step: a layout's traffic as matrices, and what nodes see of it."""

from typing import Literal

from pydantic import ConfigDict, Field

from models.base import Schema
from models.estimate import Assumption, BrokenRule, Version
from models.layout import Axis, Layout

Level = Literal["gpu", "node"]


class Cell(Schema):
    """Bytes of a step from one unit to another, or from a unit's GPUs to one another."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True, validate_by_alias=True)

    from_: int = Field(alias="from")
    """Place of the sender in `units`; `from` in JSON."""
    to: int
    """Place of the receiver in `units`; the sender's own for bytes that stay inside a unit."""
    bytes: int


class NodeTraffic(Schema):
    """What stays inside servers and what leaves them, exact whatever a unit of the matrix is."""

    inside_bytes: int
    """Bytes of a step that stay inside a node, all nodes together."""
    between_bytes: int
    """Bytes of a step that leave a node, all nodes together."""
    busiest_node: int
    """The node that sends the most out, from 0; the first of several."""
    busiest_node_out_bytes: int
    """Bytes it sends out in a step."""
    equal_local_rank_share: float | None
    """Of the bytes between nodes, the share between GPUs of equal place in their node (which one rail of
    a rail-optimised fabric joins); null where none leave a node, and for the gradient norm."""
    equal_local_rank_pairs: float | None
    """Of the ordered pairs of nodes that exchange bytes, the share that exchanges them between GPUs of equal
    place only; null where the share of bytes is, and above 512 nodes."""


class Matrix(Schema):
    """Bytes of a step between units, sparse."""

    sent_bytes: tuple[int, ...]
    """What each unit's GPUs send in a step: the sum of the unit's row, to the byte."""
    cells: tuple[Cell, ...]
    """Every cell that is not 0, row by row."""
    nodes: NodeTraffic


class DimensionMatrix(Matrix):
    """One entry of the traffic of an evaluation, spread over partners."""

    dimension: Axis
    operation: str
    sent_bytes_per_gpu: int
    """What the GPU that sends the most in this dimension sends; the figure of an evaluation."""
    stage_sent_bytes_per_gpu: tuple[int, ...]
    """What each GPU of each pipeline stage sends; a rank's row sum to the byte."""


class Unit(Schema):
    """What one row and one column stand for."""

    kind: str
    """"gpu", "node", or the tier of the fabric whose units are counted."""
    count: int
    """How many of them."""
    gpus: int
    """Ranks of one unit; the last unit may hold fewer."""


class RankRange(Schema):
    """Consecutive ranks."""

    first_rank: int
    last_rank: int


class TrafficAnswer(Schema):
    """A layout's traffic matrices, each dimension apart and summed."""

    level: Level
    layout: Layout
    spread: str
    """How a collective's bytes are shared out over cells."""
    unit: Unit
    aggregated: str | None
    """Why a unit is more than what `level` asks for; null where it is not."""
    units: tuple[RankRange, ...]
    """The ranks of each row and column."""
    dimensions: tuple[DimensionMatrix, ...]
    """In the order of an evaluation's `traffic`, what closes the step last."""
    sum: Matrix
    """All dimensions together; its shares leave out the gradient norm's few bytes, which join all ranks."""
    broken_rules: tuple[BrokenRule, ...]
    assumptions: tuple[Assumption, ...]
    warnings: tuple[str, ...] = ()
    version: Version
