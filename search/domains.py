"""The values each knob may take: the job's own, narrowed by what the caller holds.

A value the caller excludes is not in the space, so no rule rejects it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from models.catalogue import Resolved
from models.errors import Fault
from models.layout import LAUNCHABLE_ORDERS, RECOMPUTES, SCHEDULES, Axis
from models.request import Constraints, Range

INTERLEAVED_CHUNKS = range(2, 9)
"""Chunks a stage the search tries by itself; more cost messages and seldom pay."""
MOST_MICRO_BATCH = 8
"""Sequences of a micro-batch the search tries by itself."""

Choice = int | tuple[int, ...] | Range | None
Order = tuple[Axis, ...]


@dataclass(frozen=True)
class Domains:
    """Candidate values of every searched knob, ascending; names as codes of `models.cost.table`."""

    tp: tuple[int, ...]
    cp: tuple[int, ...]
    pp: tuple[int, ...]
    dp: tuple[int, ...]
    ep: tuple[int, ...]
    etp: tuple[int, ...]
    etp_follows_tp: bool
    """Whether etp is one of 1 and tp (within `etp`), rather than any of `etp`."""
    zero: tuple[int, ...]
    schedule: tuple[int, ...]
    vpp: tuple[int, ...]
    """Chunks a stage: 1 is for the schedules that do not interleave, the rest for the one that does."""
    micro_batch: tuple[int, ...]
    recompute: tuple[int, ...]
    orders: tuple[Order, ...]
    """Rank orders; of those that make the same groups, the first stands for all."""


def domains(constraints: Constraints, resolved: Resolved) -> Domains:
    """Return the values of every knob of a search."""
    moe, layers = resolved.architecture.moe, resolved.architecture.layers
    degrees = {
        name: _kept(divisors(resolved.gpus), getattr(constraints, name)) for name in ("tp", "cp", "pp", "dp")
    }
    stated_etp = constraints.etp is not None and not isinstance(constraints.etp, Range)
    return Domains(
        **degrees,
        ep=_kept(divisors(moe.experts) if moe else (1,), constraints.ep),
        etp=_kept(_expert_tensor(constraints.etp, degrees["tp"]) if moe else (1,), constraints.etp),
        etp_follows_tp=not (moe and stated_etp),
        zero=_kept((0, 1, 2, 3), constraints.zero),
        schedule=_codes(SCHEDULES, constraints.schedule),
        vpp=(*_kept((1,), constraints.vpp), *_chunks(_chunk_counts(constraints), layers)),
        micro_batch=_micro_batches(constraints.micro_batch, resolved.workload.global_batch),
        recompute=_codes(RECOMPUTES, _recomputes(constraints)),
        orders=_orders(constraints),
    )


def divisors(number: int) -> tuple[int, ...]:
    """Divisors of a number, ascending.

    >>> divisors(12)
    (1, 2, 3, 4, 6, 12)
    """
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return tuple(sorted({*small, *(number // d for d in small)}))


def is_order(order: object) -> bool:
    """Whether a sequence has each of the five axes once."""
    return isinstance(order, tuple) and sorted(order) == sorted(LAUNCHABLE_ORDERS[0])


def order_fault(field: str, order: object) -> Fault:
    """Return what is wrong with a rank order."""
    reason = "a rank order has each of tp, cp, ep, dp and pp once, innermost first"
    return Fault(field, order, reason, f"For instance {list(LAUNCHABLE_ORDERS[0])}.")


def order_faults(constraints: Constraints) -> list[Fault]:
    """Return what is wrong with the rank orders of some constraints."""
    stated: list[tuple[str, object]] = [
        (f"/constraints/forbid/{place}/rank_order", choice.rank_order)
        for place, choice in enumerate(constraints.forbid)
        if choice.rank_order is not None
    ]
    orders = constraints.rank_order
    if orders and isinstance(orders[0], str):
        stated.insert(0, ("/constraints/rank_order", orders))
    else:
        stated[:0] = [(f"/constraints/rank_order/{place}", order) for place, order in enumerate(orders or ())]
    return [order_fault(field, order) for field, order in stated if not is_order(order)]


def all_orders() -> tuple[Order, ...]:
    """Every order of the five axes: the launchable first, then those that end in pp, then the rest."""
    every = _permutations(("tp", "cp", "ep", "dp", "pp"))
    rest = sorted(every, key=lambda order: (order[-1] != "pp", every.index(order)))
    return tuple(dict.fromkeys((*LAUNCHABLE_ORDERS, *rest)))


def _permutations(axes: Sequence[Axis]) -> list[Order]:
    if not axes:
        return [()]
    return [(axis, *rest) for axis in axes for rest in _permutations([a for a in axes if a != axis])]


def accepts(choice: Choice, value: int) -> bool:
    """Whether a constraint accepts a value.

    >>> accepts(None, 1), accepts(2, 1), accepts((1, 2), 1), accepts(Range(min=2), 1)
    (True, False, True, False)
    """
    if choice is None:
        return True
    if isinstance(choice, Range):
        return value >= (choice.min or 0) and (choice.max is None or value <= choice.max)
    return value == choice if isinstance(choice, int) else value in choice


def _kept(values: Iterable[int], choice: Choice) -> tuple[int, ...]:
    """Values that a constraint accepts."""
    return tuple(value for value in values if accepts(choice, value))


def _stated(choice: Choice) -> tuple[int, ...]:
    """Values a caller names one by one, ascending."""
    if choice is None or isinstance(choice, Range):
        return ()
    return (choice,) if isinstance(choice, int) else tuple(sorted(set(choice)))


def _expert_tensor(choice: Choice, tp: tuple[int, ...]) -> tuple[int, ...]:
    return _stated(choice) or tuple(sorted({1, *tp}))


def _upper(choice: Choice, default: int) -> int:
    """Greatest value to try: the caller's, the default where the caller is silent."""
    if not isinstance(choice, Range):
        return default
    return choice.max or max(default, choice.min or 0)


