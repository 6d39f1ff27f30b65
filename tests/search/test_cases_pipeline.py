"""Pipelines people asked about in public issues: groups of micro-batches, and layers that do not divide."""

from typing import Any

import pytest

from models.catalogue import resolve
from models.errors import InvalidField
from models.estimate import EvaluateAnswer, SearchAnswer
from models.request import EvaluateRequest, SearchRequest
from search import evaluate, search
from tests.models.cases import held

LLAMA = {"model_type": "llama", "hidden_size": 2048, "num_attention_heads": 16, "intermediate_size": 8192,
        "vocab_size": 32000, "tie_word_embeddings": False}  # fmt: skip
EMBEDDING, LOSS = "--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split"
FIRST, LAST = "--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers"
BOTH = {EMBEDDING: True, LOSS: True}
GROUPS = "Use micro_batch_group of"
CHUNKS = "--num-virtual-stages-per-pipeline-rank"


def of_layers(layers: int) -> dict[str, Any]:
    return LLAMA | {"num_hidden_layers": layers}


def question(
    model: str | dict[str, Any], cluster: str, gpus: int, batch: int, sequence: int = 4096, **more: Any
):
    workload = {"sequence_length": sequence, "global_batch": batch}
    return {"model": model, "cluster": cluster, "gpus": gpus, "workload": workload} | more


def told(*args: Any, layout: dict[str, Any], **more: Any) -> EvaluateAnswer:
    request = EvaluateRequest.model_validate(question(*args, **more) | {"layout": layout})
    return evaluate(request, resolve(request))


def found(*args: Any, **more: Any) -> SearchAnswer:
    request = SearchRequest.model_validate(question(*args, **more))
    return search(request, resolve(request))


def broken(answer: EvaluateAnswer) -> dict[str, str]:
    """Fix of every broken rule but memory's."""
    return {rule.rule: rule.fix for rule in answer.broken_rules if rule.rule != "memory"}


def ways(answer: EvaluateAnswer, framework: str = "megatron") -> list[tuple[str, dict[str, Any]]]:
    assert answer.candidate.pipeline is not None
    assert answer.candidate.pipeline.split is not None
    how = answer.candidate.pipeline.split.how
    return [(way.way, way.settings) for way in how if way.framework == framework]


# Which numbers of micro-batches interleaving takes, and in which groups


def interleaved(pp: int, micro_batches: int, group: int | None = None, vpp: int = 2) -> EvaluateAnswer:
    chosen = {"pp": pp, "vpp": vpp, "dp": 1, "micro_batch": 1}
    chosen |= {"micro_batch_group": group} if group else {}
    return told(of_layers(48), "dgx-h100", pp, micro_batches, 1024, layout=chosen)


def accepted(pp: int, micro_batches: int) -> set[int]:
    """Every group of micro-batches that breaks no rule."""
    groups = range(1, micro_batches + 2)
    return {group for group in groups if not broken(interleaved(pp, micro_batches, group))}


@pytest.mark.parametrize(
    ("pp", "micro_batches", "groups"),
    [
        (4, 4, {4}), (4, 6, {6}), (4, 8, {4, 8}), (4, 10, {5, 6, 10}), (8, 20, {10, 11, 12, 20}),
        (6, 3, set()), (6, 5, set()), (6, 6, {6}), (6, 7, {7}), (6, 8, {8}), (6, 9, {9}), (6, 10, {10}),
        (6, 11, {11}), (6, 12, {6, 12}), (6, 13, {7, 13}),
    ],
)  # fmt: skip
def test_groups_hold_the_stages_and_leave_none_over_or_as_many_as_stages(pp, micro_batches, groups):
    """bionemo-recipes#286, NeMo#14288: pp <= N <= M, and M mod N is 0 or at least pp."""
    assert accepted(pp, micro_batches) == groups


@pytest.mark.parametrize("vpp", [2, 3, 4])
def test_the_number_of_chunks_has_no_say_in_the_number_of_micro_batches(vpp):
    assert not broken(interleaved(4, 4, vpp=vpp))
    assert not broken(interleaved(4, 10, 5, vpp=vpp))


@pytest.mark.parametrize(("pp", "micro_batches"), [(4, 4), (4, 8), (6, 6), (6, 12), (8, 24)])
def test_left_alone_a_group_is_as_many_as_stages(pp, micro_batches):
    answer = interleaved(pp, micro_batches)
    assert answer.candidate.layout.micro_batch_group == pp
    assert not broken(answer)


