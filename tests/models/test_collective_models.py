"""The latency-bandwidth models hold their limits, and NCCL's model picks as NCCL does."""

import numpy as np
import pytest

from models.cost.network import collective_models as times
from models.cost.published.bus_bandwidth import bus_bandwidth, bus_factor
from models.cost.published.nccl_model import PROTOCOLS, ring_latency_seconds, tree_latency_seconds

LATENCY, BANDWIDTH = 5e-6, 50e9
RANKS = np.array([1, 2, 3, 8, 12, 64, 1000, 1024])
GROUPED = [
    times.ring_reduce_scatter_seconds,
    times.ring_all_gather_seconds,
    times.ring_all_reduce_seconds,
    times.recursive_doubling_all_reduce_seconds,
    times.rabenseifner_all_reduce_seconds,
    times.recursive_doubling_all_gather_seconds,
    times.binomial_broadcast_seconds,
    times.scatter_all_gather_broadcast_seconds,
    times.pairwise_all_to_all_seconds,
    times.bruck_all_to_all_seconds,
]
ALL_REDUCES = [time for time in GROUPED if "all_reduce" in time.__name__]


@pytest.mark.parametrize("time", GROUPED)
def test_a_group_of_one_costs_nothing(time):
    assert time(1e9, 1, LATENCY, BANDWIDTH) == 0


@pytest.mark.parametrize("time", GROUPED)
def test_an_empty_message_costs_its_latency_only(time):
    assert (time(0, RANKS[1:], LATENCY, BANDWIDTH) >= LATENCY).all()
    assert (time(0, RANKS, 0.0, BANDWIDTH) == 0).all()


@pytest.mark.parametrize("time", GROUPED)
def test_many_collectives_at_once_cost_what_each_costs_alone(time):
    payload = np.geomspace(1, 1e9, len(RANKS))
    together = time(payload, RANKS, LATENCY, BANDWIDTH)
    assert together.shape == RANKS.shape
    alone = [float(time(*one, LATENCY, BANDWIDTH)) for one in zip(payload, RANKS, strict=True)]
    assert together.tolist() == alone


@pytest.mark.parametrize("time", GROUPED)
def test_more_bytes_and_slower_links_never_cost_less(time):
    larger = time(np.geomspace(1, 1e9, 9), 12, LATENCY, BANDWIDTH)
    assert (np.diff(larger) >= 0).all()
    assert time(1e6, 12, LATENCY, BANDWIDTH) < time(1e6, 12, 2 * LATENCY, BANDWIDTH / 2)


@pytest.mark.parametrize("time", ALL_REDUCES)
def test_no_all_reduce_beats_the_bandwidth_bound(time):
    """No rank can send fewer than 2 (p-1)/p S (Patarasuk and Yuan, 2009)."""
    size = 1e9
    bound = 2 * (RANKS - 1) / RANKS * size / BANDWIDTH
    found = time(size, RANKS, 0.0, BANDWIDTH)
    whole = np.log2(RANKS) % 1 == 0
    assert (found[whole] >= bound[whole] * (1 - 1e-12)).all()


def test_the_ring_is_rabenseifners_equal_in_bandwidth_and_never_faster():
    powers = 2.0 ** np.arange(11)
    ring = times.ring_all_reduce_seconds(1e8, powers, LATENCY, BANDWIDTH)
    halving = times.rabenseifner_all_reduce_seconds(1e8, powers, LATENCY, BANDWIDTH)
    assert (halving <= ring).all()
    bandwidth_only = [
        time(1e8, powers, 0.0, BANDWIDTH)
        for time in (times.ring_all_reduce_seconds, times.rabenseifner_all_reduce_seconds)
    ]
    np.testing.assert_allclose(*bandwidth_only)


def test_two_ranks_exchange_once_by_recursive_doubling():
    once = times.send_seconds(1e6, LATENCY, BANDWIDTH)
    assert times.recursive_doubling_all_reduce_seconds(1e6, 2, LATENCY, BANDWIDTH) == once


def test_ranks_beyond_a_power_of_two_cost_two_messages_more():
    message = times.send_seconds(1e6, LATENCY, BANDWIDTH)
    for time in (times.recursive_doubling_all_reduce_seconds, times.rabenseifner_all_reduce_seconds):
        eight, nine = time(1e6, [8, 9], LATENCY, BANDWIDTH)
        assert nine - eight == pytest.approx(2 * message)


def test_short_messages_want_few_rounds_and_long_ones_few_bytes():
    shape = (64, LATENCY, BANDWIDTH)
    short, long = 64.0, 1e9
    tree, scattered = times.binomial_broadcast_seconds, times.scatter_all_gather_broadcast_seconds
    assert tree(short, *shape) < scattered(short, *shape)
    assert scattered(long, *shape) < tree(long, *shape)
    bruck, pairwise = times.bruck_all_to_all_seconds, times.pairwise_all_to_all_seconds
    assert bruck(short, *shape) < pairwise(short, *shape)
    assert pairwise(long, *shape) < bruck(long, *shape)


@pytest.mark.parametrize(
    ("operation", "time"),
    [
        ("all_reduce", times.ring_all_reduce_seconds),
        ("reduce_scatter", times.ring_reduce_scatter_seconds),
        ("all_gather", times.ring_all_gather_seconds),
        ("all_to_all", times.pairwise_all_to_all_seconds),
        ("send_receive", lambda payload, _, *link: times.send_seconds(payload, *link)),
    ],
)
def test_the_bus_bandwidth_of_a_ring_without_latency_is_the_links(operation, time):
    taken = time(1e9, RANKS[1:], 0.0, BANDWIDTH)
    np.testing.assert_allclose(bus_bandwidth(operation, 1e9, RANKS[1:], taken), BANDWIDTH)


def test_the_bus_factor_of_many_ranks_goes_to_two_one_and_one():
    limits = [bus_factor(name, 1e9) for name in ("all_reduce", "all_gather", "broadcast")]
    assert limits == pytest.approx([2, 1, 1])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nccl_gives_a_tree_less_latency_than_a_ring_over_many_nodes(protocol):
    nodes = np.array([8, 64, 512])
    ring = ring_latency_seconds("all_reduce", 8, nodes, protocol)
    assert (tree_latency_seconds(8, nodes, protocol) < ring).all()
    half = ring_latency_seconds("all_gather", 8, nodes, protocol)
    assert (half < ring).all()


def test_nccl_pays_a_slower_host_on_every_step_over_nodes_only():
    for nodes, dearer in ((1, False), (4, True)):
        intel, amd = (
            float(ring_latency_seconds("all_reduce", 8, nodes, "LL", host=host)) for host in ("intel", "amd")
        )
        assert (amd > intel) is dearer
