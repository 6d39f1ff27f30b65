"""Host orders, by trying every order of whole hosts and comparing groups as sets of GPUs."""

import itertools

import pytest

from models.layout import LAUNCHABLE_ORDERS
from search.domains import all_orders
from search.host_order import host_order, launchable, listed
from tests.brute_force import Knobs, all_groups, distinct_orders, pipelines_agree
from tests.builders import layout
from tests.search.questions import MOE
from tests.search.test_orders import degree_tuples

ORDERS = all_orders()


def made(degrees, order, **more):
    tp, cp, pp, dp, ep, etp = degrees
    knobs = {"tp": tp, "cp": cp, "pp": pp, "dp": dp, "ep": ep, "etp": etp, "rank_order": order}
    return layout(MOE, 720, **knobs, **more, stage_layers=(1,))


def stock_orders(degrees, moe):
    """Stock orders Megatron-LM starts the degrees with."""
    knobs = Knobs(*degrees, 1, 2, 1, 1, 0, 0)
    return [order for order in LAUNCHABLE_ORDERS if not moe or pipelines_agree(knobs, order)]


def groups_of(degrees, moe, order):
    """Every set of groups, axis by axis, of both grids."""
    dense, expert = all_groups(degrees, moe, order)
    return [*dense, *(expert or ())]


def moved(groups, gpu_of):
    return [frozenset(tuple(sorted(gpu_of[r] for r in group)) for group in axis) for axis in groups]


def labels(groups, ranks):
    """Number of each rank's group along each axis; a rank alone has a number of its own."""
    found = []
    for axis in groups:
        of = {rank: -1 - rank for rank in range(ranks)}
        for number, group in enumerate(sorted(axis)):
            of |= dict.fromkeys(group, number)
        found.append([of[rank] for rank in range(ranks)])
    return found


def some_order_of_hosts(stock, wanted, ranks, node, within=None):
    """Try every order of whole hosts; a prefix that already joins what is apart is not followed."""
    sizes = [min(node, ranks - start) for start in range(0, ranks, node)]
    mine, theirs = labels(stock, ranks), labels(wanted, ranks)
    pairs = [({}, {}) for _ in mine]

    def place(host, used):
        if host == len(sizes):
            return True
        for target in range(len(sizes)):
            if target in used or sizes[target] != sizes[host]:
                continue
            inside = range(sizes[host]) if within is None else within
            added = join(host, target, inside)
            if added is not None:
                if place(host + 1, used | {target}):
                    return True
                for at, label, other in added:
                    del pairs[at][0][label], pairs[at][1][other]
        return False

    def join(host, target, inside):
        added = []
        for local in range(sizes[host]):
            rank, gpu = host * node + local, target * node + inside[local]
            for at, (there, back) in enumerate(pairs):
                label, other = mine[at][rank], theirs[at][gpu]
                if there.get(label, other) != other or back.get(other, label) != label:
                    for where, one, two in added:
                        del pairs[where][0][one], pairs[where][1][two]
                    return None
                if label not in there:
                    there[label], back[other] = other, label
                    added.append((at, label, other))
        return added

    return place(0, frozenset())


def same_gpus_on_each(stock, wanted, ranks, node):
    """Whether one order of the GPUs inside every host does, with some order of the hosts."""
    inside = min(node, ranks)
    if ranks % inside or inside > 3:
        return False
    return any(
        some_order_of_hosts(stock, wanted, ranks, node, within)
        for within in itertools.permutations(range(inside))
    )


CASES = [
    (4, 2),
    (6, 2),
    (6, 3),
    (8, 2),
    (8, 3),
    (8, 4),
    (12, 2),
    (12, 3),
    (12, 4),
    (16, 4),
    (18, 3),
    (20, 4),
    (24, 4),
]


