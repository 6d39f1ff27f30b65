"""What a server's network cards send is what the tiers say, and no more than the cards can carry."""

import time

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from models.architecture import Architecture
from models.catalogue import loader
from models.cost import candidate
from models.cost.setting import Setting
from models.cost.traffic.node_out import busiest_node, node_out
from models.cost.traffic.placed_traffic import Messages, placed_traffic
from models.cost.traffic.stage_sent import stage_sent
from models.hardware import Cluster, Tier
from models.layout import Layout
from tests.builders import H100, LLAMA_405B, layout, setting, workload

LLAMA_70B, DEEPSEEK = loader.architecture("llama-3-70b"), loader.architecture("deepseek-v3")
NORM = 8
"""What each of many ranks sends to add up the gradient norm. [B]"""


def cluster(node: int, *tiers: int) -> Cluster:
    """Servers of `node` GPUs; each tier joins so many GPUs, and the network all."""
    inner = [Tier(name=f"tier {i}", gpus=gpus, bandwidth_bytes_per_s=450e9) for i, gpus in enumerate(tiers)]
    network = Tier(name="network", bandwidth_bytes_per_s=50e9)
    return Cluster(gpu=H100, gpus_per_node=node, tiers=(*inner, network))


def question(
    chosen: Layout, fabric: Cluster, architecture: Architecture = LLAMA_405B, batch: int = 2048
) -> Setting:
    return setting(
        architecture, "calibrated", gpus=chosen.gpus, cluster=fabric, workload=workload(batch=batch)
    )


def network_bytes(chosen: Layout, asked: Setting) -> int:
    """What an evaluation says a GPU sends over the network, its last tier."""
    return candidate(chosen, asked).tiers[-1].sent_bytes_per_gpu


def test_a_ring_enters_a_server_once_so_a_server_sends_what_one_of_its_ranks_does():
    """ZeRO-3 over 32 ranks, four to a server: a quarter of each rank's bytes goes to another server."""
    chosen = layout(LLAMA_70B, batch=32, dp=32, zero=3)
    asked = question(chosen, cluster(4, 4), LLAMA_70B, batch=32)
    (gradients,) = (one for one in candidate(chosen, asked).traffic if "norm" not in one.operation)
    assert gradients.algorithm == "ring"
    assert busiest_node(chosen, asked)[1] == gradients.sent_bytes_per_gpu + 4 * NORM
    assert busiest_node(chosen, asked)[1] == 4 * network_bytes(chosen, asked)


def test_two_stages_of_four_in_a_server_send_out_what_crosses_one_boundary():
    """Stages 0 and 1 send activations on, stages 2 and 3 gradients back: G a T h / t from each of 4 ranks."""
    chosen = layout(batch=64, tp=4, pp=4)
    asked = question(chosen, cluster(8, 8), batch=64)
    message = 2 * 8192 * LLAMA_405B.hidden // 4
    assert node_out(chosen, asked).tolist() == [4 * 64 * message + 8 * NORM] * 2


def test_the_middle_server_of_a_pipeline_sends_both_ways():
    chosen = layout(batch=64, tp=8, pp=3)
    asked = question(chosen, cluster(8, 8), batch=64)
    one_way = 8 * 64 * 2 * 8192 * LLAMA_405B.hidden // 8
    assert node_out(chosen, asked).tolist() == [n * one_way + 8 * NORM for n in (1, 2, 1)]
    assert busiest_node(chosen, asked)[0] == 1


def test_bytes_between_the_servers_of_a_rack_that_nvlink_joins_go_over_no_card():
    """Four servers of four in a domain hold a pipeline: only its twin in another domain is out."""
    chosen = layout(batch=64, tp=4, pp=4, dp=2, rank_order=("tp", "cp", "ep", "pp", "dp"))
    asked = question(chosen, cluster(4, 16), batch=64)
    (dp,) = (
        one for one in stage_sent(chosen, asked) if one.dimension == "dp" and "norm" not in one.operation
    )
    assert node_out(chosen, asked).tolist() == [4 * (sent + NORM) for sent in (*dp.sent, *dp.sent)]
    alone = layout(batch=64, tp=4, pp=4)
    assert node_out(alone, question(alone, cluster(4, 16), batch=64)).tolist() == [0.0] * 4


