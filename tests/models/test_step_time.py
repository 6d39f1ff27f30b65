"""Time adds up, costs nothing where nothing is done, and never falls when a link slows."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cost import candidate, estimate
from models.cost.flops import model_flops_per_token
from models.cost.network.collectives import all_reduce_sent, all_to_all_sent
from models.cost.step.host import slowed
from models.cost.table import LayoutTable
from models.hardware import Cluster
from tests.builders import DGX, LLAMA_405B, layout, setting, workload


@pytest.mark.parametrize("name", ["textbook", "calibrated"])
def test_the_parts_of_a_step_add_up(name):
    priced = candidate(layout(tp=8, cp=2, pp=16, dp=64), setting(name=name))
    assert sum(value for _, value in priced.time) == pytest.approx(priced.step_time_s, rel=1e-12)
    for entry in priced.traffic:
        assert sum(tier.sent_bytes_per_gpu for tier in entry.tiers) == entry.sent_bytes_per_gpu
        assert sum(tier.seconds for tier in entry.tiers) == pytest.approx(entry.seconds)


@pytest.mark.parametrize("name", ["textbook", "calibrated"])
def test_one_gpu_sends_nothing_and_waits_for_nothing(name):
    priced = candidate(layout(batch=4), setting(name=name, gpus=1, workload=workload(1024, 4)))
    assert priced.traffic == ()
    waits = priced.time.model_dump()
    assert {key: waits[key] for key in waits if "exposed" in key or key == "bubble_s"} == dict.fromkeys(
        ("tp_exposed_s", "cp_exposed_s", "ep_exposed_s", "pp_exposed_s", "dp_exposed_s", "bubble_s"), 0.0
    )


@pytest.mark.parametrize(
    ("name", "knobs", "off"),
    [
        ("calibrated", {"tp": 8, "cp": 8, "dp": 256}, 1e-12),
        ("textbook", {"tp": 8, "cp": 2, "pp": 16, "dp": 64}, 1e-12),
        ("calibrated", {"tp": 8, "cp": 2, "pp": 16, "dp": 64}, 0.002),
        ("calibrated", {"tp": 8, "pp": 16, "dp": 128, "schedule": "gpipe"}, 0.002),
        ("calibrated", {"tp": 8, "pp": 16, "dp": 32, "schedule": "zb-v", "vpp": 2}, 0.003),
        ("calibrated", {"tp": 8, "pp": 16, "dp": 32, "vpp": 2}, 0.02),
    ],
)
def test_the_search_and_the_report_price_a_layout_the_same(name, knobs, off):
    """To the digit without a pipeline or a bubble; else as near as formulas are to the schedule's run."""
    chosen = layout(**knobs)
    question = setting(name=name)
    told, ranked = candidate(chosen, question), estimate(LayoutTable.of([chosen]), question)
    assert told.step_time_s == pytest.approx(float(ranked.step_time_s[0]), rel=off)
    assert told.memory.peak_bytes == ranked.peak_bytes[0]


def test_the_pipeline_is_told_where_there_is_one():
    """126 layers on 16: 7, 14 times 8, and 7 with the head, none of them longer than 8 layers."""
    assert candidate(layout(tp=8, cp=8, dp=256), setting(name="calibrated")).pipeline is None
    priced = candidate(layout(tp=8, cp=2, pp=16, dp=64), setting(name="calibrated"))
    told, time = priced.pipeline, priced.time
    assert told.timed_by == "simulation"
    assert told.limiting_stage == 1
    assert told.imbalance == pytest.approx(16 * 8 / 126.6 - 1, abs=0.003)
    under = setting(name="calibrated")
    table = LayoutTable.of([priced.layout])
    running = priced.step_time_s - time.optimizer_s - under.profile.rates.step_seconds
    ran = running / float(slowed(table, under)[0]) - time.dp_exposed_s
    assert told.bubble_of_total == pytest.approx(
        1 - (ran - time.bubble_s - time.pp_exposed_s) / (1 + told.imbalance) / ran, abs=1e-9
    )
    assert candidate(layout(pp=16, tp=8, dp=128), setting()).pipeline.timed_by == "formula"


def test_the_texts_count_a_bubble_without_messages():
    """They run behind compute there: (p - 1) / (G + p - 1) of the total, as the timeline has it."""
    chosen = layout(pp=16, tp=8, dp=128)
    told = candidate(chosen, setting()).pipeline
    assert told.bubble_of_total == pytest.approx(15 / (chosen.micro_batches + 15), rel=1e-9)


def test_equal_stages_wait_for_the_published_bubble():
    """Seven layers on each of 18 stages, ends aside: (p - 1) / G of the compute."""
    priced = candidate(
        layout(tp=8, pp=18, dp=1, batch=36), setting(name="calibrated", gpus=144, workload=workload(8192, 36))
    )
    time = priced.time
    assert time.bubble_s / (time.compute_s + time.tp_exposed_s) == pytest.approx(17 / 36, rel=0.15)