@pytest.mark.parametrize("moe", [True, False], ids=["moe", "dense"])
@pytest.mark.parametrize(("gpus", "node"), CASES)
def test_a_host_order_is_told_exactly_where_one_makes_the_groups_wanted(gpus, node, moe):
    """Where it is told it makes them; where none is told every order of hosts fails."""
    tuples = list(degree_tuples(gpus, 24 if moe else 1))
    for degrees in tuples[:: 1 + len(tuples) // 60]:
        for index in distinct_orders(degrees, moe, ORDERS):
            order = ORDERS[index]
            answer = host_order(made(degrees, order), node, moe=moe)
            stock = {o: groups_of(degrees, moe, o) for o in stock_orders(degrees, moe)}
            wanted = groups_of(degrees, moe, order)
            if answer is None:
                assert wanted in [groups_of(degrees, moe, o) for o in LAUNCHABLE_ORDERS]
                continue
            alone = [o for o, g in stock.items() if some_order_of_hosts(g, wanted, gpus, node)]
            hosts_do = answer.launch_order is not None and answer.gpu_order is None
            assert hosts_do is bool(alone), (degrees, order)
            if answer.launch_order is None:
                assert answer.why
                assert answer.hosts is None
                assert not any(same_gpus_on_each(g, wanted, gpus, node) for g in stock.values())
                continue
            inside = answer.gpu_order or range(node)
            gpu_of = [host * node + gpu for host in answer.hosts for gpu in inside]
            assert list(answer.hosts) == listed(answer.loops)
            assert moved(stock[answer.launch_order], gpu_of) == [
                frozenset(tuple(sorted(group)) for group in axis) for axis in wanted
            ]


def test_data_parallel_before_the_pipeline_is_reached_by_listing_hosts():
    """Eight nodes of 8, tp 8, pp 2, cp 2, dp 2: [tp, dp, cp, pp] is the stock order on hosts 0, 2, 1, 3, …"""
    wanted = made((8, 2, 2, 2, 1, 1), ("tp", "dp", "ep", "cp", "pp"))
    answer = host_order(wanted, 8, moe=False)
    assert answer.launch_order == LAUNCHABLE_ORDERS[0]
    assert answer.hosts == (0, 2, 1, 3, 4, 6, 5, 7)
    assert answer.gpu_order is None
    assert "hosts 0, 2, 1, 3, 4, 6, 5, 7" in answer.note


def test_an_order_that_mixes_axes_inside_a_host_takes_an_order_of_its_gpus():
    wanted = made((4, 1, 2, 4, 1, 1), ("dp", "tp", "ep", "cp", "pp"))
    answer = host_order(wanted, 8, moe=False)
    assert answer.launch_order is None
    inside = host_order(made((4, 1, 4, 2, 1, 1), ("dp", "tp", "ep", "cp", "pp")), 8, moe=False)
    assert inside.gpu_order == (0, 2, 4, 6, 1, 3, 5, 7)
    assert "CUDA_VISIBLE_DEVICES=0,2,4,6,1,3,5,7" in inside.note


def test_many_hosts_are_told_as_loops_that_list_each_once():
    """405B on 16,384 GPUs, data parallelism inside context parallelism: 2,048 hosts in three loops."""
    wanted = made((8, 4, 16, 32, 1, 1), ("tp", "dp", "ep", "cp", "pp"))
    answer = host_order(wanted, 8, moe=False)
    assert answer.hosts is None
    assert len(answer.loops) == 3
    assert sorted(listed(answer.loops)) == list(range(2048))


def test_a_job_that_does_not_fill_its_last_host_has_no_other_order_of_hosts():
    assert host_order(made((2, 1, 3, 2, 1, 1), ("tp", "pp", "ep", "dp", "cp")), 8, moe=False) is None
    assert (
        host_order(made((2, 3, 1, 2, 1, 1), ("tp", "dp", "ep", "cp", "pp")), 8, moe=False).launch_order
        is None
    )


def test_experts_that_change_places_are_reached_although_the_dense_grid_does_not_change():
    """One axis of data parallelism in the dense grid: ep inside edp and edp inside ep are one dense order."""
    wanted = made((1, 1, 1, 8, 2, 1), ("tp", "cp", "dp", "ep", "pp"))
    assert host_order(wanted, 1, moe=True).hosts == (0, 4, 1, 5, 2, 6, 3, 7)
    assert host_order(wanted, 8, moe=True).gpu_order == (0, 4, 1, 5, 2, 6, 3, 7)
    assert not launchable(wanted, moe=True)
    assert launchable(wanted, moe=False)


@pytest.mark.parametrize("shard", [2, 4])
def test_groups_that_zero_shards_inside_stay_the_same_gpus(shard):
    """Where dp and cp change places, the innermost ranks of their group are others."""
    same = made((8, 2, 2, 2, 1, 1), ("tp", "dp", "ep", "cp", "pp"), hsdp_shard=shard)
    answer = host_order(same, 8, moe=False)
    assert (answer.launch_order is not None) is (shard == 4)
