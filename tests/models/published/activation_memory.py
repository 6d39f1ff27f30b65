"""Activations, recompute and model state of Korthikanti et al.; GPipe and Chimera."""

import numpy as np

from models.catalogue.recipes import recipe
from models.cost.kernels.compute import model_flops_utilisation
from models.cost.memory import activations, state
from models.cost.memory import stage_bytes as memory
from models.cost.parameters import count_parameters
from models.cost.pipeline import schedule
from models.cost.published import flops_published, pipelines_published
from models.cost.published.activations_published import outside_layers
from models.cost.setting import Setting
from models.cost.stages import every_stage
from models.cost.table import INTERLEAVED, LayoutTable
from models.layout import Layout
from models.stack import Stack
from tests.builders import H100, layout, setting, workload
from tests.models.published.facts import Given, Ways, gpt

GIB = 2**30
UNFUSED = Stack(attention_kernel="unfused", dropout=True)
MODES = {
    "tp": {"sequence_parallel": False},
    "tp+sp": {"sequence_parallel": True},
    "tp+sp+selective": {"sequence_parallel": True, "recompute": "selective"},
    "full": {"sequence_parallel": False, "recompute": "full"},
}


def question(given: Given, mode: str, rounds: int = 8) -> tuple[Layout, Setting]:
    """The layout of an entry under a mode, with `rounds` micro-batches a stage."""
    architecture = gpt(given["h"], given["a"], given.get("L", 1))
    pp, b = given.get("p", 1), given.get("b", 1)
    batch = rounds * pp * b
    knobs = {"tp": given.get("t", 1), "pp": pp, "vpp": given.get("interleave", 1), "micro_batch": b}
    chosen = layout(architecture, batch, **knobs, **MODES[mode])
    return chosen, setting(architecture, "calibrated", stack=UNFUSED, workload=workload(given["s"], batch))


def kept_layer(given: Given, mode: str) -> float:
    chosen, asked = question(given, mode)
    table = LayoutTable.of([chosen])
    part = activations.split(table, asked)
    checkpoint = activations.checkpoint_bytes(part.tokens, given["h"], part.residual)
    return float(memory.kept_layer_bytes(table, asked, part, checkpoint).dense[0])


def terms(given: Given) -> dict[str, float]:
    chosen, asked = question(given, "tp", rounds=1)
    part = activations.split(LayoutTable.of([chosen]), asked)
    norms = activations.norm_tensors(asked.architecture, part)
    attention = activations.attention_tensors(asked.architecture, part)
    mlp = activations.mlp_tensors(asked.architecture.ffn, False, part)
    mask = norms["dropout_masks"] / 2
    quadratic = attention.pop("scores")
    whole = activations.layer_total(activations.dense_layer_tensors(asked.architecture, part), part)
    return {
        "attention_linear": (norms["attention_norm_output"] + sum(attention.values()) + mask)[0],
        "attention_quadratic": quadratic[0],
        "mlp": (norms["mlp_norm_output"] + sum(mlp.values()) + mask)[0],
        "norms": (norms["attention_norm_input"] + norms["mlp_norm_input"])[0],
        "total": whole[0],
    }


def share_of_baseline(given: Given) -> float:
    return 100 * kept_layer(given, given["mode"]) / kept_layer(given, "tp")


def first_stage(given: Given) -> float:
    chosen, asked = question(given, given["mode"])
    stages = every_stage(chosen.pp, chosen.vpp, asked, chosen.stage_layers)
    lines = memory.memory_lines(LayoutTable.of([chosen]), stages, asked)
    return float(lines["layer_activations"][0, 0]) / GIB


def layer_state(given: Given) -> float:
    kept = recipe("bf16", "fp32", "fp32")
    each = float(state.resident_bytes(0, 0, 0, 0, 1, kept).total)
    assert each == given["bytes_per_parameter"]
    layer = count_parameters(gpt(given["h"])).dense_layer.total
    return layer * given["L"] * each / (given["t"] * given["p"]) / GIB


def interleave_factor(given: Given) -> float:
    p, v = given["p"], given["v"]
    return float(schedule.in_flight(INTERLEAVED, 0, p, 8 * p, v, p)) / p


def scores_share(given: Given) -> float:
    found = terms(given)
    return found["attention_quadratic"] / found["total"]


def selective_flops(given: Given) -> float:
    shape = (1, given["s"], 1, given["h"], 0)
    hardware = flops_published.korthikanti_hardware_flops(*shape)
    return 100 * float(hardware / flops_published.korthikanti_model_flops(*shape) - 1)


def step_flops(given: Given) -> dict[str, float]:
    shape = (given["B"], given["s"], given["L"], given["h"], given["V"])
    needed = float(flops_published.korthikanti_model_flops(*shape))
    done = float(flops_published.korthikanti_hardware_flops(*shape))
    gpu = H100.model_copy(update={"peak_bf16_flops": given["peak"]})
    share = given["iteration_s"] * given["gpus"]
    return {
        "model_flops": needed,
        "hardware_flops": done,
        "mfu": model_flops_utilisation(needed / share, gpu, "bf16"),
        "hfu": model_flops_utilisation(done / share, gpu, "bf16"),
    }


def outside(given: Given) -> float:
    tokens = given["s"] * given["b"]
    return float(outside_layers(tokens, given["h"], given["V"], given["t"], given["p"]).total)


def gpipe_peak(given: Given) -> np.ndarray:
    return pipelines_published.gpipe_kept_activations(given["N"], given["L"], given["p"], given["G"])


def chimera(given: Given) -> dict[str, float]:
    found = pipelines_published.chimera(given["D"], given["N"])
    return {
        "bubble": float(found.bubble),
        "weights_copies": found.weight_copies,
        "activations_min": float(found.least_in_flight),
        "activations_max": float(found.most_in_flight),
    }


WAYS: Ways = {
    "act-formula-terms": terms,
    "act-fig7-": share_of_baseline,
    "act-fig1-state-": layer_state,
    "act-fig1-none-": first_stage,
    "act-fig1-seqsel-": first_stage,
    "act-interleave-factor-": interleave_factor,
    "act-outside-layers-": outside,
    "act-selective-share-": scores_share,
    "act-selective-flops-": selective_flops,
    "flops-korthikanti-": step_flops,
    "gpipe-bubble-": lambda given: schedule.bubble_of_total(given["p"], given["G"], 1),
    "gpipe-peak-terms": gpipe_peak,
    "chimera-bubble-": chimera,
}
