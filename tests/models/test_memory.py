"""Memory is right to the byte where arithmetic decides, and behaves where it predicts."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.architecture import Architecture
from models.catalogue import architecture
from models.catalogue.framework_memory import framework
from models.cost import candidate
from models.cost.memory.stage_bytes import PART_OF_LINE, memory_lines, peak_bytes, stage_parts
from models.cost.shards import rank_parameters
from models.cost.splits import balanced_split
from models.cost.stages import every_stage, stage_kinds
from models.cost.table import LayoutTable
from models.estimate import StageMemory
from models.layout import Layout
from models.stack import Stack
from tests.builders import GPT3, LLAMA_405B, layout, setting, workload

USABLE = 85_045_477_376
MIXTRAL = Architecture(
    name="mixtral", hidden=4096, layers=32, heads=32, kv_heads=8, head_size=128, ffn=14336, vocabulary=32000,
    moe={"experts": 8, "experts_per_token": 2, "expert_ffn": 14336},
)  # fmt: skip


def meta(gradients: str, **knobs):
    """Meta's own 405B layout: TP8 PP16 DP128, one layer less on either end."""
    chosen = layout(tp=8, pp=16, dp=128, **knobs)
    question = setting(
        name="calibrated", workload=workload(gradient_dtype=gradients), memory_limit_bytes=USABLE
    )
    return candidate(chosen, question).memory


AFAB = {"zero": 2, "schedule": "gpipe"}


def before_buffers(stage: StageMemory) -> float:
    end = stage.details.get("final_norm", 0) + stage.details.get("logits", 0)
    return (stage.total_bytes - stage.buffers_bytes - stage.overhead_bytes - end) / 1e9


@pytest.mark.parametrize(
    ("gradients", "knobs", "stage_one_gb"),
    [("bf16", {}, 77.0), ("bf16", AFAB, 81.3), ("fp32", {}, 83.3), ("fp32", AFAB, 87.7)],
)
def test_the_second_stage_of_metas_405b_layout_holds_what_is_reckoned_by_hand(gradients, knobs, stage_one_gb):
    """Term by term with a fused SwiGLU, before buffers and overhead."""
    stage = meta(gradients, **knobs).stages[1]
    assert stage.layers == 8
    assert before_buffers(stage) == pytest.approx(stage_one_gb, abs=0.12)


def test_metas_405b_layout_fits_the_card_it_ran_on_and_not_by_much():
    memory = meta("bf16")
    assert memory.peak_stage == 1
    assert 0 < memory.headroom_bytes < 8e9
    assert memory.stages[0].layers == memory.stages[15].layers == 7


def test_fp32_gradients_or_all_forward_all_backward_take_metas_layout_over_the_card():
    assert meta("fp32").headroom_bytes < 0
    assert meta("bf16", **AFAB).headroom_bytes < 0


@pytest.mark.parametrize("name", ["textbook", "calibrated"])
def test_the_six_parts_and_their_lines_add_up_on_every_stage(name):
    memory = candidate(layout(tp=8, pp=16, dp=128), setting(name=name)).memory
    for stage in memory.stages:
        parts = [value for key, value in stage if key.endswith("_bytes") and key != "total_bytes"]
        assert sum(parts) == stage.total_bytes == sum(stage.details.values())
    assert memory.peak_bytes == max(stage.total_bytes for stage in memory.stages)


def test_pricing_one_stage_of_each_kind_finds_the_heaviest_of_all_stages():
    for pp, vpp in ((1, 1), (2, 1), (4, 3), (8, 1), (16, 2), (21, 1), (63, 2)):
        chosen = layout(MIXTRAL if pp <= 16 else LLAMA_405B, 2048, tp=2, pp=pp, vpp=vpp, dp=4)
        architecture = MIXTRAL if pp <= 16 else LLAMA_405B
        question = setting(architecture, "calibrated", gpus=chosen.gpus)
        table = LayoutTable.of([chosen])
        every = every_stage(pp, vpp, question, chosen.stage_layers)
        whole = sum(memory_lines(table, every, question).values())
        assert peak_bytes(table, question)[0] == whole.max()


