"""What changes rails on a rail-optimised fabric, and the way it takes."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.catalogue import cluster
from models.cost import candidate
from models.cost.network.collectives import partner_shares
from models.cost.network.placement import Group, groups, members
from models.cost.network.rails import forwarded, server_tier, spread_part
from models.cost.table import LayoutTable
from models.hardware import Cluster, Tier
from tests.builders import H100, layout, setting, workload
from tests.models.test_invariants import MOE

DGX = cluster("dgx-h100")


def railed(server: int, rails: int, leaf: int) -> Cluster:
    tiers = (
        Tier(name="nvlink", gpus=server, bandwidth_bytes_per_s=4.5e11),
        Tier(name="leaf", gpus=leaf, bandwidth_bytes_per_s=5e10, rails=rails),
        Tier(name="spine", bandwidth_bytes_per_s=5e10),
    )
    return Cluster(gpu=H100, gpus_per_node=server, tiers=tiers)


def one(size: int, stride: int) -> Group:
    return Group((np.array([size]),), (np.array([stride]),))


def ranks_of_groups(sizes, strides, gpus):
    found: dict[int, list[int]] = {}
    for rank in range(gpus):
        start = rank - sum(rank // s % n * s for n, s in zip(sizes, strides, strict=True))
        found.setdefault(start, []).append(rank)
    return list(found.values())


def walked(pairs, where: Cluster):
    """Part of the pairs on each tier that change rails, each pair looked at by itself."""
    met, changed = np.zeros(len(where.tiers)), np.zeros(len(where.tiers))
    for a, b in pairs:
        tier = next(k for k, t in enumerate(where.tiers) if t.gpus is None or a // t.gpus == b // t.gpus)
        rails = where.tiers[tier].rails or 1
        server = where.gpus_per_node
        met[tier] += 1
        changed[tier] += a % server * rails // server != b % server * rails // server
    return met > 0, changed / np.maximum(met, 1)


SIZES = [(8, 8, 16), (8, 4, 32), (8, 2, 16), (4, 4, 16), (6, 3, 12), (6, 6, 18)]


@settings(max_examples=200, deadline=None)
@given(
    degrees=st.tuples(*[st.sampled_from([1, 2, 3, 4])] * 4),
    order=st.permutations(["tp", "cp", "ep", "dp", "pp"]),
    where=st.sampled_from([railed(*sizes) for sizes in SIZES]),
)
def test_what_changes_rails_is_what_a_walk_over_every_pair_counts(degrees, order, where):
    tp, cp, pp, dp = degrees
    gpus = tp * cp * pp * dp
    table = LayoutTable.of([layout(batch=dp * 12, tp=tp, cp=cp, pp=pp, dp=dp, rank_order=tuple(order))])
    for name in ("tp", "cp", "dp", "pp"):
        group = groups(table)[name]
        sizes, strides = ([int(v[0]) for v in column] for column in (group.sizes, group.strides))
        inside = ranks_of_groups(sizes, strides, gpus)
        met, changed = walked([p for ranks in inside for p in itertools.permutations(ranks, 2)], where)
        assert spread_part(group, where, gpus)[0, met] == pytest.approx(changed[met])


@given(shift=st.integers(0, 4), size=st.sampled_from([2, 4, 16, 32]))
def test_equal_places_in_their_servers_never_change_rails(shift, size):
    """TP8 inside: DP and PP groups have strides of whole servers, and stay on their rails."""
    group = one(size, 8 * 2**shift)
    gpus = size * 8 * 2**shift
    assert spread_part(group, DGX, gpus).max() == 0.0


def test_experts_over_servers_forward_seven_eighths_of_what_leaves_them():
    """EP 64 over eight servers: 56 of 63 partners are outside, 49 of them on another rail."""
    group = one(64, 1)
    shares = partner_shares(members(group, DGX, 256))
    sent = forwarded(shares, spread_part(group, DGX, 256), 0)
    assert sent[0] * 63 == pytest.approx([7 + 49, 56, 0])


def test_a_rack_forwards_over_its_nvlink():
    """Four rails of an NVL72: of 144 ranks, 72 sit in the other rack, 54 of them on another rail."""
    rack = cluster("gb200-nvl72")
    group = one(144, 1)
    shares = partner_shares(members(group, rack, 144))
    sent = forwarded(shares, spread_part(group, rack, 144), server_tier(rack))
    assert sent[0] * 143 == pytest.approx([71 + 54, 72, 0])


def test_a_fabric_without_rails_forwards_nothing():
    flat = cluster("azure-nd-h100-v5")
    assert spread_part(one(16, 1), flat, 16).max() == 0.0


@given(inside=st.floats(0, 1), part=st.floats(0, 1), size=st.sampled_from([16, 64, 256]))
def test_forwarding_adds_bytes_inside_and_leaves_the_network_what_it_had(inside, part, size):
    shares = np.array([[inside, 1 - inside, 0.0]])
    changed = np.array([[0.0, part, 0.0]])
    sent = forwarded(shares, changed, 0)
    assert sent[0, 1:].tolist() == shares[0, 1:].tolist()
    assert sent[0, 0] >= shares[0, 0]


def test_forwarding_slows_an_exchange_only_where_nvlink_is_the_slower_way():
    def exchange(nvlink: float, rails: int) -> float:
        tiers = (
            Tier(name="nvlink", gpus=8, bandwidth_bytes_per_s=nvlink),
            Tier(name="leaf", gpus=256, bandwidth_bytes_per_s=5e10, rails=rails),
            Tier(name="spine", bandwidth_bytes_per_s=5e10),
        )
        where = Cluster(gpu=DGX.gpu, gpus_per_node=8, tiers=tiers)
        asked = setting(MOE, "calibrated", gpus=16, cluster=where, workload=workload(4096, 512))
        return candidate(layout(MOE, 512, dp=16, ep=16), asked).time.ep_exposed_s

    assert exchange(4.5e11, 8) == exchange(4.5e11, 1)
    assert exchange(3e10, 8) > exchange(3e10, 1)


def test_what_is_forwarded_is_told_and_fills_the_tier_that_carries_it():
    """EP 32 over four servers on eight rails: 7/8 of the 24/31 that leave a server cross NVLink first."""
    tiers = (
        Tier(name="nvlink", gpus=8, bandwidth_bytes_per_s=2e11),
        Tier(name="leaf", gpus=256, bandwidth_bytes_per_s=5e10, rails=8),
        Tier(name="spine", bandwidth_bytes_per_s=5e10),
    )
    where = Cluster(gpu=DGX.gpu, gpus_per_node=8, tiers=tiers)
    asked = setting(MOE, "calibrated", gpus=32, cluster=where, workload=workload(4096, 512))
    found = candidate(layout(MOE, 512, dp=32, ep=32), asked)
    exchange = next(one for one in found.traffic if one.dimension == "ep")
    inside, across = exchange.tiers
    assert across.sent_bytes_per_gpu / exchange.sent_bytes_per_gpu == pytest.approx(24 / 31, rel=1e-6)
    assert inside.forwarded_bytes_per_gpu == pytest.approx(7 / 8 * across.sent_bytes_per_gpu, rel=1e-6)
    assert across.forwarded_bytes_per_gpu == 0
    carried = (found.tiers[0].sent_bytes_per_gpu + found.tiers[0].forwarded_bytes_per_gpu) / 2e11
    assert found.tiers[0].utilisation == pytest.approx(carried / found.step_time_s)
