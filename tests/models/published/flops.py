"""Parameters and FLOPs of known models, and the length of a run."""

import re

from models.architecture import Architecture
from models.catalogue.loader import architecture
from models.cost.flops import model_flops_per_token
from models.cost.kernels.compute import model_flops_utilisation
from models.cost.parameters import count_parameters
from models.cost.published import flops_published, run_length
from models.cost.published.flops_megatron import megatron_step_flops, megatron_token_flops
from tests.builders import H100
from tests.models.published.facts import Given, Ways, gpt

GIGA = 1e9
HOUR = 3600.0


def narayanan_parameters(given: Given) -> float:
    """A GPT with every bias, LayerNorms, learned positions and tied embeddings."""
    biases = {"qkv_bias": True, "attention_output_bias": True, "mlp_bias": True}
    shape = gpt(
        given["h"],
        layers=given["l"],
        vocabulary=given["V"],
        learned_positions=given["s"],
        tied_embeddings=True,
        norm="layer",
        norm_affine=True,
        **biases,
    )
    return count_parameters(shape).total / GIGA


def narayanan_flops(given: Given) -> float:
    shape = (given["B"], given["s"], given["l"], given["h"], given["V"])
    return float(flops_published.narayanan_step_flops(*shape))


def training_days(given: Given) -> float:
    shape = (given["P"], given["T"], given["n"], given["X"])
    return float(run_length.training_seconds_recomputed(*shape)) / run_length.DAY


def palm_mfu(given: Given) -> float:
    shape = (given["N"], given["L"], given["H"], given["Q"], given["T"])
    rate = float(flops_published.palm_token_flops(*shape)) * given["tokens_per_s"] / given["chips"]
    chip = H100.model_copy(update={"peak_bf16_flops": given["peak"]})
    return model_flops_utilisation(rate, chip, "bf16")


def megatron(given: Given) -> dict[str, float]:
    """An entry's case reads like "Llama-3.1-8B (s=8192, B=128, V=128256)"."""
    name, numbers = given["case"].split(" (", 1)
    known = {key: int(value) for key, value in re.findall(r"(\w)=(\d+)", numbers)}
    mtp = 1 if name.endswith(" with one MTP layer") else 0
    slug = name.removesuffix(" with one MTP layer").lower().replace("gpt-3 ", "gpt3-")
    shape = architecture(slug).model_copy(update={"vocabulary": known["V"]})
    return {
        "flops_per_step": megatron_step_flops(shape, known["s"], known["B"], mtp),
        "per_token": megatron_token_flops(shape, known["s"], mtp),
    }


def with_attention(shape: Architecture, sequence: int) -> float:
    return model_flops_per_token(shape, sequence, "with_attention") / GIGA


def deepseek(given: Given) -> float:
    shape = architecture("deepseek-v3")
    assert count_parameters(shape).active_without_embedding == given["active_without_embedding"]
    return with_attention(shape, given["s"])


def llama(given: Given) -> float:
    shape = architecture("llama-3.1-405b")
    assert count_parameters(shape).total == given["parameters"]
    return with_attention(shape, given["s"])


def llama_lengths(given: Given) -> dict[str, float]:
    return {f"s{sequence}": llama({**given, "s": sequence}) for sequence in (4096, 8192)}


def interruptions(given: Given) -> dict[str, float]:
    duration = given["days"] * run_length.DAY
    assert given["planned"] + given["unexpected"] == given["interruptions"]
    unexpected = float(run_length.seconds_between(duration, given["unexpected"])) / HOUR
    lost = run_length.most_lost_seconds(duration, given["interruptions"], given["effective"])
    return {
        "hours_between_unexpected": unexpected,
        "hours_between_any": float(run_length.seconds_between(duration, given["interruptions"])) / HOUR,
        "gpu_hours_per_unexpected": unexpected * given["gpus"],
        "max_minutes_lost_per_interruption": float(lost) / 60,
    }


def young(given: Given) -> dict[str, float]:
    interval = run_length.checkpoint_interval(given["C"], given["M"])
    lost = run_length.lost_share(interval, given["C"], given["M"])
    return {"interval_s": float(interval), "lost_share": float(lost)}


WAYS: Ways = {
    "narayanan-params-": narayanan_parameters,
    "narayanan-flops-": narayanan_flops,
    "narayanan-days-": training_days,
    "palm-mfu-": palm_mfu,
    "megatron-flops-": megatron,
    "isca25-flops-v3": deepseek,
    "isca25-flops-405b": llama,
    "llama405b-flops-own": llama_lengths,
    "llama3-total-flops": lambda given: run_length.training_flops(given["N"], given["D"]),
    "llama3-mtbf": interruptions,
    "young-interval": young,
}
