"""Model state people reckoned or ran into in public issues, to the last digit they print.

A figure is weights, gradients and optimizer state of one GPU, in decimal GB. `megatron` keeps BF16
weights, FP32 gradients and FP32 Adam; `plain` BF16 gradients (16 bytes a parameter in all).
"""

from typing import Any, NamedTuple

import pytest

from models.architecture import Architecture
from models.catalogue.loader import architecture, gpu
from models.cost.memory import state
from models.cost.parameters import count_parameters
from models.cost.shards import embedding_matrix
from models.cost.table import LayoutTable
from tests.builders import layout, workload
from tests.models.cases import EACH_PASS, GB, GIB, held, run, stages


class Static(NamedTuple):
    issue: str
    shape: str
    gpus: int
    knobs: dict[str, Any]
    printed: float
    training: str = "megatron"
    stage: int = 0


STATICS = [
    Static("NVIDIA-NeMo/Megatron-Bridge#546", "qwen3-30b-a3b", 4, {"tp": 4, "ep": 4}, 137.6),
    Static("Megatron-DeepSpeed#158", "llama-2-7b", 16, {"tp": 2, "pp": 8, "zero": 0}, 8.47),
    Static("InternLM/xtuner#842", "llama-3-70b", 16, {"zero": 3}, 70.55, "plain"),
    Static("InternLM/xtuner#842", "llama-3-70b", 32, {"zero": 3}, 35.3, "plain"),
    Static("ms-swift#417", "qwen2.5-72b", 16, {"zero": 3}, 72.7, "plain"),
    Static("ms-swift#417", "qwen2.5-72b", 24, {"zero": 3}, 48.5, "plain"),
    Static("Megatron-LM#783", "llama-2-70b", 2, {"zero": 3}, 551.8, "plain"),
    Static("pytorch/torchtune#987", "llama-2-70b", 8, {"zero": 3}, 137.95, "plain"),
    Static("Megatron-LM#1031", "llama-3-70b", 128, {"tp": 8, "pp": 2}, 33.1),
    Static("Megatron-LM#1031", "llama-3-70b", 128, {"tp": 8, "pp": 2, "zero": 0}, 79.4),
    Static("Megatron-Bridge PR#3107", "llama-3-70b", 32, {"tp": 4, "pp": 4, "vpp": 5}, 54.5),
    Static("verl_megatron_practice#2", "qwen2.5-7b", 8, {"tp": 2}, 34.3),
    Static("DeepSpeed#3901", "falcon-7b", 8, {"zero": 2, **EACH_PASS}, 26.0, "plain"),
    Static("DeepSpeed#3901", "falcon-7b", 8, {"zero": 3, **EACH_PASS}, 13.8, "plain"),
    Static("stanford_alpaca#280", "llama-2-7b", 8, {"zero": 1}, 37.1, "plain"),
    Static("stanford_alpaca#280", "llama-2-7b", 8, {"zero": 2, **EACH_PASS}, 25.3, "plain"),
    Static("stanford_alpaca#280", "llama-2-7b", 8, {"zero": 3, **EACH_PASS}, 13.48, "plain"),
    Static("AMD-AGI/Primus llama3.1_70B-BF16-pretrain", "llama-3.1-70b", 8, {"zero": 3}, 141.1, "plain"),
    Static("pytorch/torchtitan PR#481", "llama-3.1-405b", 128, {"tp": 8, "zero": 3}, 50.7, "fp32"),
    Static("Megatron-LM#1059", "llama-2-70b", 256, {"tp": 8, "pp": 2}, 29.1),
    Static("Megatron-LM#1059", "llama-2-70b", 256, {"tp": 8, "pp": 2}, 29.1, stage=1),
    Static("Megatron-LM#756", "mixtral-8x7b", 16, {"ep": 8}, 78.5),
    Static("Megatron-LM#756", "mixtral-8x7b", 16, {"pp": 2, "ep": 8}, 56.8),
    Static("Megatron-LM#756", "mixtral-8x7b", 16, {"tp": 2, "ep": 8}, 73.7),
    Static(
        "pytorch/torchtitan PR#4016", "deepseek-v3", 256,
        {"pp": 8, "ep": 32, "stage_layers": (8, 8, 8, 8, 8, 8, 8, 5)}, 62.6, stage=1,
    ),
    Static(
        "pytorch/torchtitan PR#4016", "deepseek-v3", 256,
        {"pp": 4, "ep": 64, "stage_layers": (16, 15, 15, 15)}, 76.5,
    ),
]  # fmt: skip