@pytest.mark.parametrize("schedule", ["zb-h1", "zb-v", "dualpipe-v", "dualpipe"])
def test_one_stage_of_each_kind_finds_the_heaviest_under_every_schedule(schedule):
    vpp = 2 if schedule in ("zb-v", "dualpipe-v") else 1
    for shape, pp in ((MIXTRAL, 4), (MIXTRAL, 16), (LLAMA_405B, 16), (LLAMA_405B, 42)):
        knobs = {"tp": 2, "pp": pp, "vpp": vpp, "dp": 4, "schedule": schedule}
        chosen = layout(shape, 2048, **knobs)
        question = setting(shape, "calibrated", gpus=chosen.gpus)
        table = LayoutTable.of([chosen])
        code = int(table.schedule[0])
        every = every_stage(pp, vpp, question, chosen.stage_layers, code)
        whole = sum(memory_lines(table, every, question).values())
        assert peak_bytes(table, question)[0] == whole.max()
        copies = 2 if schedule == "dualpipe" else 1
        assert (every.dense + every.sparse).sum() == copies * shape.layers
        assert every.first.sum() == every.last.sum() == copies


def stages_under(schedule, shape=LLAMA_405B, **knobs):
    vpp = 2 if schedule in ("zb-v", "dualpipe-v") else 1
    chosen = layout(shape, 64, **{"tp": 8, "pp": 6, "vpp": vpp, "dp": 1, "schedule": schedule} | knobs)
    asked = setting(shape, "calibrated", gpus=chosen.gpus, workload=workload(8192, 64))
    return candidate(chosen, asked).memory.stages


def test_the_vs_hold_both_ends_on_the_first_stage_and_the_same_activations_on_all():
    """Seven layers down and seven up on each of nine stages: 18 chunks of 7 make 126."""
    for schedule, chunks in (("zb-v", 18), ("dualpipe-v", 19)):
        stages = stages_under(schedule, pp=9)
        assert [stage.in_flight * 2 for stage in stages] == [chunks] * 9
        assert [stage.layers for stage in stages] == [14] * 9
        assert "logits" in stages[0].details
        assert all("logits" not in stage.details for stage in stages[1:])
        assert len({stage.details["layer_activations"] for stage in stages}) == 1


def test_dualpipe_holds_two_copies_of_the_weights_and_steps_each_parameter_once():
    plain, twice = stages_under("1f1b", dp=2), stages_under("dualpipe", dp=2)
    for part, copies in (("weights", 2), ("gradients", 2), ("optimizer", 1)):
        whole = [sum(stage.details[part] for stage in stages) for stages in (plain, twice)]
        assert whole[1] == pytest.approx(copies * whole[0], rel=1e-9)
    assert [stage.in_flight for stage in twice] == [3.5] * 6
    assert [stage.layers for stage in twice] == [42] * 6


def test_zb_h1_holds_on_every_stage_what_1f1b_holds_on_the_first():
    plain, split = stages_under("1f1b"), stages_under("zb-h1")
    assert [stage.in_flight for stage in split] == [plain[0].in_flight] * 6
    one = 8192 * 129024 // 8 * 2
    assert split[5].details["logits"] - plain[5].details.get("logits", 0) in (5 * one, 5 * one + 3 * one)


@given(layers=st.integers(1, 200), chunks=st.integers(1, 200))
def test_the_balanced_split_gives_every_layer_a_chunk_and_every_chunk_a_layer(layers, chunks):
    chunks = min(chunks, layers)
    split = balanced_split(layers, chunks)
    assert sum(split) == layers
    assert min(split) >= 1
    assert max(split) - min(split) <= 1
    assert split[-1] <= min(split[:-1], default=split[-1]) + 0
    assert split[0] <= max(split)


def table_of(base: Layout, **columns: list[int]) -> LayoutTable:
    """Rows that differ in the given columns only."""
    count = len(next(iter(columns.values())))
    table = LayoutTable.of([base] * count)
    return replace(table, **{name: np.array(values) for name, values in columns.items()})


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_more_data_parallel_ranks_never_hold_more_state(zero):
    base = layout(GPT3, 4096, zero=zero, dp=1, gradient_reduce="per_micro_batch" if zero > 1 else "once")
    table = table_of(base, dp=[1, 2, 4, 8, 16, 32])
    question = setting(GPT3, "calibrated", workload=workload(2048, 4096))
    lines = memory_lines(table, stage_kinds(table, question), question)
    state = sum(
        value for name, value in lines.items() if PART_OF_LINE[name] in ("weights", "gradients", "optimizer")
    )
    assert (np.diff(state.max(axis=1)) <= 0).all()


