"""What a layout costs, in named parts that add up; and the answers built from it."""

from typing import Any, Literal

from pydantic import ConfigDict, Field

from models.base import Schema
from models.layout import Axis, Layout, RankOrder
from models.split import SplitReport


class StageMemory(Schema):
    """Bytes on the fullest GPU of one pipeline stage."""

    stage: int
    """Pipeline stage, from 0."""
    layers: float
    """Decoder layers it holds (real-valued under the textbook profile)."""
    in_flight: float
    """Micro-batches whose activations it holds at the peak, in those of all its layers (a micro-batch passes
    half of them under dualpipe)."""
    weights_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    activations_bytes: int
    buffers_bytes: int
    overhead_bytes: int
    total_bytes: int
    """The sum of the six parts."""
    details: dict[str, int]
    """The named lines the six parts are made of."""


class Memory(Schema):
    """Bytes on the fullest GPU of every stage; the heaviest decides."""

    limit_bytes: int
    """What a GPU may use: the limit less the reserve."""
    peak_bytes: int
    """The heaviest stage's total."""
    peak_upper_bytes: int | None = None
    """The same with every uncertain line at its upper figure."""
    peak_stage: int
    """The heaviest stage."""
    headroom_bytes: int
    """Limit less peak; negative when it does not fit."""
    stages: tuple[StageMemory, ...]


class Time(Schema):
    """Seconds of one optimizer step; the parts add up to the step."""

    compute_s: float
    recompute_s: float
    tp_exposed_s: float
    cp_exposed_s: float
    ep_exposed_s: float
    pp_exposed_s: float
    dp_exposed_s: float
    bubble_s: float
    optimizer_s: float
    other_s: float


class Pipeline(Schema):
    """How well the stages keep each other busy."""

    bubble_of_total: float
    """Part of all stages' time with nothing to do, messages waited for included, while the pipeline runs."""
    imbalance: float
    """By how much the time the busiest stage computes in a step exceeds the mean of all stages."""
    limiting_stage: int
    """The stage that sets the pace, the first of them."""
    timed_by: Literal["simulation", "formula"]
    """Whether the schedule was run chunk by chunk; formulas stand for it where a profile counts no bubble."""
    split: SplitReport | None = None
    """How frameworks are told the layout's `stage_layers`."""


class TierTraffic(Schema):
    """What one dimension sends over one tier."""

    tier: str
    sent_bytes_per_gpu: int
    forwarded_bytes_per_gpu: int = 0
    """What a GPU passes on inside its server besides, so that an all-to-all changes rails there."""
    seconds: float


class DimensionTraffic(Schema):
    """What one dimension sends in a step, for the GPU that sends the most in it."""

    dimension: Axis
    operation: str
    algorithm: str
    """What runs it fastest: ring, tree, hierarchical, multicast (the switch sums), pairwise or direct."""
    per_step: float
    """Collectives or messages in a step (real-valued under the textbook profile); where they are pairs,
    reduce_scatter+all_gather, the backward's gather of a stored TP input is half of one."""
    message_bytes: int
    """Payload of one of them (the largest, where they differ)."""
    sent_bytes_per_gpu: int
    """The sum over the tiers."""
    tiers: tuple[TierTraffic, ...]
    seconds: float
    """Time on the wire."""
    exposed_s: float
    """Time the step waits for it. Of the others part of `seconds`; PP's may be more than its `seconds`, since
    a step also waits in turn for the messages other stages send each other."""
    waits: bool
    """Whether compute waits for it by its nature."""


class TierLoad(Schema):
    """One tier of the fabric over a step, all dimensions together."""

    tier: str
    bandwidth_bytes_per_s: float
    """One GPU's share in one direction, after oversubscription."""
    sent_bytes_per_gpu: int
    """Sum over the dimensions, each told for the GPU that sends the most in it."""
    forwarded_bytes_per_gpu: int = 0
    """What it passes on for others besides."""
    utilisation: float
    """All those bytes over what the tier could carry for the GPU in the step."""
    waiting_s: float
    """Time the step waits for this tier."""
    waiting_share: float
    """The same as a part of the step."""


class HostLoop(Schema):
    """Steps through a list: `count` of them, each `stride` hosts on."""

    stride: int
    count: int


