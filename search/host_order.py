"""The order of hosts under which a stock launcher makes the groups of another rank order, or why none does.

A stock launcher numbers ranks host by host in the order it is given them, GPUs in order inside a host,
and lays the axes out in a stock order. Listing the hosts otherwise moves whole hosts of ranks. The
groups come out as wanted, as sets of GPUs, exactly when

1. both orders begin with the same factors of the rank line, and their product P is a multiple of a
   host's GPUs: what happens inside a host is then the same;
2. what is left has the same factors in both, in any sequence: hosts go where their factors say.

A *factor* is a run of the rank line that lies along one axis of the dense grid and one of the expert
grid; where the two grids do not nest (a dense group of 6 on an expert group of 4) the smallest run that
both fill is one factor, and moves as a whole. Where (1) fails, one order of the GPUs inside every host
(CUDA_VISIBLE_DEVICES) may still do. tests/search/test_host_order.py tries every order of hosts.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from models.estimate import HostLoop, HostOrder
from models.layout import LAUNCHABLE_ORDERS, Layout
from search.domains import Order
from search.orders import DENSE_GRID, EXPERT_GRID, FACTS, facts_of, groups_key, pipeline_groups_agree

LISTED = 64
"""Hosts that are listed one by one; beyond, the loops say it in short."""

Axes = list[tuple[str, int]]
Label = tuple[object, object]


@dataclass(frozen=True)
class Factor:
    """A run of the rank line, by the axes it lies along in the dense and the expert grid."""

    along: Label
    size: int


def launchable(layout: Layout, *, moe: bool) -> bool:
    """Whether a stock launcher makes the same groups."""
    facts = _facts(layout)
    key = groups_key(layout.rank_order, facts, moe)
    return key in {groups_key(order, facts, moe) for order in LAUNCHABLE_ORDERS}


def host_order(layout: Layout, gpus_per_node: int, *, moe: bool) -> HostOrder | None:
    """Return how a stock launcher realises the layout's rank order; nothing where it starts it as it is."""
    if launchable(layout, moe=moe):
        return None
    if moe and layout.etp * layout.ep * layout.edp != layout.tp * layout.cp * layout.dp:
        return _none("etp * ep does not divide tp * cp * dp: there are no groups of experts")
    facts = _facts(layout)
    stock = [order for order in LAUNCHABLE_ORDERS if not moe or pipeline_groups_agree(order, facts)]
    wanted = factors(layout, layout.rank_order, moe=moe)
    for order in stock:
        loops = host_loops(factors(layout, order, moe=moe), wanted, gpus_per_node)
        if loops is not None:
            return _told(order, loops, None)
    room = min(gpus_per_node, layout.gpus)
    inside = _inside(wanted, room)
    for order in stock:
        mine = _inside(factors(layout, order, moe=moe), room)
        if inside is None or mine is None:
            continue
        within, hosts = _loops(mine[0], inside[0]), _loops(mine[1], inside[1])
        if within is not None and hosts is not None:
            return _told(order, hosts, within)
    return _none(
        f"in whatever order hosts of {gpus_per_node} GPUs are listed, some of its groups are not those of "
        "a stock order"
    )


def factors(layout: Layout, order: Sequence[str], *, moe: bool) -> list[Factor]:
    """Cut the rank line of an order into factors, innermost first."""
    dense = _axes(layout, order, DENSE_GRID)
    expert = _axes(layout, order, EXPERT_GRID) if moe else [("", layout.gpus)]
    return cut(dense, expert)


def cut(dense: Axes, expert: Axes) -> list[Factor]:
    """Cut two grids of the same ranks into runs that lie along one axis of each, or that both fill.

    >>> [(f.along, f.size) for f in cut([("tp", 2), ("dp", 8)], [("ep", 4), ("edp", 4)])]
    [(('tp', 'ep'), 2), (('dp', 'ep'), 2), (('dp', 'edp'), 4)]
    >>> [(f.along, f.size) for f in cut([("tp", 2), ("dp", 3)], [("ep", 3), ("edp", 2)])]
    [(((('tp', 2), ('dp', 3)), (('ep', 3), ('edp', 2))), 6)]
    """
    left, right = dense[::-1], expert[::-1]
    found: list[Factor] = []
    while left and right:
        factor = _next(left, right)
        if found and found[-1].along == factor.along and isinstance(factor.along[0], str):
            factor = Factor(factor.along, found.pop().size * factor.size)
        found.append(factor)
    return found


