"""How far apart the ranks of a group are, for one finished layout."""

from collections.abc import Sequence

from models.layout import Layout

Strides = dict[str, int]


def strides(order: Sequence[str], sizes: dict[str, int]) -> Strides:
    """Return the distance between neighbours along each axis that has a size, innermost first.

    >>> strides(("tp", "cp", "ep", "dp", "pp"), {"tp": 2, "cp": 1, "dp": 4, "pp": 2})
    {'tp': 1, 'cp': 2, 'dp': 2, 'pp': 8}
    """
    found, stride = {}, 1
    for axis in order:
        if axis in sizes:
            found[axis] = stride
            stride *= sizes[axis]
    return found


def grids(layout: Layout, order: Sequence[str]) -> tuple[Strides, Strides]:
    """Return the strides of a layout's dense grid and of its expert grid under an order."""
    dense = {"tp": layout.tp, "cp": layout.cp, "dp": layout.dp, "pp": layout.pp}
    expert = {"tp": layout.etp, "ep": layout.ep, "dp": layout.edp, "pp": layout.pp}
    return strides(order, dense), strides(order, expert)


def same_groups(layout: Layout, order: Sequence[str], *, moe: bool) -> bool:
    """Whether another order makes the groups the layout has: its axes larger than one keep their strides."""
    dense = {"tp": layout.tp, "cp": layout.cp, "dp": layout.dp, "pp": layout.pp}
    expert = {"tp": layout.etp, "ep": layout.ep, "dp": layout.edp, "pp": layout.pp}
    for sizes in (dense, expert) if moe else (dense,):
        mine, other = strides(layout.rank_order, sizes), strides(order, sizes)
        if any(mine[axis] != other[axis] for axis, size in sizes.items() if size > 1):
            return False
    return True