def test_expert_parallel_shrinks_experts_and_not_what_their_tokens_keep():
    table = table_of(layout(MIXTRAL, 64, dp=8), ep=[1, 2, 4, 8])
    question = setting(MIXTRAL, "calibrated", gpus=8, workload=workload(4096, 64))
    lines = memory_lines(table, stage_kinds(table, question), question)
    assert (np.diff(lines["layer_activations"][:, 0]) == 0).all()
    assert (np.diff(lines["weights_routed"][:, 0]) < 0).all()


def sharded_lines(architecture: Architecture, framework_name: str = "any", **knobs):
    """Lines of the first stage of a ZeRO-3 layout that reduces after every micro-batch. [B]."""
    chosen = layout(architecture, 64, **{"zero": 3, "gradient_reduce": "per_micro_batch"} | knobs)
    table = LayoutTable.of([chosen])
    question = setting(
        architecture, "calibrated", gpus=chosen.gpus, workload=workload(4096, 64),
        framework=framework(framework_name),
    )  # fmt: skip
    lines = memory_lines(table, stage_kinds(table, question), question)
    return {name: int(value[0, 0]) for name, value in lines.items()}


def test_zero_3_on_one_rank_holds_each_weight_and_each_gradient_once():
    alone, plain = sharded_lines(GPT3, dp=1), sharded_lines(GPT3, dp=1, zero=0, gradient_reduce="once")
    assert alone["gathered_weights"] == alone["unreduced_gradients"] == 0
    assert sum(alone.values()) == sum(plain.values())


def test_zero_3_gathers_over_two_ranks_what_it_shards_over_two():
    assert sharded_lines(GPT3, dp=2)["gathered_weights"] > 0
    assert sharded_lines(GPT3, dp=2)["unreduced_gradients"] > 0
    inside = sharded_lines(GPT3, dp=2, hsdp_shard=1)
    assert inside["gathered_weights"] == inside["unreduced_gradients"] == 0


def test_experts_on_one_rank_each_are_not_gathered_though_the_dense_part_is():
    spread, repeated = sharded_lines(MIXTRAL, dp=8, ep=8), sharded_lines(MIXTRAL, dp=8, ep=4)
    assert spread["gathered_weights_routed"] == spread["unreduced_gradients_routed"] == 0
    assert spread["gathered_weights"] > 0
    assert repeated["gathered_weights_routed"] > 0
    assert repeated["unreduced_gradients_routed"] > 0


@pytest.mark.parametrize("kept", ["keep_to_backward", "keep_for_step"])
def test_weights_that_are_kept_whole_are_not_gathered_beside_it(kept):
    lines = sharded_lines(MIXTRAL, dp=8, ep=4, weight_gather=kept)
    assert lines["gathered_weights"] == lines["gathered_weights_routed"] == 0
    assert lines["weights"] >= sharded_lines(MIXTRAL, dp=8, ep=4, zero=1)["weights"]
    alone = sharded_lines(MIXTRAL, dp=1, weight_gather=kept)
    assert alone["weights"] == sharded_lines(MIXTRAL, dp=1, zero=1)["weights"]


def test_an_fp32_master_is_cast_layer_by_layer_on_one_rank_too():
    lines = sharded_lines(GPT3, "torchtitan", dp=1)
    assert lines["weights"] == 0
    assert lines["gathered_weights"] == 2 * 2 * (12 * 12288**2 + 13 * 12288)