def _chunks(choice: Choice, layers: int) -> tuple[int, ...]:
    """Chunks a stage under interleaving; a range never goes beyond the layers there are."""
    stated = tuple(v for v in _stated(choice) if v > 1)
    if stated or (choice is not None and not isinstance(choice, Range)):
        return stated
    most = min(_upper(choice, INTERLEAVED_CHUNKS[-1]), max(layers, INTERLEAVED_CHUNKS[-1]))
    return _kept(range(2, most + 1), choice)


def _chunk_counts(constraints: Constraints) -> Choice:
    """What a caller says of vpp; who states a split and no vpp may mean any that divides its chunks."""
    if constraints.vpp is not None or constraints.stage_layers is None:
        return constraints.vpp
    return divisors(len(constraints.stage_layers))


def _micro_batches(choice: Choice, global_batch: int) -> tuple[int, ...]:
    """Powers of two and divisors of the batch up to the limit, or what the caller names."""
    stated = _stated(choice)
    if stated:
        return stated
    most = _upper(choice, MOST_MICRO_BATCH)
    powers = (1 << exponent for exponent in range(most.bit_length()))
    return _kept(sorted(v for v in {*powers, *divisors(global_batch)} if v <= most), choice)


def _codes(names: tuple[str, ...], choice: str | Sequence[str] | None) -> tuple[int, ...]:
    kept = names if choice is None else (choice,) if isinstance(choice, str) else choice
    return tuple(code for code, name in enumerate(names) if name in kept)


def _recomputes(constraints: Constraints) -> str | Sequence[str] | None:
    """Recompute the search tries: only the kind that the caller states the extent of, where he does."""
    if constraints.recompute is not None:
        return constraints.recompute
    if constraints.recompute_layers is not None:
        return "full"
    return "selective" if constraints.recompute_modules is not None else None


def _orders(constraints: Constraints) -> tuple[Order, ...]:
    stated = constraints.rank_order
    if stated is not None:
        single = isinstance(stated[0], str)
        return (stated,) if single else tuple(dict.fromkeys(stated))  # type: ignore[return-value, arg-type]
    return all_orders() if constraints.rank_orders == "all" else LAUNCHABLE_ORDERS