@pytest.mark.parametrize(
    ("pp", "micro_batches", "fix"),
    [
        (4, 6, f"{GROUPS} 6, or a multiple of 4 micro-batches, such as 8: a global batch of 8."),
        (4, 10, f"{GROUPS} 5, 6, 10, or a multiple of 4 micro-batches, such as 12: a global batch of 12."),
        (6, 7, f"{GROUPS} 7, or a multiple of 6 micro-batches, such as 12: a global batch of 12."),
        (6, 3, "Use at least 6 micro-batches, a global batch of 6; there are 3. "
                "Only torchtitan interleaves fewer than pp."),
    ],
)  # fmt: skip
def test_a_number_that_does_not_go_is_told_the_groups_and_the_batch_that_do(pp, micro_batches, fix):
    assert broken(interleaved(pp, micro_batches)) == {"interleaving_fills_groups": fix}


def test_the_smallest_batch_that_interleaves_is_a_micro_batch_a_stage_on_every_replica():
    """NeMo#14288: pp6 takes at least 6 * micro_batch * dp sequences."""
    chosen = {"pp": 6, "vpp": 2, "dp": 2, "micro_batch": 2}
    answer = told(of_layers(48), "dgx-h100", 12, 12, 1024, layout=chosen)
    assert answer.candidate.layout.micro_batches == 3
    assert broken(answer)["interleaving_fills_groups"].startswith(
        "Use at least 6 micro-batches, a global batch of 24"
    )
    assert not broken(told(of_layers(48), "dgx-h100", 12, 24, 1024, layout=chosen))


def test_a_group_below_the_stages_is_told_the_groups_that_work():
    fix = broken(interleaved(4, 8, 1))["group_holds_the_stages"]
    assert fix == "Use a micro_batch_group of at least 4. Use micro_batch_group of 4, 8."


def test_a_search_left_without_layouts_by_its_groups_finds_the_group_that_works():
    pinned = {"pp": 4, "schedule": "interleaved", "vpp": 2, "micro_batch": 1}
    answer = found(of_layers(48), "dgx-h100", 4, 6, 1024, constraints=pinned)
    assert answer.outcome == "none_fit"
    assert answer.conflict is not None
    assert "interleaving_fills_groups" in {rule.name for rule in answer.conflict.rules}
    changes = [[(c.field, c.from_, c.to) for c in each.change] for each in answer.conflict.relaxations]
    assert [("/constraints/micro_batch_group", None, 6)] in changes
    freed = found(of_layers(48), "dgx-h100", 4, 6, 1024, constraints=pinned | {"micro_batch_group": 6})
    assert freed.outcome == "found"
    assert {place.layout.micro_batch_group for place in freed.shortlist} == {6}


def test_interleaving_has_two_chunks_a_stage_unless_told():
    answer = told(of_layers(48), "dgx-h100", 4, 8, layout={"pp": 4, "schedule": "interleaved"})
    assert answer.candidate.layout.vpp == 2
    assert not broken(answer)
    assert ("/layout/vpp", 2) in {(each.field, each.value) for each in answer.assumptions}


# Layers that do not divide by the stages, and how a framework is told


def test_30_layers_on_4_stages_all_stay_with_both_ends_counted():
    """Megatron-LM#1304, #381: an even split once dropped two of them."""
    answer = told(of_layers(30), "dgx-h100", 4, 16, layout={"pp": 4, "dp": 1})
    assert answer.candidate.layout.stage_layers == (7, 8, 8, 7)
    assert [stage.layers for stage in answer.candidate.memory.stages] == [7, 8, 8, 7]
    assert ways(answer) == [
        ("ends_counted", BOTH),
        ("ends_given", {FIRST: 7, LAST: 7}),
        ("layout", {"--pipeline-model-parallel-layout": "Et*7|(t*8|)*2t*7L"}),
    ]


@pytest.mark.parametrize(
    ("split", "last"), [((16, 16, 16, 13), 13), ((15, 15, 15, 16), 16)]
)  # fmt: skip
def test_61_layers_on_4_stages_go_where_the_last_stage_leaves_them(split, last):
    """radixark/miles PR#1102: the layers over are spread before the stage that is given."""
    answer = told(of_layers(61), "dgx-h100", 4, 16, layout={"pp": 4, "dp": 1, "stage_layers": split})
    assert ways(answer)[0] == ("ends_given", {LAST: last})
    assert not broken(answer)


def test_twice_the_chunks_hold_fewer_activations_of_the_same_state():
    """Megatron-Bridge PR#3107: 1.15 of a pipeline's micro-batches at vpp 5, 1.075 at vpp 10."""
    chosen = {"tp": 4, "pp": 4, "dp": 2, "micro_batch": 1}
    coarse, fine = (told("llama-3-70b", "dgx-h100", 32, 32, layout=chosen | {"vpp": vpp}) for vpp in (5, 10))
    first, second = (answer.candidate.memory.stages[0] for answer in (coarse, fine))
    assert (first.in_flight / 4, second.in_flight / 4) == pytest.approx((1.15, 1.075))
    assert held(first) == held(second) == pytest.approx(54.5, abs=0.051)
    assert second.activations_bytes / first.activations_bytes == pytest.approx(1.075 / 1.15, rel=1e-3)
    assert coarse.candidate.memory.peak_bytes > fine.candidate.memory.peak_bytes
    assert ways(fine)[0] == ("even", {CHUNKS: 10})


