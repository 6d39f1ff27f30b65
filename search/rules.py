"""Hard rules, one function each, over columns of knobs.

A rule's name is its identifier in answers; the first line of its docstring is what a user reads;
its parameters after `problem` are the knobs it touches. `census.py` counts by it, `solve.py`
turns it into clauses; `check.py` restates every rule on one finished layout. Sources are in
docs/frameworks.md, by section.
"""

import inspect
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from models.cost.splits import hold_layers
from models.cost.table import (
    DUALPIPE,
    DUALPIPE_V,
    FULL,
    INTERLEAVED,
    ONCE,
    PER_PASS,
    ULYSSES,
    ZB_H1,
    ZB_V,
    IntVector,
)
from search import derive
from search.problem import Problem

Mask = NDArray[np.bool_]
Rule = Callable[..., Mask]
NO_CAP = 2**62
"""Above every degree."""


def tp_cap(problem: Problem, tp: IntVector) -> Mask:
    """The tensor-parallel degree is at most 64 unless the request constrains it."""
    return tp <= problem.caps.get("tp", NO_CAP)


def cp_cap(problem: Problem, cp: IntVector) -> Mask:
    """The context-parallel degree is at most 64 unless the request constrains it."""
    return cp <= problem.caps.get("cp", NO_CAP)


def heads_divide(problem: Problem, tp: IntVector) -> Mask:
    """The tensor-parallel degree divides the number of attention heads."""
    return _divides(tp, problem.setting.architecture.heads)


def kv_heads_divide(problem: Problem, tp: IntVector) -> Mask:
    """The tensor-parallel degree divides the key-value heads, or is a multiple that replicates them."""
    architecture = problem.setting.architecture
    if architecture.mla:
        return np.ones_like(tp, dtype=np.bool_)
    return _divides(tp, architecture.kv_heads) | _divides(architecture.kv_heads, tp)


def ffn_divides(problem: Problem, tp: IntVector) -> Mask:
    """The tensor-parallel degree divides the width of the dense and the shared-expert feed-forward."""
    architecture = problem.setting.architecture
    widths = [] if all(architecture.sparse_layers()) else [architecture.ffn]
    if architecture.moe and any(architecture.sparse_layers()):
        widths.append(architecture.moe.shared_expert_ffn)
    divides = np.ones_like(tp, dtype=np.bool_)
    for width in widths:
        divides &= _divides(tp, width)
    return divides


def expert_ffn_divides(problem: Problem, etp: IntVector) -> Mask:
    """The tensor-parallel degree inside an expert divides the expert's width."""
    moe = problem.setting.architecture.moe
    return _divides(etp, moe.expert_ffn if moe else 0)


def sequence_splits_in_context(problem: Problem, cp: IntVector) -> Mask:
    """With context parallelism, 2 cp divides the sequence: each rank takes a front and a back chunk."""
    return _is(cp, 1) | _divides(2 * cp, problem.setting.workload.sequence_length)


def sequence_splits_in_tensor(problem: Problem, tp: IntVector, cp: IntVector) -> Mask:
    """With sequence parallelism, tp divides the tokens each context-parallel rank holds."""
    on = _sequence_parallel(problem, tp)
    return ~on | _divides(cp * tp, problem.setting.workload.sequence_length)


def experts_need_sequence_parallel(problem: Problem, tp: IntVector) -> Mask:
    """A mixture of experts with tp > 1 trains only with sequence parallelism."""
    if problem.setting.architecture.moe is None:
        return np.ones_like(tp, dtype=np.bool_)
    return _is(tp, 1) | _sequence_parallel(problem, tp)


def tp_overlap_needs_sequence_parallel(problem: Problem, tp: IntVector) -> Mask:
    """Overlapping the tensor-parallel collectives needs sequence parallelism."""
    if not problem.pins.get("tp_overlap", 0):
        return np.ones_like(tp, dtype=np.bool_)
    return _is(tp, 1) | _sequence_parallel(problem, tp)