def half_a_digit(printed: float) -> float:
    """Half of the last digit a figure is printed with."""
    return 0.51 * 10.0 ** -len(str(printed).split(".")[1])


@pytest.mark.parametrize("case", STATICS, ids=lambda case: f"{case.issue}-{case.printed}")
def test_model_state_is_what_the_issue_reckons(case):
    shape = architecture(case.shape)
    found = held(stages(shape, run(shape, case.gpus, **case.knobs), case.training)[case.stage])
    assert found == pytest.approx(case.printed, abs=half_a_digit(case.printed))


def test_zero_2_keeps_every_weight_of_a_mixture_on_each_gpu():
    """LLaMA-Factory#2379, LLaVA#978: Mixtral 8x7B under DDP or ZeRO-2 on 80 GB."""
    shape = architecture("mixtral-8x7b")
    weights = [stages(shape, run(shape, 8, zero=zero, **EACH_PASS))[0].weights_bytes for zero in (0, 2, 3)]
    assert weights[:2] == [2 * count_parameters(shape).total] * 2
    assert weights[0] / GB == pytest.approx(93.4, abs=0.05)
    assert weights[2] == weights[0] / 8


@pytest.mark.parametrize("replicas", [1, 2, 5])
def test_tp_2_and_pp_8_take_multiples_of_16_gpus(replicas):
    """Megatron-DeepSpeed#158."""
    assert layout(architecture("llama-2-7b"), 8 * replicas, tp=2, pp=8, dp=replicas).gpus == 16 * replicas


def test_seventy_billion_parameters_need_two_nodes():
    """Megatron-LM#783: 16 bytes a parameter in 72 GiB each need 15 GPUs, whole nodes 16."""
    whole = 16.0 * count_parameters(architecture("llama-2-70b")).total
    least = state.least_gpus(whole, 72 * GIB)
    assert (least, -(-least // 8) * 8) == (15, 16)


def test_thirty_billion_parameters_with_lion_need_three_nodes_of_v100():
    """llm-foundry#437: 12 bytes a parameter, 360 GB, on 16 GB cards."""
    kept = workload(precision="fp16", gradient_dtype="fp16", optimizer="lion").recipe
    each = kept.weight + kept.gradient + kept.optimizer
    whole = each * count_parameters(architecture("mpt-30b")).total
    assert whole / GB == pytest.approx(360, rel=0.002)
    least = state.least_gpus(whole, gpu("v100-16gb").memory_bytes)
    assert -(-least // 8) * 8 == 24


def test_a_tied_embedding_is_reckoned_on_both_ends():
    """Megatron-LM#1571: 68.07 B parameters at tp8 pp2 are 4.255 B a rank, 26.6 GB at dp48, 76.6 at dp1.

    The issue's arithmetic spreads one copy of the embedding over the stages; the second one on the
    last stage comes on top.
    """
    shape = Architecture(
        name="gpt-68b",
        hidden=8192,
        layers=84,
        heads=64,
        kv_heads=64,
        head_size=128,
        ffn=4 * 8192,
        gated_mlp=False,
        vocabulary=50257,
        tied_embeddings=True,
        norm="layer",
        qkv_bias=True,
        attention_output_bias=True,
        mlp_bias=True,
    )
    for replicas, printed in ((48, 26.6), (1, 76.6)):
        chosen = run(shape, 16 * replicas, tp=8, pp=2)
        both = sum(held(stage) for stage in stages(shape, chosen))
        copy = float(embedding_matrix(LayoutTable.of([chosen]), shape)[0]) * (6 + 12 / replicas) / GB
        assert (both - copy) / 2 == pytest.approx(printed, abs=0.05)