def test_32_layers_on_3_stages_count_the_loss_as_one():
    answer = told("llama-3.1-8b", "dgx-h100", 24, 64, 8192, layout={"pp": 3, "dp": 8, "micro_batch": 1})
    assert answer.candidate.layout.stage_layers == (11, 11, 10)
    assert ways(answer)[:2] == [("ends_counted", {LOSS: True}), ("ends_given", {LAST: 10})]
    assert ways(answer, "torchtitan")[0][0] == "lighter_ends"
    assert held(answer.candidate.memory.stages[0]) == pytest.approx(21.9, abs=0.051)


def test_bloom_counts_embedding_and_head_among_its_72_layers():
    """bigscience tr11-176B: tp4 pp12 dp8, 70 layers, tied embeddings on the first and the last stage."""
    chosen = {"tp": 4, "pp": 12, "dp": 8, "micro_batch": 2, "recompute": "full"}
    answer = told("bloom-176b", "dgx-a100", 384, 2048, 2048, layout=chosen)
    assert answer.candidate.layout.stage_layers == (5, *[6] * 10, 5)
    assert answer.candidate.layout.micro_batches == 128
    assert ways(answer)[0] == ("ends_counted", BOTH)
    assert not broken(answer)
    first, second, *_, last = (stage.weights_bytes for stage in answer.candidate.memory.stages)
    layer = second / 6
    embedding = 3_596_615_680 * 2 / 4
    for end in (first, last):
        assert end - 5 * layer == pytest.approx(embedding, rel=0.001)


def test_deepseek_v3_on_8_stages_of_4_chunks_leaves_the_head_alone():
    """torchtitan PR#4016: layers_per_stage 2 is ceil(63 / 2) = 32 stages, and the last holds no layer."""
    split = (1, *[2] * 30, 0)
    chosen = {"pp": 8, "vpp": 4, "dp": 32, "ep": 32, "micro_batch": 1, "stage_layers": split}
    answer = told("deepseek-v3", "gb200-nvl72", 256, 4096, layout=chosen)
    assert answer.candidate.layout.micro_batches == 128
    assert not broken(answer)
    (way, settings), *_ = ways(answer, "torchtitan")
    assert (way, settings["parallelism.pipeline_parallel_layers_per_stage"]) == ("lighter_ends", 2)
    assert ways(answer) == [("layout", {"--pipeline-model-parallel-layout": "Et|(tt|)*30L"})]


def test_a_search_leaves_the_chunk_of_deepseek_v3s_predicted_token_without_other_layers():
    """61 layers on 32 chunks, the predicted one and two heads on the last: no split published is faster."""
    pinned = {"tp": 1, "cp": 1, "pp": 8, "vpp": 4, "ep": 32, "etp": 1, "zero": 1, "micro_batch": 1,
              "schedule": "interleaved"}  # fmt: skip
    job = ("deepseek-v3", "gb200-nvl72", 256, 4096)
    best = found(*job, constraints=pinned, stack={"mtp": True}).shortlist[0]
    layers = best.layout.stage_layers
    assert (sum(layers), len(layers), max(layers[1:-1]), layers[-1]) == (61, 32, 2, 0)
    published = best.layout.model_dump() | {"stage_layers": (1, *[2] * 30, 0)}
    del published["recompute_stage_layers"]
    assert best.step_time_s <= told(*job, layout=published, stack={"mtp": True}).candidate.step_time_s


@pytest.mark.parametrize(
    ("model", "gpus", "chosen", "split"),
    [
        ("qwen3-235b-a22b", 256, {"tp": 2, "pp": 8, "vpp": 4, "dp": 16, "ep": 32}, (2, *[3] * 30, 2)),
        ("qwen3-235b-a22b", 256, {"tp": 2, "pp": 4, "vpp": 12, "dp": 32, "ep": 32}, (1, *[2] * 46, 1)),
        ("llama-3.1-405b", 1024, {"tp": 8, "cp": 2, "pp": 8, "vpp": 8, "dp": 8}, (1, *[2] * 62, 1)),
        ("llama-3.1-405b", 16384, {"tp": 8, "pp": 16, "vpp": 8, "dp": 128}, (0, *[1] * 126, 0)),
    ],
)
def test_94_and_126_layers_divide_with_both_ends_counted(model, gpus, chosen, split):
    """Megatron-Bridge recipes, and the one layer a chunk of Llama 3.1 405B (arXiv:2407.21783)."""
    answer = told(model, "dgx-h100", gpus, 32 * gpus, layout=chosen | {"micro_batch": 1})
    assert answer.candidate.layout.stage_layers == split
    assert ways(answer)[0] == ("ends_counted", BOTH | {CHUNKS: chosen["vpp"]})
    assert not broken(answer)


