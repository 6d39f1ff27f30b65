"""What callers ask of a pipeline's schedule, and the timeline they are answered with."""

from typing import Annotated, Literal

from pydantic import Field

from models.base import Count, Schema
from models.estimate import Assumption, Version

ScheduleName = Literal[
    "none",
    "naive",
    "gpipe",
    "1f1b",
    "interleaved",
    "looped-bfs",
    "zb-h1",
    "zb-h2",
    "zb1p",
    "zb2p",
    "interleaved-zb",
    "zb-v",
    "v-half",
    "v-min",
    "dualpipe-v",
    "dualpipe",
]
"""Every schedule the simulator runs; the search offers some of them."""

SlotLength = Annotated[float, Field(strict=True, ge=1e-6, le=1e6, allow_inf_nan=False)]
"""Length of an action, in slots."""
SendLength = Annotated[float, Field(strict=True, ge=0, le=1e6, allow_inf_nan=False)]
"""Length of a message, in slots."""
SlotLengths = SlotLength | Annotated[tuple[SlotLength, ...], Field(min_length=1, max_length=1024)]


class BareSchedule(Schema):
    """A schedule by itself, its actions counted in slots."""

    schedule: ScheduleName
    """Pipeline schedule; `none` exactly when pp is 1."""
    pp: Count
    """Pipeline stages."""
    micro_batches: Count
    """Micro-batches of a step, G."""
    vpp: Count | None = None
    """Chunks of layers on each stage; 2 unless set where a schedule needs several, 1 elsewhere."""
    micro_batch_group: Count | None = None
    """Interleaving's group of micro-batches, N; pp unless set."""
    forward_slots: SlotLengths = 1.0
    """Slots of a chunk's forward: one number, a list of the stages', or of all chunks' in execution order."""
    backward_slots: SlotLengths | None = None
    """Slots of a chunk's whole backward; 2 unless set."""
    input_gradient_slots: SlotLengths | None = None
    """Slots of the backward's half that the stage before waits for; half of the backward unless set."""
    weight_gradient_slots: SlotLengths | None = None
    """Slots of the backward's other half; what the first half leaves unless set."""
    send_slots: SendLength | Annotated[tuple[SendLength, ...], Field(min_length=1, max_length=1024)] = 0.0
    """Slots of a message between a chunk and the next: one number, or one for each boundary. It delays its
    receiver and occupies nobody."""
    pair_share: Annotated[float, Field(strict=True, gt=0, le=1, allow_inf_nan=False)] = 1.0
    """Time of a forward and a backward run together over their sum, under `dualpipe` and `dualpipe-v`."""


SlotKind = Literal["forward", "backward", "input_gradient", "weight_gradient", "forward_and_backward"]
Amount = int | float
"""Slots or seconds; a whole number of slots is exact."""


class Slot(Schema):
    """One thing a stage runs at a time."""

    kind: SlotKind
    """`forward_and_backward` is an overlapped pair: a forward, and another micro-batch's whole backward."""
    micro_batch: int
    """From 0; of a pair the forward's."""
    chunk: int
    """Which of the stage's `chunks`, from 0; of a pair the forward's."""
    start: Amount
    end: Amount
    backward_micro_batch: int | None = Field(None, exclude_if=lambda value: value is None)
    """Of a pair: the backward's micro-batch."""
    backward_chunk: int | None = Field(None, exclude_if=lambda value: value is None)
    """Of a pair: the backward's chunk."""


class Run(Schema):
    """Slots that repeat one pattern."""

    pattern: str
    """F forward, B backward, I input gradient, W weight gradient, F+B an overlapped pair, each with the
    chunk where a stage has several; `3 (F B)` is the pattern F B three times."""
    repeats: int
    start: Amount
    """Of the first slot."""
    end: Amount
    """Of the last slot."""


class StageTimeline(Schema):
    """What one pipeline stage does in a step."""

    stage: int
    """Pipeline stage, from 0."""
    chunks: tuple[int, ...]
    """Which of all chunks it holds, in execution order from 0."""
    busy: Amount
    """Time it computes."""
    idle: Amount
    """Time it waits, from the step's first start to its last end."""
    in_flight: float
    """Most micro-batches whose activations it holds, in those of a whole stage, until the whole backward."""
    in_flight_chunks: int
    """The same counted in chunks."""
    peak_at: Amount | None
    """When it first holds that many; null where only formulas were asked."""
    messages: int
    """Messages it sends to other stages in a step."""
    slots: tuple[Slot, ...] | None
    """Everything it runs, in order; null where there are too many slots to list."""
    runs: tuple[Run, ...] | None
    """In place of the slots, the patterns they repeat; null where the slots are listed."""


class ScheduleAnswer(Schema):
    """A schedule with times."""

    schedule: str
    """Pipeline schedule."""
    pp: int
    """Pipeline stages."""
    vpp: int
    """Chunks of layers on each stage."""
    micro_batches: int
    """Micro-batches of a step."""
    micro_batch_group: int | None
    """Interleaving's group; null under other schedules."""
    unit: Literal["slot", "s"]
    """What times are told in: slots of a bare schedule, seconds of a layout."""
    total_slots: Amount | None
    """First start to last end of a bare schedule."""
    total_s: float | None
    """First start to last end of a layout's forwards and backwards; what follows them, exposed DP traffic
    and the optimizer, is not in it."""
    bubble_of_total: float
    """Idle over all stages' time."""
    bubble_of_compute: float
    """Idle over busy time."""
    messages: int
    """Messages between stages in a step, all stages'."""
    detail: Literal["slots", "runs", "totals"]
    """Whether every slot is listed, the patterns slots repeat, or neither."""
    stages: tuple[StageTimeline, ...]
    assumptions: tuple[Assumption, ...]
    """Every default that moved the answer."""
    warnings: tuple[str, ...] = ()
    version: Version
