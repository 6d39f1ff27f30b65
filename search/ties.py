"""Rank orders under which a layout takes the same time: a choice by habit is not to look like a gain."""

from dataclasses import dataclass, replace

import numpy as np

from models.cost.price import price
from models.cost.table import IntVector, LayoutTable
from search.domains import Order
from search.forbid import Pairs, forbidden
from search.orders import order_choices, patterns
from search.problem import Problem

SAME = 1e-9
"""Relative difference of two step times that are one. [1]"""


MOST = 3
"""Other orders told of a layout, the fastest. [1]"""


@dataclass(frozen=True)
class Others:
    """The other rank orders searched that make other groups."""

    ties: tuple[Order, ...]
    """Those under which the layout takes as long."""
    fastest: tuple[Order, ...]
    """The fastest of all, at most `MOST`."""


def others(problem: Problem, table: LayoutTable) -> list[Others]:
    """Return what each layout takes under the other rank orders searched."""
    pairs = _pairs(problem, table)
    pairs = pairs.take(np.flatnonzero(~forbidden(problem, table, pairs)))
    step = price(replace(table.take(pairs.row), order=pairs.order), problem.setting)[2].total
    shown = pairs.order == table.order[pairs.row]
    own = np.zeros(len(table))
    own[pairs.row[shown]] = step[shown]
    equal = np.abs(step - own[pairs.row]) <= SAME * own[pairs.row]
    found = []
    for row in range(len(table)):
        mine = np.flatnonzero(~shown & (pairs.row == row))
        fastest = mine[np.argsort(step[mine], kind="stable")][:MOST]
        named = [tuple(table.orders[o] for o in pairs.order[rows]) for rows in (mine[equal[mine]], fastest)]
        found.append(Others(*named))
    return found


def _pairs(problem: Problem, table: LayoutTable) -> Pairs:
    """Each layout with every legal rank order of its degrees that makes other groups."""
    moe = problem.setting.architecture.moe is not None
    pattern = patterns(table.tp, table.cp, table.pp, table.dp, table.etp, table.ep)
    legal = [order_choices(code, moe, problem.domains.orders).legal for code in pattern.tolist()]
    count = np.array([len(orders) for orders in legal], dtype=np.int64)
    order: IntVector = np.array([index for orders in legal for index in orders], dtype=np.int64)
    return Pairs(np.repeat(np.arange(len(table)), count), order, np.repeat(pattern, count))
