"""Clusters people asked about in public issues: odd counts, shared cards, straddled servers, slow spines."""

from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from models.catalogue import resolve
from models.cost import candidate
from models.errors import InvalidField
from models.estimate import Candidate, EvaluateAnswer, SearchAnswer
from models.request import EvaluateRequest, SearchRequest
from search import evaluate, search
from search.problem import setting_of
from tests.models.cases import GB, held


def servers(gpus, card, *, nvlink=4.5e11, network=5e10, nics=None, leaf=None, spine=1.0) -> dict[str, Any]:
    """A cluster of servers, with leaves of so many GPUs or none."""
    tiers = [{"name": "nvlink", "gpus": gpus, "bandwidth_bytes_per_s": nvlink}]
    outside = {"bandwidth_bytes_per_s": network}
    tiers += [{"name": "leaf", "gpus": leaf} | outside] if leaf else []
    tiers += [{"name": "spine", "oversubscription": spine} | outside]
    return {"gpu": card, "tiers": tiers, "gpus_per_node": gpus, "nics_per_node": nics or gpus}


def shared_cards(spine=4.0, leaf=None) -> dict[str, Any]:
    """Two 400 Gb/s cards to eight H100: 12.5 GB/s a GPU, a quarter of it across the spine."""
    return servers(8, "h100-sxm", network=1.25e10, nics=2, leaf=leaf, spine=spine)


def question(model, cluster, gpus, batch, sequence=4096, precision="bf16", **more) -> dict[str, Any]:
    asked = {"sequence_length": sequence, "global_batch": batch, "precision": precision}
    return {"model": model, "cluster": cluster, "gpus": gpus, "workload": asked} | more


def found(*args, **more) -> SearchAnswer:
    request = SearchRequest.model_validate(question(*args, **({"top_k": 1000} | more)))
    answer = search(request, resolve(request))
    assert answer.space.complete
    return answer


def told(*args, layout, **more) -> EvaluateAnswer:
    request = EvaluateRequest.model_validate(question(*args, **more) | {"layout": layout})
    return evaluate(request, resolve(request))


def priced(*args, layout, **more) -> Candidate:
    return told(*args, layout=layout, **more).candidate


def degrees(answer: SearchAnswer, name: str) -> set[int]:
    return {getattr(row.layout, name) for row in answer.shortlist}


def best(answer: SearchAnswer, **knobs: int) -> Candidate:
    return next(row for row in answer.shortlist if all(getattr(row.layout, k) == v for k, v in knobs.items()))


# 192 GPUs and 24 GPUs: the three has one place to go


def test_of_192_v100_the_three_sits_in_the_pipeline():
    """bigcode/Megatron-LM#4: 192 = 2^6 x 3 under a batch and heads of powers of two."""
    answer = found("gpt3-6.7b", "dgx-v100", 192, 1024, 2048, "fp16")
    assert {pp % 3 for pp in degrees(answer, "pp")} == {0}
    assert not any(degrees(answer, name) & {3, 6, 12} for name in ("tp", "cp", "dp"))
    assert answer.warnings == ()


def test_on_24_gpus_with_a_batch_of_64_stages_come_in_threes():
    """Llama 3.1 8B: pp 3, 6, 12 or 24, and the shortest pipeline is the best."""
    answer = found("llama-3.1-8b", "dgx-h100", 24, 64, 8192)
    assert degrees(answer, "pp") == {3, 6, 12, 24}
    assert (answer.shortlist[0].layout.pp, answer.shortlist[0].layout.tp) == (3, 1)


def test_one_layer_less_on_the_last_of_three_stages_holds_what_was_reckoned():
    """11, 11 and 10 layers with tp1 dp8: 21.9 GB of model state on the first stage."""
    row = priced(
        "llama-3.1-8b", "dgx-h100", 24, 64, 8192, layout={"pp": 3, "dp": 8, "stage_layers": [11, 11, 10]}
    )
    assert held(row.memory.stages[0]) == pytest.approx(21.9, abs=0.051)


# 2,100 and 1,440 GPUs


@pytest.fixture(scope="module")
def answer_2100() -> SearchAnswer:
    return found("llama-3-70b", "dgx-h100", 2100, 1050, 8192, constraints={"cp": 1})


def test_half_a_server_keeps_tp_8_out_of_2100_gpus_and_is_told(answer_2100):
    assert max(degrees(answer_2100, "tp")) == 4
    (warning,) = answer_2100.warnings
    assert "4 of 8" in warning
    assert "262" in warning
    assert found("llama-3-70b", "dgx-h100", 2100, 1050, 8192, constraints={"tp": 8}).outcome == "none_fit"


