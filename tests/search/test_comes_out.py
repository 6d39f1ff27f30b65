"""What experts know of layouts comes out of the physics: no rule says any of it."""

from typing import Any

import pytest

from models.catalogue import resolve
from models.estimate import Candidate, SearchAnswer
from models.request import EvaluateRequest, SearchRequest
from search import evaluate, search

NVLINK = {"name": "nvlink", "gpus": 8, "bandwidth_bytes_per_s": 4.5e11}
LEAF = {"name": "leaf", "gpus": 256, "bandwidth_bytes_per_s": 5e10}
INNER, OUTER = ["tp", "cp", "ep", "dp", "pp"], ["tp", "cp", "ep", "pp", "dp"]


def fabric(*tiers: dict[str, Any], gpu: str = "h100-sxm") -> dict[str, Any]:
    return {"gpu": gpu, "gpus_per_node": 8, "tiers": list(tiers)}


def spine(oversubscription: float) -> dict[str, Any]:
    return {"name": "spine", "bandwidth_bytes_per_s": 5e10, "oversubscription": oversubscription}


def asked(model: str, cluster: Any, gpus: int, run: tuple[int, int], **more: Any) -> SearchAnswer:
    workload = {"sequence_length": run[0], "global_batch": run[1]}
    request = SearchRequest(model=model, cluster=cluster, gpus=gpus, workload=workload, **more)
    return search(request, resolve(request))


def priced(
    model: str, cluster: Any, gpus: int, run: tuple[int, int], profile: str = "calibrated", **layout: Any
) -> Candidate:
    request = EvaluateRequest(
        model=model,
        cluster=cluster,
        gpus=gpus,
        workload={"sequence_length": run[0], "global_batch": run[1]},
        layout=layout,
        profile=profile,
    )
    return evaluate(request, resolve(request)).candidate


@pytest.mark.parametrize(
    ("model", "gpus", "run"), [("llama-3-70b", 64, (8192, 128)), ("mixtral-8x7b", 64, (4096, 1024))]
)
def test_tensor_or_expert_parallel_is_innermost_on_the_fastest_tier_that_holds_it(model, gpus, run):
    answer = asked(model, "dgx-h100", gpus, run, constraints={"rank_orders": "all"}, top_k=20)
    assert len(answer.shortlist) == 20
    for place in answer.shortlist:
        for traffic in place.traffic:
            held = traffic.dimension == "tp" or (traffic.dimension == "ep" and place.layout.ep <= 8)
            if held and place.layout.tp * place.layout.ep <= 8:
                assert [part.tier for part in traffic.tiers] == ["nvlink"]


@pytest.mark.parametrize(("inner", "share"), [(8, 0.10), (1, 0.50)])
def test_gpt3_spends_a_tenth_of_a_layer_on_nvlink_and_half_on_one_network_card(inner, share):
    tiers = [dict(NVLINK, gpus=8)] if inner == 8 else []
    cluster = fabric(*tiers, {"name": "network", "bandwidth_bytes_per_s": 5e10})
    found = priced("gpt3-175b", cluster, 64, (2048, 64), profile="textbook", tp=8, pp=8, dp=1, micro_batch=1)
    busy = found.time.compute_s + found.time.tp_exposed_s
    assert found.time.tp_exposed_s / busy == pytest.approx(share, abs=0.015)


def test_a_hierarchy_makes_tensor_parallel_over_two_servers_cheaper_than_one_card_does():
    """Eight ranks on two servers of four: each server's cards carry the crossing bytes together."""
    four = {"gpu": "h100-sxm", "gpus_per_node": 4, "tiers": [dict(NVLINK, gpus=4), spine(1.0)]}
    alone = {"gpu": "h100-sxm", "gpus_per_node": 1, "tiers": [spine(1.0)]}
    within, crossing, single = (
        priced("gpt3-175b", cluster, 64, (2048, 64), tp=8, pp=8, dp=1, micro_batch=1).time.tp_exposed_s
        for cluster in (fabric(NVLINK, spine(1.0)), four, alone)
    )
    assert within < crossing < 0.5 * single