def test_more_chunks_than_layers_and_two_empty_ends_are_refused_with_the_most_there_may_be():
    for chosen, most in (
        ({"pp": 33}, "at most 32."),
        ({"pp": 5, "vpp": 7}, "at most 32, or of 34 interleaved"),
    ):
        gpus = chosen["pp"]
        with pytest.raises(InvalidField) as error:
            told(of_layers(32), "dgx-h100", gpus, 64, layout=chosen)
        (fault,) = error.value.faults
        assert fault.field == "/layout/pp"
        assert most in fault.fix
    assert not broken(told(of_layers(32), "dgx-h100", 2, 64, layout={"pp": 2, "vpp": 17}))


def test_a_search_takes_as_many_chunks_as_layers_and_the_two_ends():
    for vpp, outcome in ((17, "found"), (18, "none_fit")):
        pinned = {"pp": 2, "vpp": vpp, "schedule": "interleaved", "micro_batch": 1}
        answer = found(of_layers(32), "dgx-h100", 2, 8, 1024, constraints=pinned)
        assert answer.outcome == outcome
    assert answer.conflict is not None
    assert "stages_hold_a_layer" in {rule.name for rule in answer.conflict.rules}


def test_a_split_is_told_to_the_frameworks_that_run_the_schedule_and_to_no_other():
    """DualPipe is its authors' own: no stock framework is told its split."""
    chosen = {"pp": 4, "dp": 1, "schedule": "dualpipe"}
    answer = told(of_layers(30), "dgx-h100", 4, 16, layout=chosen)
    assert ways(answer) == ways(answer, "torchtitan") == []
    folded = told(of_layers(30), "dgx-h100", 4, 16, layout=chosen | {"schedule": "dualpipe-v"})
    assert ways(folded) == []
    assert ways(folded, "torchtitan")[0][0] in ("lighter_ends", "modules")


def test_torchtitan_is_told_no_split_of_a_model_whose_embedding_is_tied():
    """It raises where a pipeline would part the two; Megatron-LM adds their gradients up."""
    answer = told(of_layers(32) | {"tie_word_embeddings": True}, "dgx-h100", 4, 16, layout={"pp": 4, "dp": 1})
    assert ways(answer, "torchtitan") == []
    assert ways(answer)[0] == ("even", {})


# A split the caller holds


def test_a_search_keeps_to_the_split_it_is_given():
    split = (9, 8, 8, 7)
    answer = found(of_layers(32), "dgx-h100", 8, 32, 1024, constraints={"stage_layers": split}, top_k=50)
    assert answer.outcome == "found"
    assert answer.space.complete
    assert {place.layout.stage_layers for place in answer.shortlist} == {split}
    assert {place.layout.pp * place.layout.vpp for place in answer.shortlist} == {4}
    assert {place.layout.pp for place in answer.shortlist} == {2, 4}
    assert "/layout/stage_layers" not in {each.field for each in answer.assumptions}
    for place in answer.shortlist[:3]:
        alone = told(of_layers(32), "dgx-h100", 8, 32, 1024, layout=place.layout.model_dump()).candidate
        assert (alone.step_time_s, alone.memory) == (place.step_time_s, place.memory)


def test_many_chunks_may_be_stated_without_saying_how_many_a_stage_has():
    pinned = {"stage_layers": (1,) * 32, "pp": 2, "schedule": "interleaved"}
    answer = found(of_layers(32), "dgx-h100", 2, 8, 1024, constraints=pinned)
    assert {place.layout.vpp for place in answer.shortlist} == {16}


def test_a_split_no_pipeline_has_chunks_for_is_told_its_rule_and_may_be_dropped():
    pinned = {"stage_layers": (11, 11, 10), "pp": 4}
    answer = found(of_layers(32), "dgx-h100", 8, 32, 1024, constraints=pinned)
    assert answer.outcome == "none_fit"
    assert answer.conflict is not None
    assert "split_covers_the_chunks" in {rule.name for rule in answer.conflict.rules}
    dropped = [[c.field for c in each.change] for each in answer.conflict.relaxations]
    assert ["/constraints/stage_layers"] in dropped


@pytest.mark.parametrize("split", [(9, 8, 8, 8), (16, 0, 0, 16), (32, 32), (1,) * 40])
def test_a_split_of_other_layers_or_with_holes_is_refused_with_one_that_would_do(split):
    with pytest.raises(InvalidField) as error:
        found(of_layers(32), "dgx-h100", 8, 32, 1024, constraints={"stage_layers": split})
    (fault,) = error.value.faults
    assert fault.field == "/constraints/stage_layers"
    assert "For instance [" in fault.fix
