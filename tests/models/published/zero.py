"""ZeRO's model state and traffic, ZeRO++ and hybrid sharding."""

from models.cost.memory import activations, state
from models.cost.published.activations_published import zero_activation_bytes
from models.cost.published.capacity import largest_parameters
from models.cost.published.volumes import (
    fully_sharded_sent,
    hybrid_sharded_sent,
    replicated_sent,
    zero_plus_plus_volume,
)
from models.cost.table import ONCE, ONE_F_ONE_B, PER_MICRO_BATCH, PER_PASS
from tests.builders import workload
from tests.models.published.facts import Given, Ways

ADAM = workload(gradient_reduce_dtype="bf16").recipe
STAGES = {"stage1": 1, "stage2": 2, "stage3": 3}
GB = 1e9


def per_parameter(zero: int, shards: int) -> float:
    held = state.resident_bytes(zero, ONE_F_ONE_B, PER_MICRO_BATCH, PER_PASS, shards, ADAM)
    return float(held.total)


def model_state(given: Given) -> dict[str, float]:
    return {name: per_parameter(zero, given["D"]) * given["parameters"] / GB for name, zero in STAGES.items()}


def largest_model(given: Given) -> dict[str, float]:
    memory = given["gpu_GB"] * GB
    return {
        name: float(largest_parameters(memory, per_parameter(zero, given["D"]), given["MP"])) / GB
        for name, zero in {"baseline": 0, **STAGES}.items()
    }


def volume(given: Given) -> float:
    zero, reduce = {
        "DP": (0, ONCE),
        "stage 1/2": (1, ONCE),
        "stage 3": (3, PER_MICRO_BATCH),
    }[given["mode"]]
    many = 1e12
    sent = float(state.traffic_bytes(zero, reduce, PER_PASS, many, 1, ADAM))
    return sent / ADAM.weight


def partitioned_checkpoints(given: Given) -> dict[str, float]:
    tokens = given["s"] * given["b"]
    whole, part = (
        activations.checkpoint_bytes(tokens, given["h"], ranks, given["bytes_per_element"])
        for ranks in (1, given["MP"])
    )
    return {"ratio": float(whole / part)}


def gpt2(given: Given) -> dict[str, float]:
    kept = zero_activation_bytes(given["s"] * given["b"], given["h"], given["L"])
    held = per_parameter(0, 1) * given["parameters"]
    return {"activations": float(kept) / GB, "state": held / GB}


def zero_plus_plus(given: Given) -> dict[str, float]:
    assert not given
    plain, small = zero_plus_plus_volume(), zero_plus_plus_volume(8, 4, secondary_partition=True)
    return {
        "zero3": plain.total,
        "qwZ_forward": small.forward_gather,
        "hpZ_backward": small.backward_gather,
        "qgZ": small.gradient_reduce,
        "total": small.total,
        "reduction": plain.total / small.total,
    }


def hybrid(given: Given) -> dict[str, float]:
    weights, ranks = given["M_bytes"], given["W"]
    return {
        "replicate": float(replicated_sent(weights, ranks)),
        "full_shard": float(fully_sharded_sent(weights, ranks)),
        "hybrid": float(hybrid_sharded_sent(weights, ranks, given["G"])),
    }


WAYS: Ways = {
    "zero-table1-": model_state,
    "zero-table2-": largest_model,
    "zero-volume-": volume,
    "zero-pa-": partitioned_checkpoints,
    "zero-1p5b-activations": gpt2,
    "zeropp-volume": zero_plus_plus,
    "hsdp-volume-": hybrid,
}