def test_pipelines_of_2100_gpus_in_fours_and_which_of_them_are_even(answer_2100):
    rows = [row.layout for row in answer_2100.shortlist if row.layout.tp == 4]
    assert {row.pp for row in rows} == {1, 3, 5, 7, 15, 21, 25, 35, 75}
    assert all(row.pp * row.dp == 525 for row in rows)
    assert {pp for pp in {row.pp for row in rows} if 80 % pp == 0} == {1, 5}


def test_105_replicas_do_not_share_1024_sequences():
    with pytest.raises(InvalidField, match="1024"):
        told("llama-3-70b", "dgx-h100", 2100, 1024, 8192, layout={"tp": 4, "pp": 5, "dp": 105})
    row = priced("llama-3-70b", "dgx-h100", 2100, 1050, 8192, layout={"tp": 4, "pp": 5, "dp": 105})
    assert row.layout.stage_layers == (16,) * 5
    assert row.layout.micro_batches == 10


def test_180_whole_servers_take_tp_8_with_pipelines_of_4_5_10_and_20():
    answer = found("llama-3-70b", "dgx-h100", 1440, 1440, 8192, constraints={"tp": 8, "cp": 1})
    assert {(5, 36), (4, 45), (10, 18), (20, 9)} <= {
        (row.layout.pp, row.layout.dp) for row in answer.shortlist
    }
    assert answer.warnings == ()


# servers of four and of six GPUs


def test_tp_8_over_servers_of_four_is_allowed_warned_of_and_slower_than_tp_4():
    """CodeGen2#3: eight servers of four GPUs."""
    four = servers(4, "a100-80gb-sxm", nvlink=3e11, network=2.5e10)
    answer = found("llama-2-13b", four, 32, 256)
    inside, across = best(answer, tp=4), best(answer, tp=8)
    assert inside.step_time_s < across.step_time_s
    assert any("TP 8 leaves" in text for text in across.warnings)
    assert not any("TP 4 leaves" in text for text in inside.warnings)
    assert answer.shortlist[0].layout.tp <= 4


@lru_cache(maxsize=1)
def on_six() -> dict[int, EvaluateAnswer]:
    """Llama 3.2 3B, 24 heads of which 8 keep keys and values, on servers of six by TP degree."""
    six = servers(6, "v100-16gb", nvlink=5e10, network=3.83e9, nics=2)
    return {
        tp: told("llama-3.2-3b", six, 48, 96, 4096, "fp16", layout={"tp": tp, "pp": 2})
        for tp in (1, 2, 3, 4, 6, 8)
    }


def test_on_servers_of_six_tp_3_and_6_break_the_heads_and_4_and_8_straddle():
    broken = {tp: [rule.rule for rule in answer.broken_rules] for tp, answer in on_six().items()}
    assert {tp for tp, rules in broken.items() if "kv_heads_divide" in rules} == {3, 6}
    straddles = {tp for tp, a in on_six().items() if any("leaves" in text for text in a.candidate.warnings)}
    assert {tp for tp in on_six() if tp not in straddles and "kv_heads_divide" not in broken[tp]} == {1, 2}


def test_what_straddles_a_server_of_six_sends_over_the_network_and_pays_for_it():
    network = {}
    for tp, answer in on_six().items():
        tiers = [t for entry in answer.candidate.traffic if entry.dimension == "tp" for t in entry.tiers]
        network[tp] = sum(t.sent_bytes_per_gpu for t in tiers if t.tier == "spine")
    assert [tp for tp, sent in network.items() if sent] == [4, 8]
    assert on_six()[2].candidate.step_time_s < 0.6 * on_six()[4].candidate.step_time_s


# cards shared by GPUs


def test_two_stages_on_shared_cards_show_each_stage_and_the_first_is_heavier():
    """Megatron-LM#1059: 70B on 32 servers of 8 A800, two GPUs to a 200 Gb/s card; tp8 pp2."""
    row = priced("llama-2-70b", "a800-4x200g", 256, 512, layout={"tp": 8, "pp": 2})
    first, last = row.memory.stages
    assert held(first) == pytest.approx(29.1, abs=0.051)
    assert held(last) == pytest.approx(29.1, abs=0.051)
    assert first.total_bytes - last.total_bytes > 5 * GB
    assert row.layout.dp == 16


