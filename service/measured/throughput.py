"""Tokens and FLOPs a second: a run's time in the terms its source prints.

One run's TFLOP/s differ by a fifth between the ways of counting, so a figure is compared in the way its own
source counts: attention over the tokens before (`causal`) or over the whole sequence (`whole`), and with
what recompute repeats (`hardware`).
"""

from collections.abc import Iterable
from typing import Literal

from models.cost.flops import TokenFlops, token_flops
from models.cost.published.flops_megatron import prediction_flops
from models.cost.setting import Setting
from models.layout import Layout
from service.measured.run import MeasuredRun

Counts = Literal["causal", "whole", "hardware"]


def counts_of(kind: str | None) -> Counts | None:
    """How a source counts FLOPs, by its `flops_kind`; None where that does not say.

    >>> counts_of("model (causal attention)"), counts_of("hardware (incl. recompute, SC21 eq.)")
    ('causal', 'hardware')
    >>> counts_of("model (full non-causal attention)"), counts_of("model (nanoGPT/PaLM)"), counts_of("model")
    ('whole', 'whole', None)
    """
    said = (kind or "").lower()
    if "hardware" in said:
        return "hardware"
    if "non-causal" in said or "palm" in said:
        return "whole"
    return "causal" if "causal" in said else None


def counts_by_source(runs: Iterable[MeasuredRun]) -> dict[str, Counts]:
    """How each source counts where all of its rows that say it agree, by the source's short name."""
    said: dict[str, set[Counts]] = {}
    for run in runs:
        if counts := counts_of(run.flops_kind):
            said.setdefault(run.family, set()).add(counts)
    return {source: next(iter(found)) for source, found in said.items() if len(found) == 1}


def step_flops(setting: Setting, layout: Layout, counts: Counts) -> float:
    """FLOPs of a step in one way of counting. [FLOP].

    3 (matmul + attention) a token, causal or whole; `hardware` adds the forward of the layers, whole, where
    all of it is recomputed, and of the attention core where that is; MTP as Megatron-LM counts it.
    """
    architecture, length = setting.architecture, setting.workload.sequence_length
    found = token_flops(architecture, length)
    token = found.training_causal if counts == "causal" else found.training_whole
    token += prediction_flops(architecture, length, setting.mtp_layers)
    if counts == "hardware":
        token += _repeated(found, setting, layout)
    return token * setting.workload.tokens_per_step


def _repeated(found: TokenFlops, setting: Setting, layout: Layout) -> float:
    """FLOPs of a token that recompute runs again. [FLOP]."""
    head = 2.0 * setting.architecture.hidden * setting.architecture.vocabulary
    if layout.recompute == "full":
        return found.matmul_forward - head + found.attention_whole_forward
    core = layout.recompute == "selective" and "core_attn" in (layout.recompute_modules)
    return found.attention_whole_forward if core else 0.0


def tokens_per_s_per_gpu(setting: Setting, step_s: float) -> float:
    """Tokens a GPU trains in a second. [tokens/s]."""
    return setting.workload.tokens_per_step / step_s / setting.gpus


def tflops_per_gpu(flops: float, step_s: float, gpus: int) -> float:
    """TFLOP a GPU computes in a second.

    >>> tflops_per_gpu(4e18, 10.0, 1000)
    400.0
    """
    return flops / step_s / gpus / 1e12