def ulysses_heads_divide(problem: Problem, tp: IntVector, cp: IntVector) -> Mask:
    """Under Ulysses, cp divides the query heads and the key-value heads of a tensor-parallel rank."""
    architecture = problem.setting.architecture
    heads = np.maximum(architecture.heads // tp, 1)
    kv_heads = heads if architecture.mla else np.maximum(architecture.kv_heads // tp, 1)
    if problem.pins.get("cp_comm") != ULYSSES:
        return np.ones(np.broadcast(tp, cp).shape, dtype=np.bool_)
    return _is(cp, 1) | (_divides(cp, heads) & _divides(cp, kv_heads))


def sharding_group_divides(problem: Problem, cp: IntVector, dp: IntVector) -> Mask:
    """The group ZeRO shards inside (hsdp_shard) divides dp * cp."""
    group = problem.shared.get("hsdp_shard", 1)
    return np.asarray((cp * dp) % group == 0)


def replicas_divide_batch(problem: Problem, dp: IntVector) -> Mask:
    """The data-parallel degree divides the global batch."""
    return _divides(dp, problem.setting.workload.global_batch)


def experts_divide_stage(
    problem: Problem, tp: IntVector, cp: IntVector, dp: IntVector, ep: IntVector, etp: IntVector
) -> Mask:
    """The expert grid fits the stage: etp * ep divides tp * cp * dp."""
    return _divides(etp * ep, tp * cp * dp)


DEGREE_RULES: tuple[Rule, ...] = (
    tp_cap,
    cp_cap,
    heads_divide,
    kv_heads_divide,
    ffn_divides,
    expert_ffn_divides,
    sequence_splits_in_context,
    sequence_splits_in_tensor,
    experts_need_sequence_parallel,
    tp_overlap_needs_sequence_parallel,
    ulysses_heads_divide,
    sharding_group_divides,
    replicas_divide_batch,
    experts_divide_stage,
)
"""Rules on degrees alone, in the order they count."""


def pipeline_groups_agree() -> None:
    """In a mixture of experts with pp > 1, an order not ending in pp needs dp = edp and one pipeline grid."""


def pipeline_keeps_weights(problem: Problem, pp: IntVector, zero: IntVector) -> Mask:
    """Pipeline stages go with ZeRO 2 at most."""
    return _is(pp, 1) | (zero <= 2)


def weight_gather_needs_zero_3(problem: Problem, zero: IntVector) -> Mask:
    """Keeping gathered weights means something under ZeRO 3 only."""
    keeps = problem.pins.get("weight_gather", PER_PASS) != PER_PASS
    return _is(zero, 3) if keeps else np.ones_like(zero, dtype=np.bool_)


def gradient_reduce_needs_zero_2(problem: Problem, zero: IntVector) -> Mask:
    """Reducing gradients after every micro-batch means something under ZeRO 2 and 3 only."""
    each = problem.pins.get("gradient_reduce", ONCE) != ONCE
    return (zero >= 2) | (not each)


def sharding_group_needs_zero(problem: Problem, zero: IntVector) -> Mask:
    """Sharding inside groups (hsdp_shard) means something under ZeRO 1 to 3 only."""
    return (zero >= 1) | ("hsdp_shard" not in problem.shared)


def stages_hold_a_layer(problem: Problem, pp: IntVector, vpp: IntVector, schedule: IntVector) -> Mask:
    """Stages hold a layer each, chunks too but two interleaved ends: pp * vpp <= layers (interleaved + 2)."""
    return hold_layers(pp, vpp, _is(schedule, INTERLEAVED), problem.setting.architecture.layers)


def split_covers_the_chunks(problem: Problem, pp: IntVector, vpp: IntVector) -> Mask:
    """Where the request states stage_layers, pp * vpp is the number of chunks it names."""
    stated = problem.shared.get("stage_layers")
    return np.ones_like(pp * vpp, dtype=np.bool_) if stated is None else _is(pp * vpp, len(stated))


def micro_batches_divide_batch(problem: Problem, dp: IntVector, micro_batch: IntVector) -> Mask:
    """micro_batch * dp divides the global batch."""
    return _divides(micro_batch * dp, problem.setting.workload.global_batch)


def group_holds_the_stages(problem: Problem, pp: IntVector, schedule: IntVector) -> Mask:
    """Interleaving's group of micro-batches is at least pp."""
    return ~_is(schedule, INTERLEAVED) | (pp <= _group(problem, pp))


def interleaving_fills_groups(
    problem: Problem, pp: IntVector, dp: IntVector, schedule: IntVector, micro_batch: IntVector
) -> Mask:
    """Interleaving needs a full group of micro-batches, and what is left over to be none or at least pp."""
    count = problem.setting.workload.global_batch // (micro_batch * dp)
    left = count % _group(problem, pp)
    return ~_is(schedule, INTERLEAVED) | ((count >= _group(problem, pp)) & (_is(left, 0) | (left >= pp)))


def split_schedules_fill_stages(
    problem: Problem, pp: IntVector, dp: IntVector, schedule: IntVector, micro_batch: IntVector
) -> Mask:
    """ZB-H1 needs at least pp micro-batches, ZB-V 2 pp - 1, DualPipe and DualPipe-V 2 pp."""
    count = problem.setting.workload.global_batch // (micro_batch * dp)
    least = np.select(
        [_is(schedule, ZB_H1), _is(schedule, ZB_V), np.isin(schedule, (DUALPIPE, DUALPIPE_V))],
        [pp, 2 * pp - 1, 2 * pp],
        0,
    )
    return np.asarray(count >= least)


def dualpipe_meets_in_the_middle(
    problem: Problem, pp: IntVector, dp: IntVector, schedule: IntVector, micro_batch: IntVector
) -> Mask:
    """Dualpipe sends half of the micro-batches from each end: their number and pp are even."""
    count = problem.setting.workload.global_batch // (micro_batch * dp)
    return ~_is(schedule, DUALPIPE) | (_is(count % 2, 0) & _is(pp % 2, 0))


def weight_halves_keep_activations(problem: Problem, schedule: IntVector, recompute: IntVector) -> Mask:
    """ZB-H1 and ZB-V go without full recompute: the weight halves they leave for later need what it drops."""
    return ~_is(recompute, FULL) | ~np.isin(schedule, (ZB_H1, ZB_V))


INNER_RULES: tuple[Rule, ...] = (
    pipeline_keeps_weights,
    weight_gather_needs_zero_3,
    gradient_reduce_needs_zero_2,
    sharding_group_needs_zero,
    stages_hold_a_layer,
    split_covers_the_chunks,
    micro_batches_divide_batch,
    group_holds_the_stages,
    interleaving_fills_groups,
    split_schedules_fill_stages,
    dualpipe_meets_in_the_middle,
    weight_halves_keep_activations,
)
"""Rules on ZeRO, schedule, micro-batches and recompute, in the order they count; they see pp and dp only."""


def forbid() -> None:
    """The request forbids it."""


def memory() -> None:
    """The heaviest stage fits the memory limit."""


ORDER: tuple[Callable[..., object], ...] = (
    *DEGREE_RULES,
    pipeline_groups_agree,
    *INNER_RULES,
    forbid,
    memory,
)
"""Every rule in the order a layout is counted under its first broken one."""
NAMES: tuple[str, ...] = tuple(rule.__name__ for rule in ORDER)


def statement(name: str) -> str:
    """Return what a rule demands, for people."""
    rule = next(rule for rule in ORDER if rule.__name__ == name)
    return (inspect.getdoc(rule) or "").partition("\n")[0]


@lru_cache
def touches(rule: Rule) -> tuple[str, ...]:
    """Return the knobs a rule reads."""
    return tuple(inspect.signature(rule).parameters)[1:]


def _is(column: IntVector, value: int) -> Mask:
    same: Mask = np.equal(column, value)
    return same


def _divides(divisor: IntVector | int, number: IntVector | int) -> Mask:
    kept: Mask = np.equal(np.remainder(number, divisor), 0)
    return kept


def _sequence_parallel(problem: Problem, tp: IntVector) -> Mask:
    pinned = problem.pins.get("sequence_parallel")
    value = derive.sequence_parallel(tp) if pinned is None else np.full_like(tp, pinned)
    return _is(value, 1) & (tp > 1)


def _group(problem: Problem, pp: IntVector) -> IntVector:
    return np.full_like(pp, problem.pins["micro_batch_group"]) if "micro_batch_group" in problem.pins else pp
