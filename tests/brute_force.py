"""The answer by trying every layout: nested loops, rules in plain words, nothing of `search`.

Slow on purpose. Groups of ranks are found by walking the ranks; only bytes and seconds come from
the cost model, whose own tests prove them.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from models.cost import LayoutTable, Setting, estimate
from models.cost.memory.stage_bytes import peak_bytes
from models.cost.splits import balanced_split
from models.layout import (
    CONTEXT_COMMS,
    GRADIENT_REDUCES,
    LAUNCHABLE_ORDERS,
    RECOMPUTES,
    SCHEDULES,
    WEIGHT_GATHERS,
    Layout,
    LayoutChoice,
)
from models.request import Constraints, Range


class Knobs(NamedTuple):
    """One layout; tuples compare in the canonical order."""

    tp: int
    cp: int
    pp: int
    dp: int
    ep: int
    etp: int
    zero: int
    schedule: int
    vpp: int
    micro_batch: int
    recompute: int
    order: int
    """Index into the candidate orders."""


@dataclass
class Answer:
    """What trying everything found."""

    fit: list[Knobs] = field(default_factory=list)
    """Layouts that fit, best first."""
    rejected: Counter[str] = field(default_factory=Counter)
    first_broken: dict[Knobs, str] = field(default_factory=dict)
    variants: Counter[tuple[int, ...]] = field(default_factory=Counter)
    """Layouts that fit by (tp, cp, pp, dp, ep)."""
    least_over: tuple[int, Knobs] | None = None
    """Least peak over the limit and its layout."""


def try_everything(setting: Setting, constraints: Constraints, objective: str = "step_time") -> Answer:
    """Judge every layout there is."""
    answer, whole = Answer(), []
    for knobs in every_layout(setting, constraints):
        broken = first_broken_rule(knobs, setting, constraints)
        if broken is None:
            whole.append(knobs)
        else:
            answer.rejected[broken] += 1
            answer.first_broken[knobs] = broken
    peaks = priced(whole, setting, constraints, "memory")
    kept = []
    for knobs, peak in zip(whole, peaks, strict=True):
        if peak <= setting.memory_limit_bytes:
            kept.append((knobs, int(peak)))
            answer.variants[knobs[:5]] += 1
        else:
            answer.rejected["memory"] += 1
            answer.first_broken[knobs] = "memory"
    over = [(int(peak), knobs) for knobs, peak in zip(whole, peaks, strict=True)]
    answer.least_over = min(over) if over and not kept else None
    worth = priced([knobs for knobs, _ in kept], setting, constraints, objective)
    order = sorted((to_40_bits(value), peak, knobs) for value, (knobs, peak) in zip(worth, kept, strict=True))
    answer.fit = [knobs for _, _, knobs in order]
    return answer


def to_40_bits(value: float) -> float:
    """The value with the bits that rounding may move left out: what differs in them only is a tie."""
    fraction, exponent = math.frexp(value)
    return math.ldexp(round(fraction * 2**40), exponent - 40)


def every_layout(setting: Setting, constraints: Constraints) -> Iterator[Knobs]:
    """Yield the whole space in canonical order."""
    moe, gpus, batch = setting.architecture.moe, setting.gpus, setting.workload.global_batch
    divisors = [d for d in range(1, gpus + 1) if gpus % d == 0]
    for tp, cp, pp in itertools.product(divisors, divisors, divisors):
        if gpus % (tp * cp * pp):
            continue
        dp = gpus // (tp * cp * pp)
        if not all(
            accepts(getattr(constraints, k), v) for k, v in (("tp", tp), ("cp", cp), ("pp", pp), ("dp", dp))
        ):
            continue
        for ep in [d for d in range(1, moe.experts + 1) if moe.experts % d == 0] if moe else [1]:
            for etp in expert_tensor_degrees(tp, constraints, moe is not None):
                if not accepts(constraints.ep, ep) or not accepts(constraints.etp, etp):
                    continue
                orders = distinct_orders(
                    (tp, cp, pp, dp, ep, etp), moe is not None, candidate_orders(constraints)
                )
                for zero, schedule in itertools.product(range(4), range(len(SCHEDULES))):
                    if not accepts(constraints.zero, zero) or not accepts_name(
                        constraints.schedule, SCHEDULES[schedule]
                    ):
                        continue
                    if (SCHEDULES[schedule] == "none") != (pp == 1):
                        continue
                    for vpp in chunk_counts(SCHEDULES[schedule], constraints, setting.architecture.layers):
                        for micro_batch in micro_batches(constraints, batch):
                            for recompute, name in enumerate(RECOMPUTES):
                                if not accepts_name(recompute_choice(constraints), name):
                                    continue
                                for order in orders:
                                    yield Knobs(
                                        tp,
                                        cp,
                                        pp,
                                        dp,
                                        ep,
                                        etp,
                                        zero,
                                        schedule,
                                        vpp,
                                        micro_batch,
                                        recompute,
                                        order,
                                    )


def accepts(choice: Any, value: int) -> bool:
    """Whether a constraint on a number accepts a value."""
    if choice is None:
        return True
    if isinstance(choice, Range):
        return (choice.min is None or value >= choice.min) and (choice.max is None or value <= choice.max)
    return value in ((choice,) if isinstance(choice, int) else choice)


def accepts_name(choice: Any, name: str) -> bool:
    """Whether a constraint on a named choice accepts a name."""
    return choice is None or name in ((choice,) if isinstance(choice, str) else choice)


def expert_tensor_degrees(tp: int, constraints: Constraints, moe: bool) -> list[int]:
    """1 and tp, or what the caller lists."""
    stated = constraints.etp
    if not moe:
        return [1]
    if stated is None or isinstance(stated, Range):
        return sorted({1, tp})
    return sorted({stated} if isinstance(stated, int) else set(stated))


def chunk_counts(schedule: str, constraints: Constraints, layers: int) -> list[int]:
    """2 to 8 where the schedule interleaves unless the caller says otherwise; 1 elsewhere."""
    stated, split = constraints.vpp, constraints.stage_layers
    if stated is None and split is not None:
        stated = tuple(v for v in range(1, len(split) + 1) if len(split) % v == 0)
    if schedule in ("zb-v", "dualpipe-v"):
        return [2] if accepts(stated, 2) else []
    if schedule != "interleaved":
        return [1] if accepts(stated, 1) else []
    if isinstance(stated, Range):
        most = stated.max or max(8, stated.min or 0)
        return [v for v in range(2, min(most, max(layers, 8)) + 1) if accepts(stated, v)]
    if stated is None:
        return list(range(2, 9))
    return [v for v in sorted({stated} if isinstance(stated, int) else set(stated)) if v > 1]


def recompute_choice(constraints: Constraints) -> Any:
    """Recompute to try: the kind whose extent is stated, where no kind is."""
    if constraints.recompute is not None or constraints.recompute_layers is None:
        named = "selective" if constraints.recompute_modules is not None else None
        return constraints.recompute or named
    return "full"


def micro_batches(constraints: Constraints, batch: int) -> list[int]:
    """Powers of two and divisors of the batch up to 8 unless the caller says otherwise."""
    stated = constraints.micro_batch
    if stated is not None and not isinstance(stated, Range):
        return sorted({stated} if isinstance(stated, int) else set(stated))
    most = (stated.max or max(8, stated.min or 0)) if isinstance(stated, Range) else 8
    return [b for b in range(1, most + 1) if (batch % b == 0 or b & (b - 1) == 0) and accepts(stated, b)]


@lru_cache(maxsize=64)
def _every_order() -> tuple[tuple[str, ...], ...]:
    rest = itertools.permutations(("tp", "cp", "ep", "dp", "pp"))
    return tuple(dict.fromkeys((*LAUNCHABLE_ORDERS, *sorted(rest, key=lambda order: order[-1] != "pp"))))


def candidate_orders(constraints: Constraints) -> tuple[tuple[str, ...], ...]:
    """Orders to choose among; of those with the same groups, the first stands for all."""
    stated = constraints.rank_order
    if stated is not None:
        return (stated,) if isinstance(stated[0], str) else tuple(dict.fromkeys(stated))
    return _every_order() if constraints.rank_orders == "all" else LAUNCHABLE_ORDERS


@lru_cache(maxsize=100_000)
def distinct_orders(
    degrees: tuple[int, ...], moe: bool, candidates: tuple[tuple[str, ...], ...]
) -> tuple[int, ...]:
    """Candidates that make different groups, by walking the ranks."""
    first: dict[Any, int] = {}
    for index, order in enumerate(candidates):
        first.setdefault(all_groups(degrees, moe, order), index)
    return tuple(first.values())


@lru_cache(maxsize=500_000)
def all_groups(degrees: tuple[int, ...], moe: bool, order: tuple[str, ...]) -> Any:
    """Every group of ranks of the dense grid and of the expert grid under an order.

    Where the expert grid does not divide there are no groups; then the sequence of the axes
    larger than one stands for them, with edp rounded down.
    """
    tp, cp, pp, dp, ep, etp = degrees
    ranks, edp = tp * cp * dp, tp * cp * dp // (etp * ep)
    dense = {"tp": tp, "cp": cp, "dp": dp, "pp": pp}
    expert = {"tp": etp, "ep": ep, "dp": edp, "pp": pp}
    if ranks % (etp * ep) == 0:
        return walked(order, tuple(dense.items())), walked(order, tuple(expert.items())) if moe else None
    return tuple(tuple(axis for axis in order if grid.get(axis, 1) > 1) for grid in (dense, expert))


@lru_cache(maxsize=500_000)
def walked(order: tuple[str, ...], sizes: tuple[tuple[str, int], ...]) -> tuple[Any, ...]:
    """For each axis, the set of its groups: ranks that differ in nothing but that axis."""
    grid = dict(sizes)
    axes = [axis for axis in order if axis in grid]
    ranks = itertools.product(*(range(grid[axis]) for axis in reversed(axes)))
    places = [tuple(reversed(place)) for place in ranks]
    found = []
    for axis in sorted(axes):
        groups: dict[tuple[int, ...], list[int]] = {}
        at = axes.index(axis)
        for rank, place in enumerate(places):
            groups.setdefault(place[:at] + place[at + 1 :], []).append(rank)
        found.append(frozenset(tuple(group) for group in groups.values() if len(group) > 1))
    return tuple(found)


def first_broken_rule(knobs: Knobs, setting: Setting, constraints: Constraints) -> str | None:
    """Return the first rule a layout breaks, memory aside."""
    return next((name for name, broken in rules(knobs, setting, constraints) if broken), None)


def rules(k: Knobs, setting: Setting, constraints: Constraints) -> Iterator[tuple[str, bool]]:
    """Every rule in the order they count, and whether it is broken."""
    a, moe, layers = setting.architecture, setting.architecture.moe, setting.architecture.layers
    s, batch = setting.workload.sequence_length, setting.workload.global_batch
    derived = derived_knobs(k, constraints)
    sp = derived["sequence_parallel"] and k.tp > 1
    yield "tp_cap", constraints.tp is None and k.tp > 64
    yield "cp_cap", constraints.cp is None and k.cp > 64
    yield "heads_divide", a.heads % k.tp != 0
    yield "kv_heads_divide", a.mla is None and a.kv_heads % k.tp != 0 and k.tp % a.kv_heads != 0
    dense_layers, sparse_layers = not all(a.sparse_layers()), any(a.sparse_layers())
    shared = moe.shared_expert_ffn if moe and sparse_layers else 0
    yield "ffn_divides", (dense_layers and a.ffn % k.tp != 0) or shared % k.tp != 0
    yield "expert_ffn_divides", moe is not None and moe.expert_ffn % k.etp != 0
    yield "sequence_splits_in_context", k.cp > 1 and s % (2 * k.cp) != 0
    yield "sequence_splits_in_tensor", sp and s % (k.cp * k.tp) != 0
    yield "experts_need_sequence_parallel", moe is not None and k.tp > 1 and not sp
    yield "tp_overlap_needs_sequence_parallel", derived["tp_overlap"] and k.tp > 1 and not sp
    heads = [max(1, a.heads // k.tp)] + ([] if a.mla else [max(1, a.kv_heads // k.tp)])
    ulysses = derived["cp_comm"] == "ulysses" and k.cp > 1
    yield "ulysses_heads_divide", ulysses and any(h % k.cp for h in heads)
    group = constraints.hsdp_shard
    yield "sharding_group_divides", group is not None and (k.cp * k.dp) % group != 0
    yield "replicas_divide_batch", batch % k.dp != 0
    yield "experts_divide_stage", (k.tp * k.cp * k.dp) % (k.etp * k.ep) != 0
    yield (
        "pipeline_groups_agree",
        moe is not None and not pipelines_agree(k, candidate_orders(constraints)[k.order]),
    )
    yield "pipeline_keeps_weights", k.pp > 1 and k.zero == 3
    yield "weight_gather_needs_zero_3", derived["weight_gather"] != "per_pass" and k.zero != 3
    yield "gradient_reduce_needs_zero_2", derived["gradient_reduce"] != "once" and k.zero < 2
    yield "sharding_group_needs_zero", group is not None and k.zero == 0
    yield (
        "stages_hold_a_layer",
        k.pp > layers or k.pp * k.vpp > layers + 2 * (SCHEDULES[k.schedule] == "interleaved" and k.vpp > 1),
    )
    split = constraints.stage_layers
    yield "split_covers_the_chunks", split is not None and k.pp * k.vpp != len(split)
    yield "micro_batches_divide_batch", batch % (k.micro_batch * k.dp) != 0
    interleaved, group = SCHEDULES[k.schedule] == "interleaved", derived["micro_batch_group"]
    count = batch // (k.micro_batch * k.dp)
    yield "group_holds_the_stages", interleaved and group < k.pp
    fills = count >= group and (count % group == 0 or count % group >= k.pp)
    yield "interleaving_fills_groups", interleaved and not fills
    least = {"zb-h1": k.pp, "zb-v": 2 * k.pp - 1, "dualpipe": 2 * k.pp, "dualpipe-v": 2 * k.pp}
    yield "split_schedules_fill_stages", count < least.get(SCHEDULES[k.schedule], 0)
    odd = k.pp % 2 != 0 or count % 2 != 0
    yield "dualpipe_meets_in_the_middle", SCHEDULES[k.schedule] == "dualpipe" and odd
    recomputed = RECOMPUTES[k.recompute] == "full"
    yield "weight_halves_keep_activations", recomputed and SCHEDULES[k.schedule] in ("zb-h1", "zb-v")
    yield "forbid", any(is_forbidden(k, choice, setting, constraints) for choice in constraints.forbid)


def pipelines_agree(k: Knobs, order: tuple[str, ...]) -> bool:
    """Whether each rank has one pipeline group, as Megatron-LM demands of a mixture of experts."""
    edp = k.tp * k.cp * k.dp // (k.etp * k.ep)
    dense = walked(order, (("tp", k.tp), ("cp", k.cp), ("dp", k.dp), ("pp", k.pp)))
    expert = walked(order, (("tp", k.etp), ("ep", k.ep), ("dp", edp), ("pp", k.pp)))
    mine, theirs = (
        dense[sorted(("tp", "cp", "dp", "pp")).index("pp")],
        expert[sorted(("tp", "ep", "dp", "pp")).index("pp")],
    )
    if k.pp == 1:
        return True
    far = k.tp * k.cp * k.dp
    outermost = all(group[1] - group[0] == far for group in mine)
    return mine == theirs and (outermost or k.dp == edp)


def derived_knobs(k: Knobs, constraints: Constraints) -> dict[str, Any]:
    """What follows from the knobs unless the caller fixed it."""
    whole = k.zero <= 1 or (k.zero == 2 and SCHEDULES[k.schedule] == "gpipe")
    derived = {
        "sequence_parallel": k.tp > 1,
        "micro_batch_group": k.pp,
        "cp_comm": "all_gather",
        "gradient_reduce": "once" if whole else "per_micro_batch",
        "weight_gather": "per_pass",
        "tp_overlap": False,
        "dp_overlap": True,
    }
    pinned = {name: getattr(constraints, name) for name in derived}
    return derived | {name: value for name, value in pinned.items() if value is not None}


def is_forbidden(k: Knobs, choice: LayoutChoice, setting: Setting, constraints: Constraints) -> bool:
    """Whether a layout agrees with a partial one in every stated knob; rank orders by their groups."""
    layout = layout_of(k, setting, constraints)
    for name, value in choice.model_dump(exclude_none=True).items():
        if name == "rank_order":
            moe = setting.architecture.moe is not None
            if all_groups(k[:6], moe, value) != all_groups(k[:6], moe, layout.rank_order):
                return False
        elif getattr(layout, name) != value:
            return False
    return True


def layout_of(k: Knobs, setting: Setting, constraints: Constraints) -> Layout:
    """Return a layout with all its knobs; not validated, since a broken one may be no layout at all."""
    return Layout.model_construct(
        **{
            name: getattr(k, name)
            for name in ("tp", "cp", "pp", "vpp", "dp", "ep", "etp", "zero", "micro_batch")
        },
        **derived_knobs(k, constraints),
        **fixed_for_all(constraints),
        schedule=SCHEDULES[k.schedule],
        recompute=RECOMPUTES[k.recompute],
        rank_order=candidate_orders(constraints)[k.order],
        edp=k.tp * k.cp * k.dp // (k.etp * k.ep),
        gpus=k.tp * k.cp * k.pp * k.dp,
        micro_batches=setting.workload.global_batch // (k.micro_batch * k.dp),
        stage_layers=constraints.stage_layers or balanced_split(setting.architecture.layers, k.pp * k.vpp),
    )


def priced(layouts: Sequence[Knobs], setting: Setting, constraints: Constraints, objective: str) -> Any:
    """Return what each layout is worth, lower is better."""
    table = table_of(layouts, constraints)
    if not layouts:
        return []
    if objective == "memory":
        return peak_bytes(table, setting)
    estimates = estimate(table, setting)
    return estimates.step_time_s if objective == "step_time" else estimates.sent_bytes_per_gpu


def table_of(layouts: Sequence[Knobs], constraints: Constraints) -> LayoutTable:
    """Return layouts as columns."""
    columns: dict[str, list[int]] = {name: [getattr(k, name) for k in layouts] for name in Knobs._fields}
    codes = {"cp_comm": CONTEXT_COMMS, "gradient_reduce": GRADIENT_REDUCES, "weight_gather": WEIGHT_GATHERS}
    derived = [derived_knobs(k, constraints) for k in layouts]
    names = derived_knobs(Knobs(*[1] * 12), constraints) if not derived else derived[0]
    for name in names:
        values = [row[name] for row in derived]
        columns[name] = [codes[name].index(v) if name in codes else int(v) for v in values]
    arrays: Any = {name: np.array(values, dtype=np.int64) for name, values in columns.items()}
    split = constraints.stage_layers
    shared = fixed_for_all(constraints) | ({"stage_layers": split} if split else {})
    return LayoutTable(**arrays, orders=candidate_orders(constraints), **shared)


def fixed_for_all(constraints: Constraints) -> dict[str, Any]:
    """Knobs that are one for all layouts, where the caller fixed them."""
    values = {
        name: getattr(constraints, name) for name in ("hsdp_shard", "recompute_modules", "recompute_layers")
    }
    return {name: value for name, value in values.items() if value is not None}