def test_halving_nvlink_moves_deepseek_v3_off_tensor_parallelism():
    """The H800 is an H100 with 200 GB/s of NVLink each way instead of 450; FP8 and recompute as at DeepSeek.

    Its trainers took no TP, 16 stages run from both ends and ZeRO-1 (arXiv:2412.19437, section 3.2).
    """
    modules = ["core_attn", "mla_up_proj", "layernorm", "moe_act"]
    best: dict[Any, Candidate] = {}
    for cluster, degrees in (("h800-8x400g", (1, 2, 4)), ("dgx-h100", (1, 4))):
        for tp in degrees:
            request = SearchRequest(
                model="deepseek-v3",
                cluster=cluster,
                gpus=2048,
                workload={"sequence_length": 4096, "global_batch": 16384, "precision": "fp8"},
                constraints={
                    "tp": tp,
                    "micro_batch": [1, 2],
                    "recompute": "selective",
                    "recompute_modules": modules,
                },
                top_k=1,
            )
            best[cluster, tp] = search(request, resolve(request)).shortlist[0]
    seconds = {place: found.step_time_s for place, found in best.items()}
    assert seconds["h800-8x400g", 1] < seconds["h800-8x400g", 2] < seconds["h800-8x400g", 4]
    cost = {where: seconds[where, 4] / seconds[where, 1] for where in ("h800-8x400g", "dgx-h100")}
    assert cost["h800-8x400g"] > 1.15 > 1.1 > cost["dgx-h100"]
    chosen = best["h800-8x400g", 1].layout
    assert (chosen.pp, chosen.zero) == (16, 1)
    assert chosen.schedule.startswith("dualpipe")


def test_doubling_oversubscription_never_helps_any_layout():
    run, pinned = (8192, 512), {"tp": [4, 8], "recompute": "none", "micro_batch": 1}
    before: dict[Any, float] = {}
    for slow in (1.0, 2.0, 4.0, 8.0):
        answer = asked(
            "llama-3-70b", fabric(NVLINK, LEAF, spine(slow)), 1024, run, constraints=pinned, top_k=40,
            distinct="layout", objective="memory", time_limit_s=300,
        )  # fmt: skip
        after = {place.layout: place.step_time_s for place in answer.shortlist}
        assert len(after) == 40
        for layout, seconds in before.items():
            assert after[layout] >= seconds
        before = after


def test_above_an_oversubscribed_spine_the_order_that_exposes_fewer_bytes_wins():
    """2,048 GPUs in leaves of 256: the outer dimension crosses a 4:1 spine."""
    cluster, run = fabric(NVLINK, LEAF, spine(4.0)), (8192, 1024)
    shapes = [
        {"tp": 8, "pp": 8, "dp": 32, "zero": 1},
        {"tp": 8, "pp": 16, "dp": 16, "zero": 1},
        {"tp": 4, "pp": 8, "dp": 64, "zero": 1},
    ]
    for shape in shapes:
        both = [
            priced("llama-3.1-405b", cluster, 2048, run, rank_order=order, micro_batch=1, **shape)
            for order in (INNER, OUTER)
        ]
        waited = [found.time.pp_exposed_s + found.time.dp_exposed_s for found in both]
        crossing = [found.tiers[2].sent_bytes_per_gpu for found in both]
        assert crossing[0] != crossing[1]
        winner = min(both, key=lambda found: found.step_time_s)
        assert winner is both[waited.index(min(waited))]


def test_data_parallel_ranks_placed_next_to_tensor_parallel_ones_push_pipeline_neighbours_apart():
    """tp-dp-pp has a stage's neighbour dp * tp ranks away, tp-pp-dp the next server's equal rank."""
    cluster, run = fabric(NVLINK, LEAF, spine(1.0)), (8192, 1024)
    far, near = (
        priced("llama-3.1-405b", cluster, 2048, run, rank_order=order, tp=8, pp=8, dp=32, micro_batch=1)
        for order in (INNER, OUTER)
    )
    tiers = [
        {part.tier for one in found.traffic if one.dimension == "pp" for part in one.tiers}
        for found in (far, near)
    ]
    assert tiers == [{"spine"}, {"leaf"}]


def test_the_answer_shows_what_each_outer_order_sends_across_each_tier():
    answer = asked("llama-3.1-405b", fabric(NVLINK, LEAF, spine(4.0)), 2048, (8192, 1024), top_k=5)
    staged = [place for place in answer.shortlist if place.layout.pp > 1 and place.layout.dp > 1]
    assert len(staged) >= 3
    derived = {"rank_order", "edp", "gpus", "micro_batches"}
    for place in staged:
        (other,) = place.other_orders
        assert {tuple(place.layout.rank_order), tuple(other.rank_order)} == {tuple(INNER), tuple(OUTER)}
        assert other.step_time_s >= place.step_time_s
        again = priced(
            "llama-3.1-405b", fabric(NVLINK, LEAF, spine(4.0)), 2048, (8192, 1024),
            **place.layout.model_dump(exclude=derived, exclude_none=True),
            rank_order=other.rank_order,
        )  # fmt: skip
        assert other.tiers == again.tiers


@pytest.mark.parametrize("model", ["llama-3-70b", "mixtral-8x7b"])
def test_the_busiest_node_sends_out_no_more_than_its_cards_carry_in_the_step(model):
    for place in asked(model, "dgx-h100", 64, (4096, 512), top_k=5).shortlist:
        assert place.busiest_node is not None
        carried = 8 * place.tiers[1].bandwidth_bytes_per_s * place.step_time_s
        assert 0 < place.busiest_node_sent_bytes < carried
