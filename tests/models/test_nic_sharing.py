"""Who sends over a network card at once, and what each gets of it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.catalogue import cluster
from models.cost import candidate
from models.cost.network.nic_sharing import collective_gain, neighbour_gain
from models.cost.network.placement import groups
from models.cost.table import LayoutTable
from models.hardware import Cluster
from tests.builders import DGX, layout, setting, workload


def cards(server: int, nics: int):
    return cluster("dgx-h100").model_copy(update={"gpus_per_node": server, "nics_per_node": nics})


CLUSTERS = [cards(8, 2), cards(8, 4), cards(8, 1), cards(8, 8), cards(6, 2), cards(4, 1), cards(6, 4)]


def most_on_a_card(sizes, strides, where, gpus, neighbours):
    """GPUs that send over the busiest card, each rank and partner looked at by itself."""
    server, nics = where.gpus_per_node, where.nics_per_node
    sending = {}
    for rank in range(gpus):
        start = rank - sum(rank // s % n * s for n, s in zip(sizes, strides, strict=True))
        places = [start]
        for n, s in zip(sizes, strides, strict=True):
            places = [place + i * s for place in places for i in range(n)]
        if neighbours:
            places = [p for p in places if abs(p - rank) == strides[0]]
        if any(p // server != rank // server for p in places):
            sending.setdefault((rank // server, rank % server * nics // server), set()).add(rank)
    return max((len(ranks) for ranks in sending.values()), default=0)


@settings(max_examples=200, deadline=None)
@given(
    degrees=st.tuples(*[st.sampled_from([1, 2, 3, 4])] * 4),
    order=st.permutations(["tp", "cp", "ep", "dp", "pp"]),
    where=st.sampled_from(CLUSTERS),
)
def test_senders_share_their_card_with_exactly_those_that_send_at_once(degrees, order, where):
    tp, cp, pp, dp = degrees
    gpus = tp * cp * pp * dp
    table = LayoutTable.of([layout(batch=dp * 12, tp=tp, cp=cp, pp=pp, dp=dp, rank_order=tuple(order))])
    each = where.gpus_per_node / where.nics_per_node
    for name in ("tp", "cp", "dp", "pp"):
        group = groups(table)[name]
        sizes, strides = ([int(v[0]) for v in column] for column in (group.sizes, group.strides))
        for neighbours in (False, True) if name == "pp" else (False,):
            gain = (neighbour_gain if neighbours else collective_gain)(group, where, gpus)
            busiest = most_on_a_card(sizes, strides, where, gpus, neighbours)
            if busiest:
                assert gain[0] == pytest.approx(max(each / busiest, 1.0)), (name, sizes, strides, neighbours)


@given(shifts=st.tuples(*[st.integers(0, 3)] * 4), order=st.permutations(["tp", "cp", "ep", "dp", "pp"]))
def test_collectives_of_degrees_that_nest_fill_every_card(shifts, order):
    """Every rank runs the same program: either all GPUs of a server send out of it, or none does."""
    tp, cp, pp, dp = (2**shift for shift in shifts)
    table = LayoutTable.of([layout(batch=dp * 12, tp=tp, cp=cp, pp=pp, dp=dp, rank_order=tuple(order))])
    for name in ("tp", "cp", "dp", "pp"):
        assert collective_gain(groups(table)[name], cards(8, 2), tp * cp * pp * dp).tolist() == [1.0]


def test_a_card_of_its_own_for_each_gpu_gains_nothing():
    table = LayoutTable.of([layout(batch=12, pp=16)])
    assert neighbour_gain(groups(table)["pp"], cards(8, 8), 16).tolist() == [1.0]


def test_the_lone_sender_of_a_server_has_a_whole_card():
    """Two 400 Gb/s cards to eight GPUs: 12.5 GB/s each, and 50 where one of them sends alone."""
    table = LayoutTable.of([layout(batch=12, pp=16)])
    assert np.multiply(12.5, neighbour_gain(groups(table)["pp"], cards(8, 2), 16)).tolist() == [50.0]


def test_stages_that_share_a_server_send_at_a_whole_cards_rate():
    """Two GPUs to a card: of four stages on a server only the outermost send out of it."""

    def message(cards: int) -> float:
        where = Cluster(gpu=DGX.gpu, gpus_per_node=8, tiers=DGX.tiers, nics_per_node=cards)
        asked = setting(name="calibrated", gpus=16, cluster=where, workload=workload(8192, 16))
        found = candidate(layout(batch=16, tp=1, pp=16, dp=1), asked)
        return next(one.seconds / one.per_step for one in found.traffic if one.dimension == "pp")

    assert message(4) < 0.6 * message(8)