def _next(left: Axes, right: Axes) -> Factor:
    """Take the smallest run off both grids; what is left of an axis goes back."""
    one, other = [left.pop()], [right.pop()]
    while _product(one) != _product(other):
        shorter = (one, left) if _product(one) < _product(other) else (other, right)
        longer = (other, right) if shorter[0] is one else (one, left)
        axis, size = longer[0][-1]
        below, upto = _product(longer[0][:-1]), _product(shorter[0])
        if upto % below == 0 and size % (upto // below) == 0:
            longer[0][-1] = (axis, upto // below)
            longer[1].append((axis, size // (upto // below)))
        else:
            shorter[0].append(shorter[1].pop())
    if len(one) == len(other) == 1:
        return Factor((one[0][0], other[0][0]), one[0][1])
    return Factor((tuple(one), tuple(other)), _product(one))


def host_loops(stock: list[Factor], wanted: list[Factor], gpus_per_node: int) -> list[HostLoop] | None:
    """Return the hosts to list, as loops, the innermost first; nothing where no order of hosts does."""
    same = 0
    while same < min(len(stock), len(wanted)) and stock[same] == wanted[same]:
        same += 1
    block = math.prod(factor.size for factor in stock[:same])
    if block % gpus_per_node:
        return None
    inside = Factor(("", ""), block // gpus_per_node)
    return _loops([inside, *stock[same:]], [inside, *wanted[same:]])


def _inside(line: list[Factor], gpus_per_node: int) -> tuple[list[Factor], list[Factor]] | None:
    """Cut the line at the end of the first host; nothing where that is not along one axis of each grid."""
    inner: list[Factor] = []
    room = gpus_per_node
    for place, factor in enumerate(line):
        if room == 1:
            return inner, line[place:]
        if room % factor.size == 0:
            inner.append(factor)
            room //= factor.size
        elif factor.size % room == 0 and isinstance(factor.along[0], str):
            rest = Factor(factor.along, factor.size // room)
            return [*inner, Factor(factor.along, room)], [rest, *line[place + 1 :]]
        else:
            return None
    return inner, []


def _loops(stock: list[Factor], wanted: list[Factor]) -> list[HostLoop] | None:
    """Return where each step along the stock line goes on the wanted one; nothing where factors differ."""
    mine, theirs = list(_steps(stock)), list(_steps(wanted))
    if Counter(key for key, _ in mine) != Counter(key for key, _ in theirs):
        return None
    strides: dict[tuple[Label, int], list[int]] = {}
    for key, stride in theirs:
        strides.setdefault(key, []).append(stride)
    loops: list[HostLoop] = []
    for key, _ in mine:
        stride, count = strides[key].pop(0), key[1]
        if loops and stride == loops[-1].stride * loops[-1].count:
            loops[-1] = HostLoop(stride=loops[-1].stride, count=loops[-1].count * count)
        else:
            loops.append(HostLoop(stride=stride, count=count))
    return loops


def _steps(line: list[Factor]) -> Iterator[tuple[tuple[Label, int], int]]:
    """Yield the prime steps of a line and their strides; a factor that does not nest is one step."""
    stride = 1
    for factor in line:
        for size in _primes(factor.size) if isinstance(factor.along[0], str) else [factor.size]:
            yield (factor.along, size), stride
            stride *= size


def listed(loops: Sequence[HostLoop]) -> list[int]:
    """Return what loops list, the first loop running fastest.

    >>> listed([HostLoop(stride=2, count=3), HostLoop(stride=1, count=2)])
    [0, 2, 4, 1, 3, 5]
    """
    places = [0]
    for loop in loops:
        places = [place + step * loop.stride for step in range(loop.count) for place in places]
    return places


def _told(order: Order, hosts: list[HostLoop], within: list[HostLoop] | None) -> HostOrder:
    count = math.prod(loop.count for loop in hosts)
    shown = tuple(listed(hosts)) if count <= LISTED else None
    where = f"hosts {', '.join(map(str, shown))}" if shown else f"the {count:,} hosts as the loops say"
    note = f"Launch the stock rank order {'-'.join(order)} with {where}, numbered as they stand now"
    inside = None if within is None else tuple(listed(within))
    if inside is not None:
        gpus = ",".join(map(str, inside))
        note += f", and CUDA_VISIBLE_DEVICES={gpus} on each: no order of whole hosts alone does"
    return HostOrder(
        launch_order=order,
        hosts=shown,
        loops=tuple(hosts),
        gpu_order=inside,
        note=f"{note}.",
    )


def _none(why: str) -> HostOrder:
    return HostOrder(why=why, note=f"No host order realises it under a stock launcher: {why}.")


def _facts(layout: Layout) -> dict[str, bool]:
    same = {"dp=edp": layout.dp == layout.edp, "tp=etp": layout.tp == layout.etp}
    return facts_of(0) | same | {name: getattr(layout, name) > 1 for name in FACTS if "=" not in name}


def _axes(layout: Layout, order: Sequence[str], grid: dict[str, str]) -> Axes:
    """Axes larger than one of a grid, innermost first; cut where ZeRO shards inside groups."""
    left = layout.hsdp_shard or 0
    found: Axes = []
    for axis in (grid[axis] for axis in order if axis in grid):
        size = getattr(layout, axis)
        if layout.hsdp_shard is None or axis not in ("cp", "dp", "edp"):
            found.append((axis, size))
            continue
        shard = math.gcd(size, left)
        left //= shard
        found += [(f"{axis} shard", shard), (f"{axis} replica", size // shard)]
    return [(axis, size) for axis, size in found if size > 1]


def _product(axes: Axes) -> int:
    return math.prod(size for _, size in axes)


def _primes(number: int) -> list[int]:
    """Prime factors, ascending.

    >>> _primes(12), _primes(1)
    ([2, 2, 3], [])
    """
    found, prime = [], 2
    while prime * prime <= number:
        while number % prime == 0:
            found.append(prime)
            number //= prime
        prime += 1
    return [*found, number] if number > 1 else found