class HostOrder(Schema):
    """How a stock launcher realises a rank order it does not know: by the order the hosts are listed in."""

    launch_order: RankOrder | None = None
    """The stock rank order to launch with; null where no order of hosts does."""
    hosts: tuple[int, ...] | None = None
    """Hosts in the order to list them, numbered from 0 as they stand now; null beyond 64 (see `loops`)."""
    loops: tuple[HostLoop, ...] | None = None
    """The same as nested loops, the first running fastest: a host is the sum of its steps."""
    gpu_order: tuple[int, ...] | None = None
    """GPUs of each host in the order to make them visible; null where they stay as they are."""
    why: str | None = None
    """Why no order of hosts does; null where one does."""
    note: str
    """All of it in a sentence."""


class Candidate(Schema):
    """A layout and everything it costs."""

    layout: Layout
    step_time_s: float
    step_time_low_s: float | None = None
    """Lower end of the band that holds nine in ten unseen runs; null where the profile has none."""
    step_time_high_s: float | None = None
    """Upper end of the band that holds nine in ten unseen runs; null where the profile has none."""
    tokens_per_s: float
    tokens_per_s_per_gpu: float
    tflops_per_gpu: float
    mfu: float
    time: Time
    pipeline: Pipeline | None
    """Null without pipeline stages."""
    memory: Memory
    traffic: tuple[DimensionTraffic, ...]
    tiers: tuple[TierLoad, ...] = ()
    """Every tier of the cluster, innermost first."""
    busiest_node: int | None = None
    """The server that sends the most over its network cards in a step, from 0; the first of several."""
    busiest_node_sent_bytes: int = 0
    """What its GPUs together send over the network cards in a step, all dimensions, by the algorithms that
    run; NVLink to other servers of a rack is no part of it."""
    host_order: HostOrder | None = None
    """How to start a rank order that no stock launcher starts; null where one does as it is."""
    warnings: tuple[str, ...] = ()


class OrderCost(Schema):
    """A layout under another rank order."""

    rank_order: RankOrder
    step_time_s: float
    tiers: tuple[TierLoad, ...]
    """What crosses each tier then."""


class RankedCandidate(Candidate):
    """A place on the shortlist."""

    rank: int
    variants: int
    """Other layouts of the same (tp, cp, pp, dp, ep) that fit."""
    ties: tuple[RankOrder, ...] = ()
    """Other rank orders searched under which this very layout takes the same time; they make other groups."""
    other_orders: tuple[OrderCost, ...] = ()
    """The same layout under the other rank orders searched that make other groups: the fastest three."""


class Space(Schema):
    """What was looked at, and why the rest was not taken."""

    enumerated: int
    """Layouts of the space: those that fit and all that were rejected."""
    fit: int
    rejected: dict[str, int]
    """Layouts under the first rule each breaks."""
    complete: bool
    """Every layout was enumerated, or excluded by a proven bound."""
    solver_status: str
    wall_s: float


class RuleStatement(Schema):
    """A rule by its name, and what it demands."""

    name: str
    statement: str


class Change(Schema):
    """One field of the request, before and after."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True, validate_by_alias=True)

    field: str
    """JSON pointer into the request."""
    from_: Any = Field(alias="from")
    """What the request held; `from` in JSON."""
    to: Any


class Relaxation(Schema):
    """A smallest set of changes after which a layout fits."""

    change: tuple[Change, ...]
    then: Layout


class Closest(Schema):
    """The layout that misses by least."""

    layout: Layout
    over_bytes: int
    """Bytes over the limit on its heaviest stage."""
    memory: Memory


class Conflict(Schema):
    """Why no layout fits."""

    rules: tuple[RuleStatement, ...]
    """The rules that rejected the most, memory among them where it did."""
    relaxations: tuple[Relaxation, ...] = ()
    """Smallest changes that were tried and work; none where none was found in the time given."""
    closest: Closest | None
    """Null when no layout of the space keeps the structural rules."""


class Assumption(Schema):
    """A default or derived choice that changed the answer."""

    field: str
    """JSON pointer."""
    value: Any
    why: str


class Version(Schema):
    """What computed the answer."""

    service: str
    cost_model: str


class SearchAnswer(Schema):
    """The shortlist, and how it came about."""

    outcome: Literal["found", "none_fit", "stopped_early"]
    shortlist: tuple[RankedCandidate, ...]
    space: Space
    conflict: Conflict | None
    assumptions: tuple[Assumption, ...]
    warnings: tuple[str, ...] = ()
    version: Version


class BrokenRule(Schema):
    """A rule the evaluated layout breaks."""

    rule: str
    statement: str
    framework: str
    fix: str


class EvaluateAnswer(Schema):
    """One layout priced, and every rule it breaks."""

    candidate: Candidate
    broken_rules: tuple[BrokenRule, ...]
    assumptions: tuple[Assumption, ...]
    warnings: tuple[str, ...] = ()
    version: Version
