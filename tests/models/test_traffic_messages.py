"""What one message holds: DeepSeek-V3, 128 heads, keys of 128 + 64 and values of 128, at 4,096 tokens."""

from typing import Any

from models.catalogue.loader import architecture, cluster
from models.cost import candidate
from models.estimate import DimensionTraffic
from tests.builders import layout, setting, workload

DEEPSEEK = architecture("deepseek-v3")


def traffic(dimension: str, batch: int = 256, **knobs: Any) -> DimensionTraffic:
    """One dimension of a calibrated DeepSeek-V3 layout on DGX H100 nodes."""
    chosen = layout(DEEPSEEK, batch, **knobs)
    asked = workload(4096, batch)
    question = setting(DEEPSEEK, "calibrated", gpus=chosen.gpus, cluster=cluster("dgx-h100"), workload=asked)
    return next(entry for entry in candidate(chosen, question).traffic if entry.dimension == dimension)


def test_ulysses_sends_latent_attention_outputs_at_the_width_of_a_value():
    """1,024 tokens of each of 4 ranks: query 192, key 192, value 128 and output 128 wide, 128 heads, BF16."""
    told = traffic("cp", pp=4, cp=4, dp=16, ep=8, cp_comm="ulysses")
    assert told.message_bytes == 2 * 1024 * 128 * (192 + 192 + 128 + 128) == 167_772_160


def test_a_gradient_reduction_holds_what_is_reduced_on_the_stage_that_sends_the_most():
    """16 ranks share each expert out whole (edp 1): 15/16 of FP32 gradients and BF16 weights, no expert."""
    told = traffic("dp", pp=8, dp=16, ep=16)
    assert told.message_bytes == 14_436_466_688
    assert told.sent_bytes_per_gpu == 14_436_466_688 * 15 // 16 * 3 // 2 == 20_301_281_280