@given(
    pp=st.integers(1, 12),
    schedule=st.sampled_from([("1f1b", 1), ("interleaved", 2), ("zb-v", 2), ("dualpipe", 1)]),
    node=st.integers(1, 9),
    servers=st.integers(1, 3),
)
def test_a_pipeline_s_messages_are_followed_one_by_one(pp, schedule, node, servers):
    """Of a pipeline alone all messages are known: those between domains are out, whatever else is not."""
    name, vpp = schedule
    assume(pp > 1 and (name != "dualpipe" or pp % 2 == 0))
    chosen = layout(batch=4 * pp, pp=pp, vpp=vpp, schedule=name, zero=0)
    asked = question(chosen, cluster(node, node * servers), batch=4 * pp)
    out = np.zeros(-(-pp // node))
    for flow in (flow for one in placed_traffic(chosen, asked) for flow in one.flows):
        if isinstance(flow, Messages):
            for source, target, sent in zip(flow.source, flow.target, flow.sent, strict=True):
                leaves = source // (node * servers) != target // (node * servers)
                out[source // node] += sent if leaves else 0
    assert np.abs(node_out(chosen, asked) - out).max() <= node * NORM


@settings(max_examples=60, deadline=None)
@given(
    tp=st.sampled_from((1, 2, 4, 8, 16)),
    cp=st.sampled_from((1, 2, 4)),
    dp=st.sampled_from((1, 4, 6, 8, 16)),
    pp=st.sampled_from((1, 2, 3)),
    zero=st.integers(0, 3),
    order=st.permutations(["tp", "cp", "ep", "dp"]),
    tiers=st.sampled_from(((8,), (4, 8), (16,), (8, 32), (2, 8))),
)
def test_a_server_sends_out_at_most_its_gpus_times_what_the_tiers_say(tp, cp, dp, pp, zero, order, tiers):
    """And as much where all its ranks send alike."""
    assume(tp * cp * dp % max(8, tiers[0]) == 0)
    chosen = layout(batch=4 * dp, tp=tp, cp=cp, dp=dp, pp=pp, zero=zero, rank_order=(*order, "pp"))
    asked = question(chosen, cluster(8, *tiers), batch=4 * dp)
    told = candidate(chosen, asked)
    names = {tier.name for tier in asked.cluster.tiers[1:] if (tier.gpus or np.inf) > 8}
    most = 8 * sum(load.sent_bytes_per_gpu for load in told.tiers if load.tier in names)
    out = busiest_node(chosen, asked)[1]
    assert out <= most + 8 * 8
    if pp == 1:
        assert out == pytest.approx(most, abs=8 * 8)


CARRIED = {
    "zero-3": (LLAMA_70B, {"dp": 32, "zero": 3}, (4, 4)),
    "dense": (LLAMA_405B, {"tp": 8, "pp": 16, "dp": 8}, (8, 8)),
    "context": (LLAMA_405B, {"tp": 8, "cp": 4, "pp": 4, "dp": 2}, (8, 8)),
    "ulysses": (LLAMA_70B, {"cp": 32, "dp": 4, "cp_comm": "ulysses"}, (8, 8)),
    "stages within a server": (LLAMA_70B, {"tp": 2, "pp": 16, "dp": 4}, (8, 8)),
    "experts": (DEEPSEEK, {"pp": 8, "dp": 64, "ep": 64}, (8, 8)),
    "experts on a rack": (DEEPSEEK, {"pp": 4, "dp": 128, "ep": 64}, (4, 64)),
}


@pytest.mark.parametrize("case", CARRIED)
def test_no_server_sends_more_than_its_cards_carry_in_the_step(case):
    model, knobs, (node, domain) = CARRIED[case]
    chosen = layout(model, batch=16 * knobs["dp"], **knobs)
    asked = question(chosen, cluster(node, domain), model, batch=16 * knobs["dp"])
    out = busiest_node(chosen, asked)[1]
    assert 0 < out < node * 50e9 * candidate(chosen, asked).step_time_s


def test_a_last_server_partly_filled_sends_what_its_ranks_do():
    """Ten ranks of a ring on servers of eight: eight sent, then two, which are told as the worst placed."""
    chosen = layout(LLAMA_70B, batch=10, dp=10, zero=3)
    full, rest = node_out(chosen, question(chosen, cluster(8, 8), LLAMA_70B, batch=10))
    assert full == pytest.approx(4 * rest)


def test_one_server_sends_nothing_out():
    chosen = layout(LLAMA_70B, batch=8, tp=2, pp=2, dp=2)
    for fabric in (cluster(8, 8), cluster(8, 2)):
        assert busiest_node(chosen, question(chosen, fabric, LLAMA_70B, batch=8)) == (0, 0)


@pytest.mark.parametrize(
    ("model", "knobs"),
    [(LLAMA_405B, {"tp": 8, "pp": 16, "dp": 1024}), (DEEPSEEK, {"pp": 16, "dp": 8192, "ep": 64})],
)
def test_131_072_gpus_are_not_walked_rank_by_rank(model, knobs):
    chosen = layout(model, batch=4 * knobs["dp"], **knobs)
    asked = question(chosen, cluster(8, 8, 256), model, batch=4 * knobs["dp"])
    spent = []
    for _ in range(3):
        start = time.process_time()
        assert len(node_out(chosen, asked)) == 16384
        spent.append(time.process_time() - start)
    assert min(spent) < 0.5
