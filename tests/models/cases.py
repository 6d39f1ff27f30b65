"""Layouts of public issues as the cost model sees them."""

from typing import Any

from models.architecture import Architecture
from models.catalogue.loader import gpu
from models.cost import candidate
from models.cost.report import memory_report
from models.estimate import Candidate, StageMemory
from models.layout import Layout
from tests.builders import DGX, layout, setting, workload

GB, GIB = 1e9, 2**30
TRAINING: dict[str, dict[str, Any]] = {
    "megatron": {"gradient_dtype": "fp32"},
    "plain": {"gradient_dtype": "bf16"},
    "fp32": {"gradient_dtype": "fp32", "precision": "fp32"},
}
EACH_PASS = {"gradient_reduce": "per_micro_batch"}


def run(shape: Architecture, gpus: int, **knobs: Any) -> Layout:
    """A layout over all the GPUs, with eight micro-batches a stage unless told."""
    dp = gpus // (knobs.get("tp", 1) * knobs.get("pp", 1))
    batch = knobs.pop("batch", 8 * knobs.get("pp", 1) * dp)
    return layout(shape, batch, dp=dp, **knobs)


def stages(
    shape: Architecture, chosen: Layout, training: str = "megatron", sequence: int = 4096, **more: Any
) -> tuple[StageMemory, ...]:
    batch = chosen.micro_batches * chosen.micro_batch * chosen.dp
    asked = workload(sequence, batch, **TRAINING[training])
    return memory_report(
        chosen, setting(shape, "calibrated", gpus=chosen.gpus, workload=asked, **more)
    ).stages


def held(stage: StageMemory) -> float:
    return (stage.weights_bytes + stage.gradients_bytes + stage.optimizer_bytes) / GB


def priced(shape: Architecture, chosen: Layout, card: str, sequence: int, training: str) -> Candidate:
    batch = chosen.micro_batches * chosen.micro_batch * chosen.dp
    card_gpu = gpu(card)
    question = setting(
        shape,
        "calibrated",
        gpus=chosen.gpus,
        cluster=DGX.model_copy(update={"gpu": card_gpu}),
        workload=workload(sequence, batch, **TRAINING[training]),
        memory_limit_bytes=card_gpu.usable_memory_bytes,
    )
    return candidate(chosen, question)
