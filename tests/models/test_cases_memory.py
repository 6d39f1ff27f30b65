"""What fits and what does not, and where the bytes are, in runs people reported."""

import numpy as np
import pytest

from models.catalogue.loader import architecture, gpu
from models.cost.memory import activations
from models.cost.parameters import count_parameters
from models.cost.table import LayoutTable
from models.stack import Stack
from tests.builders import layout, setting, workload
from tests.models.cases import EACH_PASS, GB, GIB, held, priced, run, stages


def test_finer_interleaving_holds_fewer_activations():
    """Megatron-Bridge PR#3107: 1.15 of a pipeline's micro-batches at vpp 5, 1.075 at vpp 10."""
    shape, kept = architecture("llama-3-70b"), []
    for chunks, factor in ((5, 1.15), (10, 1.075)):
        first = stages(shape, run(shape, 32, tp=4, pp=4, vpp=chunks))[0]
        assert first.in_flight / 4 == pytest.approx(factor)
        kept.append(first.details["layer_activations"])
    assert kept[1] / kept[0] == pytest.approx(1.075 / 1.15)


@pytest.mark.parametrize(
    ("vocabulary", "tokens", "tp", "sixteen_bits", "gib"),
    [(248320, 9216, 2, True, 2.13), (151936, 8192, 1, False, 4.64)],
)
def test_logits_take_what_people_measured_on_the_last_stage(vocabulary, tokens, tp, sixteen_bits, gib):
    """verl PR#7826 (2.13 GiB predicted, 2.09 measured); Megatron-LM#92, SkyRL PR#1610."""
    shape = architecture("qwen2.5-7b").model_copy(update={"vocabulary": vocabulary})
    chosen = run(shape, 2 * tp, tp=tp, pp=2)
    first, last = stages(shape, chosen, sequence=tokens, stack=Stack(fused_loss=True))
    plain = stages(shape, chosen, sequence=tokens)[1].details["logits"]
    fused = last.details["logits"]
    found = fused if sixteen_bits else plain - fused
    assert found / GIB == pytest.approx(gib, abs=0.005)
    assert "logits" not in first.details


def test_long_sequences_make_logits_large_beside_the_state():
    """verl_megatron_practice#2: 10,240 tokens, 3.1 GB of FP32 logits at tp2."""
    shape = architecture("qwen2.5-7b")
    chosen = run(shape, 8, tp=2)
    plain, fused = (
        stages(shape, chosen, sequence=10240, stack=Stack(fused_loss=loss))[0].details["logits"]
        for loss in (False, True)
    )
    assert (plain - fused) / GB == pytest.approx(3.1, abs=0.05)


def test_unfused_attention_scores_outweigh_all_else_in_a_small_old_model():
    """Megatron-LM#525: gpt2-large on V100, 31.7 GiB to use of the 32 GB on the label."""
    large = {"hidden": 1280, "layers": 36, "heads": 20, "kv_heads": 20, "ffn": 5120}
    shape = architecture("gpt2").model_copy(update=large)
    assert count_parameters(shape).total / 1e6 == pytest.approx(774, abs=0.5)
    assert gpu("v100-32gb").usable_memory_bytes <= 31.75 * GIB
    question = setting(
        shape, workload=workload(1024, 8), stack=Stack(attention_kernel="unfused", dropout=True)
    )
    part = activations.split(LayoutTable.of([layout(shape, 8, micro_batch=8)]), question)
    kept = activations.dense_layer_tensors(shape, part)
    assert np.all(kept["scores"] > activations.layer_total(kept, part) - kept["scores"])


def test_falcon_fits_40_gb_under_zero_3_and_not_under_zero_2():
    """DeepSpeed#3901: 4,096 tokens on eight A100 40 GB."""
    shape = architecture("falcon-7b")
    fits = [
        priced(shape, run(shape, 8, zero=zero, batch=8, **EACH_PASS), "a100-40gb-sxm", 4096, "plain")
        for zero in (2, 3)
    ]
    assert [one.memory.headroom_bytes > 0 for one in fits] == [False, True]


def test_a_shard_over_eight_fits_192_gb_cards_and_never_80():
    """AMD-AGI/Primus llama3.1_70B-BF16-pretrain: micro-batch 3, global batch 24: one micro-batch."""
    shape = architecture("llama-3.1-70b")
    chosen = run(shape, 8, zero=3, batch=24, micro_batch=3, recompute="full")
    assert chosen.micro_batches == 1
    found = held(stages(shape, chosen, "plain", 8192)[0]) * GB
    assert gpu("h100-sxm").usable_memory_bytes < found < gpu("mi300x").usable_memory_bytes


def test_without_a_distributed_optimizer_the_70b_run_is_out_of_memory():
    """Megatron-LM#1031: tp8 pp2 on 128 H100; tp8 pp8 with full recompute runs, at 296 TFLOP/s against 420."""
    shape = architecture("llama-3-70b")
    knobs = {"tp": 8, "pp": 2, "recompute": "selective", "batch": 1024}
    without, with_it, reported = (
        priced(shape, run(shape, 128, **chosen), "h100-sxm", 8192, "megatron")
        for chosen in (
            {**knobs, "zero": 0},
            knobs,
            {**knobs, "pp": 8, "recompute": "full"},
        )
    )
    assert without.memory.headroom_bytes < 0 < with_it.memory.headroom_bytes
    assert with_it.step_time_s < reported.step_time_s


def test_the_first_of_two_stages_is_heavier_by_its_activations():
    """Megatron-LM#1059: 70 and 50 GB at equal model state; two micro-batches in flight against one."""
    shape = architecture("llama-2-70b")
    first, last = stages(shape, run(shape, 256, tp=8, pp=2))
    assert held(first) == pytest.approx(held(last), rel=1e-4)
    assert (first.in_flight, last.in_flight) == (2, 1)
    assert first.details["layer_activations"] == 2 * last.details["layer_activations"]
    assert first.total_bytes > last.total_bytes


def test_deepseek_v3_in_32_chunks_leaves_the_last_one_the_head_alone():
    """torchtitan PR#4016: 256 GPUs, pp8 vpp4, 4,096 sequences: one layer, then twos, then none."""
    shape, split = architecture("deepseek-v3"), (1, *(2,) * 30, 0)
    chosen = run(shape, 256, pp=8, vpp=4, ep=32, batch=4096, stage_layers=split)
    assert sum(split) == shape.layers
    assert (chosen.micro_batches, chosen.edp) == (128, 1)
    found = stages(shape, chosen)
    assert [stage.layers for stage in found] == [7, 8, 8, 8, 8, 8, 8, 6]