def test_interleaving_shortens_the_bubble_and_multiplies_the_messages():
    question = setting(name="calibrated")
    plain = candidate(layout(tp=8, pp=16, dp=128), question)
    cut = candidate(layout(tp=8, pp=16, vpp=4, dp=128), question)
    assert cut.time.bubble_s == pytest.approx(plain.time.bubble_s / 4, rel=0.2)
    messages = [next(e.per_step for e in one.traffic if e.dimension == "pp") for one in (plain, cut)]
    assert messages == [32, 128]


@settings(max_examples=60, deadline=None)
@given(
    tp=st.sampled_from([1, 2, 8, 16]),
    cp=st.sampled_from([1, 2, 4]),
    pp=st.sampled_from([1, 2, 16]),
    zero=st.integers(0, 3),
    slower=st.floats(1.0, 8.0),
)
def test_oversubscription_never_helps(tp, cp, pp, zero, slower):
    dp = 16384 // (tp * cp * pp * 4)
    chosen = layout(tp=tp, cp=cp, pp=pp, dp=dp, batch=8192, zero=zero)
    tiers = (DGX.tiers[0], DGX.tiers[1].model_copy(update={"oversubscription": slower}))
    steps = [
        candidate(
            chosen, setting(name="calibrated", gpus=chosen.gpus, cluster=where, workload=workload(8192, 8192))
        ).step_time_s
        for where in (DGX, Cluster(gpu=DGX.gpu, gpus_per_node=8, tiers=tiers))
    ]
    assert steps[1] >= steps[0] * (1 - 1e-12)


@settings(max_examples=150, deadline=None)
@given(
    tp=st.sampled_from([1, 2, 8]), cp=st.sampled_from([1, 2]), pp=st.sampled_from([1, 4]),
    zero=st.integers(0, 3), vpp=st.sampled_from([1, 3]), recompute=st.sampled_from(["none", "full"]),
    batch=st.sampled_from([512, 4096]),
    gather=st.sampled_from(["per_pass", "keep_to_backward", "keep_for_step"]), slow=st.floats(1, 100),
)  # fmt: skip
def test_no_traffic_hides_behind_more_compute_than_there_is(
    tp, cp, pp, zero, vpp, recompute, batch, gather, slow
):
    vpp = vpp if pp > 1 else 1
    chosen = layout(
        tp=tp, cp=cp, pp=pp, vpp=vpp, dp=256, batch=batch, zero=zero, recompute=recompute,
        weight_gather=gather if zero == 3 else "per_pass",
        gradient_reduce="per_micro_batch" if zero >= 2 else "once",
    )  # fmt: skip
    network = DGX.tiers[1].model_copy(update={"oversubscription": slow})
    where = Cluster(gpu=DGX.gpu, gpus_per_node=8, tiers=(DGX.tiers[0], network))
    question = setting(name="calibrated", gpus=chosen.gpus, cluster=where, workload=workload(8192, batch))
    priced = candidate(chosen, question)
    compute = priced.time.compute_s + priced.time.recompute_s
    for entry in priced.traffic:
        assert entry.seconds - entry.exposed_s <= compute * (1 + 1e-9)
    for tier in where.tiers:
        busy = sum(t.seconds for entry in priced.traffic for t in entry.tiers if t.tier == tier.name)
        assert busy <= priced.step_time_s * (1 + 1e-9)


def test_a_group_of_one_sends_nothing():
    assert all_reduce_sent(1e9, 1) == all_to_all_sent(1e9, 1) == 0


def test_tensor_parallel_over_the_network_costs_more_than_inside_the_node():
    steps = [
        candidate(layout(tp=tp, pp=16, dp=1024 // tp), setting(name="calibrated")).time.tp_exposed_s
        for tp in (8, 16)
    ]
    assert steps[1] > 2 * steps[0]


def test_what_runs_a_collective_decides_how_much_of_it_leaves_the_server():
    ringed, summed = (
        candidate(layout(tp=16, pp=16, dp=64, sequence_parallel=split), setting(name="calibrated")).traffic[0]
        for split in (True, False)
    )
    out = [one.tiers[1].sent_bytes_per_gpu / one.sent_bytes_per_gpu for one in (ringed, summed)]
    assert out[0] == pytest.approx(1 / 8)
    assert out[1] == pytest.approx((1 / 8 - 1 / 16) / (1 - 1 / 16), rel=1e-3)


def test_model_flops_count_causal_attention_at_half():
    """DeepSeek-V3's published 250 GFLOP is met elsewhere; a longer sequence adds 3 L 2 s a d a token."""
    short, long = (model_flops_per_token(LLAMA_405B, s, "with_attention") for s in (8192, 16384))
    assert long - short == 3 * 126 * 2 * 8192 * 128 * 128
