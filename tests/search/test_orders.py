"""Rank orders: what the patterns merge is what makes the same groups, by walking every rank."""

import itertools

import numpy as np
import pytest

from search.domains import all_orders
from search.groups import same_groups, strides
from search.orders import facts_of, groups_key, order_choices, patterns
from tests.brute_force import Knobs, all_groups, pipelines_agree
from tests.builders import layout
from tests.search.questions import MOE

ORDERS = all_orders()


def degree_tuples(gpus, experts):
    divisors = [d for d in range(1, gpus + 1) if gpus % d == 0]
    for tp, cp, pp in itertools.product(divisors, divisors, divisors):
        if gpus % (tp * cp * pp):
            continue
        dp = gpus // (tp * cp * pp)
        for ep in (d for d in range(1, experts + 1) if experts % d == 0):
            for etp in {1, tp}:
                if (tp * cp * dp) % (etp * ep) == 0:
                    yield tp, cp, pp, dp, ep, etp


def pattern_of(degrees):
    tp, cp, pp, dp, ep, etp = (np.array([degree], dtype=np.int64) for degree in degrees)
    return int(patterns(tp, cp, pp, dp, etp, ep)[0])


@pytest.mark.parametrize("moe", [True, False], ids=["moe", "dense"])
@pytest.mark.parametrize(
    "gpus",
    [7, 8, 9, 12, 15, 18, 24] + [pytest.param(gpus, marks=pytest.mark.long) for gpus in (27, 30, 36, 45, 60)],
)
def test_orders_merge_exactly_where_they_make_the_same_groups_of_ranks(gpus, moe):
    """Of any two orders, those with one key make one set of groups, those with two keys two."""
    for degrees in degree_tuples(gpus, 180 if moe else 1):
        pattern = pattern_of(degrees)
        by_groups, by_key = {}, {}
        for index, order in enumerate(ORDERS):
            by_groups.setdefault(all_groups(degrees, moe, order), []).append(index)
            by_key.setdefault(groups_key(order, facts_of(pattern), moe), []).append(index)
        assert list(by_key.values()) == list(by_groups.values())
        assert order_choices(pattern, moe, ORDERS).distinct == len(by_groups)


@pytest.mark.parametrize("gpus", [8, 12, 16, 24])
def test_an_order_is_legal_exactly_where_both_grids_have_the_same_pipelines(gpus):
    for degrees in degree_tuples(gpus, 24):
        choices = order_choices(pattern_of(degrees), True, ORDERS)
        for index in choices.legal:
            assert pipelines_agree(Knobs(*degrees, 1, 2, 1, 1, 0, index), ORDERS[index])
        keys = {groups_key(ORDERS[i], facts_of(pattern_of(degrees)), True) for i in choices.legal}
        for order in ORDERS:
            if groups_key(order, facts_of(pattern_of(degrees)), True) not in keys:
                assert not pipelines_agree(Knobs(*degrees, 1, 2, 1, 1, 0, 0), order)


def test_two_orders_have_the_same_strides_exactly_where_they_have_the_same_groups():
    for degrees in list(degree_tuples(12, 12))[::7]:
        tp, cp, pp, dp, ep, etp = degrees
        for first, second in itertools.product(ORDERS[::11], ORDERS[::7]):
            made = layout(
                MOE, 12, tp=tp, cp=cp, pp=pp, dp=dp, ep=ep, etp=etp, rank_order=first, stage_layers=(1,)
            )
            same = all_groups(degrees, True, first) == all_groups(degrees, True, second)
            assert same_groups(made, second, moe=True) is same


def test_the_launchable_orders_stand_for_their_class():
    assert ORDERS[:2] == (("tp", "cp", "ep", "dp", "pp"), ("tp", "cp", "ep", "pp", "dp"))
    assert len(set(ORDERS)) == 120


def test_a_stride_is_the_product_of_the_axes_inside():
    assert strides(("pp", "dp", "tp"), {"tp": 2, "dp": 3, "pp": 4}) == {"pp": 1, "dp": 4, "tp": 12}
