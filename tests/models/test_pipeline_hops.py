"""A pipeline's hops: each boundary over its own tier, in time and in bytes."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.architecture import Architecture
from models.cost import candidate
from models.cost.price import estimate, price, price_one
from models.cost.step.chunk_seconds import chunk_durations
from models.cost.table import LayoutTable
from models.cost.traffic.pipeline_traffic import boundary_seconds, busiest_messages, tiers_ahead
from models.cost.traffic.placed_traffic import Messages, placed_traffic
from models.hardware import Cluster, Tier
from tests.builders import H100, layout, setting, workload

LLAMA_70B = Architecture(
    name="llama-3-70b", hidden=8192, layers=80, heads=64, kv_heads=8, head_size=128, ffn=28672,
    vocabulary=128256,
)  # fmt: skip
NETWORK = 1.25e10
SLOW_HOPS = {32: 1, 16: 3, None: 7}
"""Of the 7 boundaries of 8 stages of 8 GPUs, those that leave a leaf of so many GPUs."""


def fabric(leaf, spine=4.0, server=8):
    tiers = [Tier(name="nvlink", gpus=server, bandwidth_bytes_per_s=4.5e11)]
    if leaf:
        tiers.append(Tier(name="leaf", gpus=leaf, bandwidth_bytes_per_s=NETWORK))
    tiers.append(Tier(name="spine", bandwidth_bytes_per_s=NETWORK, oversubscription=spine))
    return Cluster(name="leaves", gpu=H100, gpus_per_node=8, tiers=tuple(tiers))


def asked(cluster, gpus, sequence=8192, name="calibrated", batch=64):
    return setting(LLAMA_70B, name, gpus=gpus, cluster=cluster, workload=workload(sequence, batch))


def eight(schedule="1f1b", vpp=1):
    return layout(LLAMA_70B, 64, tp=8, pp=8, vpp=vpp, schedule=schedule)


def waited(chosen, under):
    """What a step idles and waits, by formula and as its schedule runs. [s]."""
    table = LayoutTable.of([chosen])
    found = []
    for how in (price, price_one):
        added = how(table, under)[2].pipeline
        found.append(float(added.idle[0] + added.waits[0]))
    return found


def tier_times(chosen, under):
    return price(LayoutTable.of([chosen]), under)[1].pp.hops.seconds[0]


def test_filling_and_draining_wait_for_the_hops_as_they_are():
    """GPipe waits for each boundary twice: three slow ones of seven cost three times what one does."""
    _, near, far = tier_times(eight("gpipe"), asked(fabric(16), 64))
    even = waited(eight("gpipe"), asked(fabric(16, spine=1.0), 64))
    for leaf, slow in SLOW_HOPS.items():
        found = waited(eight("gpipe"), asked(fabric(leaf), 64))
        assert np.subtract(found, even) == pytest.approx(2 * slow * (far - near), rel=1e-6)


@pytest.mark.parametrize(("schedule", "vpp"), [("1f1b", 1), ("gpipe", 1), ("interleaved", 2), ("zb-v", 2)])
@pytest.mark.parametrize("spine", [4.0, 16.0])
def test_each_more_hop_over_a_slow_spine_makes_a_step_longer(schedule, vpp, spine):
    chosen, times = eight(schedule, vpp), []
    for leaf in (32, 16, None):
        under = asked(fabric(leaf, spine), 64)
        told = float(estimate(LayoutTable.of([chosen]), under).step_time_s[0])
        times.append((told, candidate(chosen, under).step_time_s))
    assert all(fewer < more for one in zip(*times, strict=True) for fewer, more in pairwise(one))


def test_hops_over_equal_tiers_are_one_message_time():
    """Leaf and spine alike at 1 to 1: where the leaves end moves nothing."""
    steps = {candidate(eight(), asked(fabric(leaf, 1.0), 64)).step_time_s for leaf in SLOW_HOPS}
    assert max(steps) == pytest.approx(min(steps), rel=1e-12)


def test_a_timeline_runs_each_boundary_as_the_step_does():
    chosen, under = eight("interleaved", 2), asked(fabric(32), 64)
    _, near, far = tier_times(chosen, under)
    hops = [near, near, near, far, near, near, near]
    assert chunk_durations(chosen, under).send == pytest.approx([*hops, far, *hops])
    folded = chunk_durations(eight("zb-v", 2), under).send
    assert folded == pytest.approx([*hops, 0, *reversed(hops)])


def test_the_worst_placed_pipeline_counts_at_each_boundary():
    """Three servers in leaves of two: stages 0|1 of one pipeline and 1|2 of the other are split."""
    under = asked(fabric(16), 48)
    chosen = layout(LLAMA_70B, 64, tp=8, pp=3, dp=2, rank_order=("tp", "cp", "ep", "pp", "dp"))
    table = LayoutTable.of([chosen])
    assert tiers_ahead(table, under).tolist() == [[1, 2, 2]] * 8 + [[2, 1, 2]] * 8
    traffic = price(table, under)[1].pp
    assert boundary_seconds(table, traffic, under) == pytest.approx([traffic.hops.seconds[0, 2]] * 2)


def test_stages_between_a_leaf_and_the_spine_send_half_over_each():
    """Stages 1 and 2 of 4: 64 messages of 8 MiB back or ahead in the leaf, and 64 across the spine."""
    chosen = layout(LLAMA_70B, 64, tp=8, pp=4)
    for name in ("calibrated", "textbook"):
        under = asked(fabric(16), 32, 4096, name)
        pp = next(one for one in candidate(chosen, under).traffic if one.dimension == "pp")
        each = {tier.tier: tier.sent_bytes_per_gpu for tier in pp.tiers}
        assert each == {"leaf": 64 * 2**23, "spine": 64 * 2**23} == dict.fromkeys(each, 536_870_912)
        near, far = tier_times(chosen, under)[1:]
        assert [tier.seconds for tier in pp.tiers] == pytest.approx([64 * near, 64 * far])
        assert pp.seconds == pytest.approx(64 * (near + far))


CASES = st.tuples(
    st.sampled_from([(1, 4, 2), (2, 3, 3), (4, 2, 3), (2, 8, 1), (8, 4, 2), (3, 4, 2), (4, 6, 1)]),
    st.sampled_from([("1f1b", 1), ("interleaved", 2), ("zb-v", 2), ("dualpipe-v", 2), ("dualpipe", 1)]),
    st.sampled_from([("tp", "cp", "ep", "dp", "pp"), ("tp", "cp", "ep", "pp", "dp")]),
    st.sampled_from([(4, 8), (4, 12), (8, 16), (6, 12), (8, None)]),
).filter(lambda case: case[1][0] != "dualpipe" or case[0][1] % 2 == 0)


def drawn(case):
    (tp, pp, dp), (schedule, vpp), order, (server, leaf) = case
    shape = {"tp": tp, "pp": pp, "dp": dp, "vpp": vpp, "rank_order": order, "schedule": schedule}
    chosen = layout(LLAMA_70B, 16 * dp, **shape)
    cluster = fabric(leaf, server=server)
    return chosen, asked(cluster, chosen.gpus, batch=16 * dp), cluster


def tier_of(one, other, cluster):
    """Innermost tier that joins two ranks."""
    return next(
        k for k, tier in enumerate(cluster.tiers) if not tier.gpus or one // tier.gpus == other // tier.gpus
    )


@settings(max_examples=80, deadline=None)
@given(CASES)
def test_bytes_by_tier_are_those_of_the_rank_that_sends_the_most(case):
    chosen, under, cluster = drawn(case)
    table = LayoutTable.of([chosen])
    over = np.zeros((chosen.gpus, len(cluster.tiers)))
    (told,) = [one for one in placed_traffic(chosen, under) if one.told.operation == "send_receive"]
    for flow in told.flows:
        assert isinstance(flow, Messages)
        for source, target, sent in zip(flow.source, flow.target, flow.sent, strict=True):
            over[source, tier_of(int(source), int(target), cluster)] += sent
    busiest = max(over.tolist(), key=lambda row: (sum(row), row[::-1]))
    message = float(price(table, under)[1].pp.message[0])
    assert (busiest_messages(table, under) * message).tolist() == pytest.approx(busiest)


@settings(max_examples=80, deadline=None)
@given(CASES)
def test_a_boundarys_message_takes_as_long_as_the_slowest_of_all_pipelines(case):
    chosen, under, cluster = drawn(case)
    table = LayoutTable.of([chosen])
    traffic = price(table, under)[1].pp
    stride = chosen.tp * (chosen.dp if chosen.rank_order[-1] == "pp" else 1)
    turn = {1: list(range(chosen.pp)), 2: [*range(chosen.pp), *range(chosen.pp)]}[chosen.vpp]
    if chosen.schedule in ("zb-v", "dualpipe-v"):
        turn = [*range(chosen.pp), *reversed(range(chosen.pp))]
    first = [rank for rank in range(chosen.gpus) if rank // stride % chosen.pp == 0]
    found = boundary_seconds(table, traffic, under)
    for told, (here, there) in zip(found, pairwise(turn), strict=True):
        tiers = [tier_of(rank + here * stride, rank + there * stride, cluster) for rank in first]
        worst = max(float(traffic.hops.seconds[0, tier]) for tier in tiers)
        assert told == (worst if here != there else 0)