def test_on_cut_nvlink_less_tp_and_more_stages_beat_the_layout_that_disappointed():
    """The same servers: NVLink of an A800 is 200 GB/s, and TP8 sends every layer over it."""
    tried = {
        (tp, pp): priced("llama-2-70b", "a800-4x200g", 256, 512, layout={"tp": tp, "pp": pp})
        for tp, pp in ((8, 2), (4, 4))
    }
    assert tried[4, 4].step_time_s < tried[8, 2].step_time_s
    chosen = found("llama-2-70b", "a800-4x200g", 256, 512, top_k=1).shortlist[0]
    assert chosen.step_time_s < 0.9 * tried[8, 2].step_time_s
    assert chosen.layout.tp < 8


@pytest.fixture(scope="module")
def answer_64() -> SearchAnswer:
    return found("llama-3-8b", shared_cards(), 64, 256, 8192)


def test_tp_stays_in_its_server_where_the_network_is_slow(answer_64):
    chosen = answer_64.shortlist[0]
    assert chosen.layout.tp <= 8
    wide = [row.step_time_s for row in answer_64.shortlist if row.layout.tp > 8]
    narrow = [row.step_time_s for row in answer_64.shortlist if row.layout.tp <= 8]
    assert all(time > np.median(narrow) for time in wide)


@pytest.mark.parametrize("leaf", [16, 32])
@pytest.mark.parametrize(("tp", "pp"), [(8, 2), (8, 4), (4, 4), (2, 2)])
def test_heavy_gradients_under_the_leaf_and_stages_across_a_4_to_1_spine_beat_the_reverse(leaf, tp, pp):
    """70B: the order that keeps DP under the leaf sends fewer bytes across the spine, and is faster."""
    across, seconds = {}, {}
    for order in ("dp-pp", "pp-dp"):
        layout = {"tp": tp, "pp": pp, "rank_order": ["tp", "cp", "ep", *order.split("-")]}
        row = priced("llama-3-70b", shared_cards(leaf=leaf), 64, 256, 8192, layout=layout)
        tiers = [tier for entry in row.traffic for tier in entry.tiers]
        across[order] = sum(tier.sent_bytes_per_gpu for tier in tiers if tier.tier == "spine")
        seconds[order] = row.step_time_s
    assert across["dp-pp"] < across["pp-dp"]
    assert seconds["dp-pp"] < seconds["pp-dp"]


@pytest.mark.parametrize("sent", ["bf16", "fp32"])
def test_sharding_over_64_gpus_falls_below_groups_of_8_that_add_up_once_a_step(sent):
    """FSDP gathers over the spine in each of four micro-batches, HSDP 8x8 inside its servers."""
    times = []
    for more in ({}, {"hsdp_shard": 8}):
        asked = question("llama-3-8b", shared_cards(), 64, 256, 8192)
        asked["workload"]["gradient_reduce_dtype"] = sent
        asked["layout"] = {"zero": 3, "gradient_reduce": "once", "recompute": "full"} | more
        request = EvaluateRequest.model_validate(asked)
        times.append(evaluate(request, resolve(request)).candidate.step_time_s)
    whole, in_eights = times
    assert in_eights < whole


@pytest.mark.parametrize("leaf", [None, 16, 32])
def test_doubling_the_oversubscription_makes_no_layout_faster(answer_64, leaf):
    layouts = [row.layout for row in answer_64.shortlist]
    times = []
    for spine in (1.0, 2.0, 4.0, 8.0):
        asked = question("llama-3-8b", shared_cards(spine, leaf), 64, 256, 8192)
        request = SearchRequest.model_validate(asked)
        under = setting_of(request, resolve(request))
        times.append([candidate(layout, under).step_time_s for layout in layouts])
    assert len(layouts) > 30
    assert (np.diff(times, axis=0) >= 0).all()
    assert times[-1] != times[0]


# many micro-batches on one server


@pytest.mark.parametrize("model", ["gpt3-6.7b", "llama-3-8b"])
@pytest.mark.parametrize("batch", [64, 256])
def test_a_small_model_with_many_micro_batches_prefers_stages_or_replicas_to_tp(model, batch):
    """Megatron-LM#258: up to 10B on one DGX A100; pipeline 30 % faster than tensor parallelism."""
    tried = {
        name: priced(model, "dgx-a100", 8, batch, 2048, layout=layout)
        for name, layout in (("tp", {"tp": 8}), ("pp", {"pp": 8}), ("dp", {"dp": 8}))
    }
    assert tried["pp"].layout.micro_batches == batch
    assert min(tried["pp"].step_time_s, tried["dp"].step_time_s) < tried["tp"].step_time_s


def test_the_pipeline_gains_a_sixth_at_least_on_a_gpt_of_6_7_billion():
    times = [
        priced("gpt3-6.7b", "dgx-a100", 8, 256, 2048, layout=layout).step_time_s
        for layout in ({"tp": 8}, {"pp": 8})
    ]
    assert times[0] / times[1] > 1.15