def test_expert_state_is_sharded_over_the_experts_own_ranks_only():
    """With ep = 8 of 8 ranks, edp = 1: ZeRO-1 leaves the experts' optimizer state whole."""
    table = table_of(layout(MIXTRAL, 64, dp=8), ep=[1, 8])
    question = setting(MIXTRAL, "calibrated", gpus=8, workload=workload(4096, 64))
    lines = memory_lines(table, stage_kinds(table, question), question)
    experts = 32 * 8 * 3 * 4096 * 14336
    assert lines["optimizer_routed"][:, 0].tolist() == [12 * experts // 8, 12 * experts // 8]
    assert lines["weights_routed"][:, 0].tolist() == [2 * experts, 2 * experts // 8]


degrees = st.sampled_from([1, 2, 4, 8])


@settings(max_examples=200, deadline=None)
@given(
    tp=degrees,
    cp=degrees,
    dp=degrees,
    pp=st.sampled_from([1, 2, 4]),
    ep=degrees,
    split_experts=st.booleans(),
    zero=st.integers(0, 3),
    recompute=st.sampled_from(["none", "selective", "full"]),
    schedule=st.sampled_from(["gpipe", "1f1b"]),
)
def test_the_part_the_solver_bounds_is_least_without_expert_degrees(
    tp, cp, dp, pp, ep, split_experts, zero, recompute, schedule
):
    etp = tp if split_experts else 1
    if (tp * cp * dp) % (ep * etp):
        return
    shared = {"tp": tp, "cp": cp, "dp": dp, "pp": pp, "zero": zero, "recompute": recompute}
    shared |= {"schedule": schedule if pp > 1 else "none"}
    question = setting(MIXTRAL, "calibrated", gpus=tp * cp * dp * pp, workload=workload(4096, 512))
    plain = LayoutTable.of([layout(MIXTRAL, 512, **shared)])
    spread = LayoutTable.of([layout(MIXTRAL, 512, ep=ep, etp=etp, **shared)])
    (rest, _), (spread_rest, routed) = stage_parts(plain, question), stage_parts(spread, question)
    assert (rest <= spread_rest).all()
    assert (spread_rest + routed).max() == peak_bytes(spread, question)[0]


@pytest.mark.parametrize(("tied", "pp", "copies"), [(False, 8, 1), (False, 1, 0), (True, 8, 0), (True, 1, 0)])
def test_an_mtp_layer_on_a_later_stage_brings_the_input_embedding_and_its_all_reduce(tied, pp, copies):
    """DeepSeek-V3: 129,280 x 7,168 on the last stage; a tied embedding has its copy there already."""
    shape = architecture("deepseek-v3").model_copy(update={"tied_embeddings": tied})
    chosen = layout(shape, 1024, pp=pp, dp=16, ep=16, zero=1)
    table, held, closes = LayoutTable.of([chosen]), [], []
    for mtp in (False, True):
        question = setting(
            shape, "calibrated", gpus=chosen.gpus, workload=workload(4096, 1024), stack=Stack(mtp=mtp)
        )
        every = every_stage(pp, 1, question, chosen.stage_layers)
        held.append(rank_parameters(table, every, question).ends[0])
        rows = {row.operation: row for row in candidate(chosen, question).traffic}
        closes.append(rows.get("all_reduce of the shared embedding"))
    own = 2 * 7168**2 + 3 * 7168
    assert (held[1] - held[0]).tolist() == [0] * (pp - 1) + [copies * 129_280 * 7168 + own]
    assert [row is not None for row in closes] == [tied and pp > 1, pp > 1]
    if pp > 1:
        assert closes[1].message_bytes == 4 * 129_280 * 7168


def test_full_recompute_keeps_inputs_and_one_working_layer():
    kept = candidate(layout(tp=8, pp=16, dp=128, recompute="full"), setting(name="calibrated")).memory.stages[
        1
    ]
    tokens, hidden = 8192, 16384
    assert kept.details["layer_activations"] == 8 * 15 * 2 * tokens * hidden // 8
    none = candidate(layout(tp=8, pp=16, dp=128), setting(name="calibrated")).memory.stages[1]
    assert kept.details["working_layer"] == none.details["layer_activations"] // (8 * 15)


def test_gpipe_holds_the_logits_of_every_micro_batch():
    one = meta("bf16").stages[15].details["logits"]
    assert one == 8192 * 129024 // 8 * 6
    assert meta("bf16", **AFAB).stages[15].details["logits"] == 16 * one
