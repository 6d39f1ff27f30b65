"""The software knobs a run's columns describe; what has no column is as its framework does it."""

from typing import cast, get_args

from models.stack import AttentionKernel, CudaGraph, Dispatcher, Fp8Recipe, Stack
from service.measured.run import MeasuredRun
from service.measured.told import CannotPredict, Told

FUSED_LOSS = frozenset({"megatron-core", "composer-fsdp"})
"""Frameworks whose recipes fuse the loss (`cross_entropy_loss_fusion` of NVIDIA-NeMo/Megatron-Bridge;
`loss_fn: fused_crossentropy`, the default of mosaicml/llm-foundry)."""
DROPOUT = frozenset({"megatron-2020", "megatron-2021", "megatron-deepspeed", "oneflow"})
"""Frameworks whose GPT recipes train with dropout 0.1 (NVIDIA/Megatron-LM megatron/arguments.py)."""
BLACKWELL = frozenset({"B200", "B300", "GB200", "GB300"})
"""GPUs on which NVIDIA's recipes overlap DeepEP or HybridEP; on Hopper they overlap a plain all-to-all
(NVIDIA-NeMo/Megatron-Bridge docs/training/moe-optimization.md, dispatcher types by platform)."""
GRAPHED_SINCE = "26.06"
"""Container since which NVIDIA's recipes for experts capture the whole step and overlap the experts'
exchange; the rows that say so and the later ones that do not agree within 2.3 %."""


def stack_of(run: MeasuredRun, told: Told) -> Stack:
    """Rebuild the software knobs."""
    for column, value, known in (
        ("attention_kernel", run.attention_kernel, get_args(AttentionKernel)),
        ("fp8_recipe", run.fp8_recipe, get_args(Fp8Recipe)),
        ("cuda_graph", run.cuda_graph, get_args(CudaGraph)),
    ):
        if value is not None and value not in known:
            raise CannotPredict.unknown(column, value, known)
    if run.n_experts:
        told.assume("imbalance", 1.0, "no column: published runs force even routing")
    fused, dropout = run.framework in FUSED_LOSS, run.framework in DROPOUT
    graph, overlap = _graphed(run, told)
    dispatcher = _dispatcher(run, overlap, told) if run.n_experts else "all_to_all"
    return Stack(
        attention_kernel=cast("AttentionKernel", run.attention_kernel),
        fused_loss=told.assume("fused_loss", fused, f"no column: as {run.framework} does"),
        mtp=run.mtp,
        token_drop=run.token_drop,
        dropout=told.assume("dropout", dropout, f"no column: as {run.framework} does"),
        fp8_recipe=cast("Fp8Recipe | None", run.fp8_recipe),
        cuda_graph=graph,
        ep_overlap=overlap,
        dispatcher=dispatcher,
        activation_offload=run.activation_offload,
        offload_share=run.offload_share or 1.0,
        release=run.release,
    )


def _graphed(run: MeasuredRun, told: Told) -> tuple[CudaGraph, bool]:
    """Kind of CUDA graph, and whether the experts' exchange overlaps; the container's where not said."""
    if run.cuda_graph:
        return cast("CudaGraph", run.cuda_graph), run.ep_overlap
    if run.n_experts and run.release and run.release >= GRAPHED_SINCE:
        why = f"not stated: as NVIDIA's recipes since {GRAPHED_SINCE} (NVIDIA-NeMo/Megatron-Bridge)"
        return told.assume("cuda_graph", "full", why), told.assume("ep_overlap", True, why)
    return "none", run.ep_overlap


def _dispatcher(run: MeasuredRun, overlap: bool, told: Told) -> Dispatcher:
    """How tokens reach their experts; no column says it."""
    if overlap and run.release and run.gpu in BLACKWELL:
        why = "no column: NVIDIA's recipes that overlap it use DeepEP or HybridEP, one copy a node"
        return told.assume("dispatcher", "deduplicating", why)
    return told.assume("dispatcher", "all_to_all", "no column")
