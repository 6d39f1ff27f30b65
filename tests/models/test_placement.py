"""Groups are where the rank order puts them; what crosses a tier crosses it."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cost.network.collectives import hierarchical_shares, neighbour_shares, partner_shares
from models.cost.network.placement import Group, groups, members
from models.cost.table import LayoutTable
from models.hardware import Cluster, Tier
from tests.builders import H100, layout


def cluster(*units: int) -> Cluster:
    tiers = [Tier(name=f"t{unit}", gpus=unit, bandwidth_bytes_per_s=1e11) for unit in units]
    return Cluster(
        gpu=H100, gpus_per_node=units[0], tiers=(*tiers, Tier(name="all", bandwidth_bytes_per_s=1e10))
    )


def walked_members(sizes, strides, unit: int, gpus: int) -> int:
    """Least number of a group's ranks in one unit, from the GPU's own seat, by walking every rank."""
    ranks = np.arange(gpus)
    identity = ranks.copy()
    for size, stride in zip(sizes, strides, strict=True):
        identity = identity - ranks // stride % size * stride
    seats = {}
    for rank in ranks:
        seats.setdefault(identity[rank], []).append(rank // unit)
    return min(places.count(place) for places in seats.values() for place in places)


@settings(max_examples=300, deadline=None)
@given(
    degrees=st.tuples(*[st.integers(1, 4)] * 4),
    order=st.permutations(["tp", "cp", "ep", "dp", "pp"]),
    unit=st.sampled_from([2, 3, 4, 6, 8]),
)
def test_a_group_along_one_axis_is_as_close_as_its_worst_placed_member_and_no_closer(degrees, order, unit):
    tp, cp, pp, dp = degrees
    table = LayoutTable.of([layout(batch=dp * 12, tp=tp, cp=cp, pp=pp, dp=dp, rank_order=tuple(order))])
    for name in ("tp", "cp", "pp", "dp"):
        group = groups(table)[name]
        found = int(members(group, cluster(unit))[0, 0])
        sizes, strides = ([int(v[0]) for v in column] for column in (group.sizes, group.strides))
        walked = walked_members(sizes, strides, unit, tp * cp * pp * dp * unit)
        assert found == walked if name != "dp" else found <= walked


@settings(max_examples=300, deadline=None)
@given(
    degrees=st.tuples(*[st.integers(1, 6)] * 4),
    order=st.permutations(["tp", "cp", "ep", "dp", "pp"]),
    units=st.sampled_from([(3, 6, 18), (2, 4, 20), (4, 8, 24), (6, 12, 60), (6, 24, 48)]),
)
def test_only_groups_the_job_has_count_where_its_last_node_or_rack_is_part_filled(degrees, order, units):
    """Nodes of 4, 6 and 8 GPUs inside racks and leaves, the job ending anywhere in them."""
    tp, cp, pp, dp = degrees
    gpus = tp * cp * pp * dp
    table = LayoutTable.of([layout(batch=dp * 12, tp=tp, cp=cp, pp=pp, dp=dp, rank_order=tuple(order))])
    for name in ("tp", "cp", "pp"):
        placed = groups(table)[name]
        sizes, strides = ([int(v[0]) for v in column] for column in (placed.sizes, placed.strides))
        walked = [walked_members(sizes, strides, unit, gpus) for unit in units]
        assert members(placed, cluster(*units), gpus)[0].tolist() == [*walked, sizes[0]]


def test_six_gpus_in_threes_stay_inside_a_server_of_eight_and_nine_do_not():
    """Of 9 GPUs in groups of 3 the last group has two GPUs in the first server and one in the second."""
    assert members(group(3, 1), cluster(8), 6).tolist() == [[3, 3]]
    assert members(group(3, 1), cluster(8), 9).tolist() == [[1, 3]]


@pytest.mark.parametrize("order", list(permutations(["tp", "cp", "dp", "pp"])))
def test_on_powers_of_two_placement_is_exact(order):
    full = (*order, "ep")
    table = LayoutTable.of([layout(batch=64, tp=2, cp=4, pp=2, dp=4, rank_order=full)])
    for name in ("tp", "cp", "pp"):
        group = groups(table)[name]
        sizes, strides = ([int(v[0]) for v in column] for column in (group.sizes, group.strides))
        for unit in (2, 4, 8, 16):
            assert int(members(group, cluster(unit))[0, 0]) == walked_members(sizes, strides, unit, 64)


def test_an_expert_group_is_consecutive_ranks_when_innermost():
    table = LayoutTable.of([layout(batch=64, tp=2, cp=1, pp=2, dp=8, ep=8)])
    group = groups(table)["ep"]
    assert (int(group.sizes[0][0]), int(group.strides[0][0])) == (8, 1)
    assert members(group, cluster(8)).tolist() == [[8, 8]]


def group(size: int, stride: int) -> Group:
    return Group((np.array([size]),), (np.array([stride]),))


def test_tensor_parallel_four_straddles_six_gpu_nodes():
    assert members(group(4, 1), cluster(6)).tolist() == [[2, 4]]
    assert members(group(2, 1), cluster(6)).tolist() == [[2, 2]]


@given(inner=st.integers(1, 64), times=st.integers(1, 64), more=st.integers(1, 64))
def test_every_share_adds_up_to_all_that_is_sent(inner, times, more):
    nested = np.array([[inner, inner * times, inner * times * more]])
    for shares in (partner_shares, hierarchical_shares, neighbour_shares):
        total = shares(nested).sum()
        assert total == pytest.approx(1.0 if nested[0, -1] > 1 else 0.0)


@given(
    inner=st.integers(1, 4),
    outer=st.integers(1, 6),
    step=st.integers(1, 4),
    gap=st.integers(1, 3),
    unit=st.sampled_from((2, 3, 4, 6, 8, 12)),
    beyond=st.integers(1, 3),
)
def test_a_group_along_two_axes_is_as_close_as_its_worst_placed_member(inner, outer, step, gap, unit, beyond):
    """Data parallel over dp and cp, next to one another or with stages between."""
    stride = inner * step * gap
    gpus = outer * stride * beyond
    sizes, strides = (inner, outer), (step, stride)
    placed = Group(tuple(np.array([n]) for n in sizes), tuple(np.array([s]) for s in strides))
    assert int(members(placed, cluster(unit), gpus)[0, 0]) == walked_members(sizes, strides, unit, gpus)


def test_data_parallel_over_all_ranks_fills_its_servers_whatever_the_order():
    """cp 3 and dp 8 on three servers of eight are all 24 ranks under either order."""
    for strides in ((1, 3), (8, 1)):
        both = Group((np.array([3]), np.array([8])), tuple(np.array([s]) for s in strides))
        assert members(both, cluster(8), 24).tolist() == [[8, 24]]
