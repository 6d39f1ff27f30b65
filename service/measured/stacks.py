"""The software knobs a run's columns describe; what has no column is as its framework does it."""

from typing import cast, get_args

from models.stack import AttentionKernel, CudaGraph, Fp8Recipe, Stack
from service.measured.run import MeasuredRun
from service.measured.told import CannotPredict, Told

FUSED_LOSS = frozenset({"megatron-core", "composer-fsdp"})
"""Frameworks whose recipes fuse the loss (`cross_entropy_loss_fusion` of NVIDIA-NeMo/Megatron-Bridge;
`loss_fn: fused_crossentropy`, the default of mosaicml/llm-foundry)."""
DROPOUT = frozenset({"megatron-2020", "megatron-2021", "megatron-deepspeed", "oneflow"})
"""Frameworks whose GPT recipes train with dropout 0.1 (NVIDIA/Megatron-LM megatron/arguments.py)."""
UNPRICED = ("fp8_recipe", "cuda_graph", "ep_overlap", "activation_offload", "release")
"""Columns that reach the stack and that no formula reads yet."""


def stack_of(run: MeasuredRun, told: Told) -> Stack:
    """Rebuild the software knobs."""
    for column, value, known in (
        ("attention_kernel", run.attention_kernel, get_args(AttentionKernel)),
        ("fp8_recipe", run.fp8_recipe, get_args(Fp8Recipe)),
        ("cuda_graph", run.cuda_graph, get_args(CudaGraph)),
    ):
        if value is not None and value not in known:
            raise CannotPredict.unknown(column, value, known)
    for column in UNPRICED:
        if value := getattr(run, column):
            told.ignore(column, value, "not priced")
    if run.n_experts:
        told.assume("dispatcher", "all_to_all", "no column")
        told.assume("imbalance", 1.0, "no column: published runs force even routing")
    fused, dropout = run.framework in FUSED_LOSS, run.framework in DROPOUT
    return Stack(
        attention_kernel=cast("AttentionKernel", run.attention_kernel),
        fused_loss=told.assume("fused_loss", fused, f"no column: as {run.framework} does"),
        mtp=run.mtp,
        token_drop=run.token_drop,
        dropout=told.assume("dropout", dropout, f"no column: as {run.framework} does"),
        fp8_recipe=cast("Fp8Recipe | None", run.fp8_recipe),
        cuda_graph=cast("CudaGraph", run.cuda_graph or "none"),
        ep_overlap=run.ep_overlap,
        activation_offload=run.activation_offload,
        release=run.release,
    )
