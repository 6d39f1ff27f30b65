"""The architecture a run's columns describe; the name in the file is never looked up."""

from models.architecture import Architecture, LatentAttention, MixtureOfExperts
from models.cost.parameters import count_parameters
from service.measured.run import MeasuredRun
from service.measured.told import CannotPredict, Told

GPT_STYLE = {
    "norm": "layer",
    "qkv_bias": True,
    "attention_output_bias": True,
    "mlp_bias": True,
}
"""What a plain (not gated) feed-forward comes with: LayerNorm and biases, as GPT-2 and its kin have
(openai/gpt-2 src/model.py). They move no byte that matters, but parameters."""


def architecture_of(run: MeasuredRun, told: Told) -> Architecture:
    """Rebuild the architecture; tying and learned positions are chosen to meet the stated total."""
    told.assume(
        "norm and biases",
        "rms, none" if run.gated_mlp else "layer, everywhere",
        "no column: LLaMA's with a gated feed-forward, GPT-2's with a plain one",
    )
    options = [
        _architecture(run, tied, positions) for tied in _tied_options(run) for positions in _positions(run)
    ]
    best = options[0]
    if run.params_total_B is not None:
        total = run.params_total_B * 1e9
        best = min(options, key=lambda a: abs(count_parameters(a).total - total))
    _tell_choice(run, best, told)
    return best


def _tied_options(run: MeasuredRun) -> tuple[bool, ...]:
    """GPT-2 style first where the column is blank: plain feed-forward tied, gated not."""
    if run.tied_embeddings is not None:
        return (run.tied_embeddings,)
    return (not run.gated_mlp, run.gated_mlp)


def _positions(run: MeasuredRun) -> tuple[int, ...]:
    """Learned positions only ever stand beside a plain feed-forward, one row a token."""
    return (0,) if run.gated_mlp else (0, run.seq_len)


def _tell_choice(run: MeasuredRun, chosen: Architecture, told: Told) -> None:
    known = run.params_total_B is not None
    why = "meets params_total_B best" if known else "as GPT-2 style models do, or LLaMA style"
    if run.tied_embeddings is None:
        told.assume("tied_embeddings", chosen.tied_embeddings, why)
    if not run.gated_mlp:
        told.assume("learned positions", chosen.learned_positions, f"no column: {why}")


def _architecture(run: MeasuredRun, tied: bool, positions: int) -> Architecture:
    return Architecture(
        name=run.id,
        hidden=run.hidden,
        layers=run.layers,
        heads=run.heads,
        kv_heads=run.kv_heads,
        head_size=run.head_dim,
        ffn=run.ffn,
        gated_mlp=run.gated_mlp,
        vocabulary=run.vocab,
        tied_embeddings=tied,
        learned_positions=positions,
        mla=_latent(run) if run.mla else None,
        moe=_experts(run) if run.n_experts else None,
        mtp_layers=1 if run.mtp else 0,
        **({} if run.gated_mlp else GPT_STYLE),
    )


def _experts(run: MeasuredRun) -> MixtureOfExperts:
    return MixtureOfExperts(
        experts=_said(run.n_experts, "n_experts"),
        experts_per_token=_said(run.top_k, "top_k"),
        expert_ffn=_said(run.moe_ffn, "moe_ffn"),
        shared_expert_ffn=(run.shared_experts or 0) * _said(run.moe_ffn, "moe_ffn"),
        dense_first=run.n_dense_layers or 0,
    )


def _latent(run: MeasuredRun) -> LatentAttention:
    return LatentAttention(
        query_lora_rank=run.q_lora_rank or None,
        key_value_lora_rank=_said(run.kv_lora_rank, "kv_lora_rank"),
        nope_head_size=_said(run.qk_nope_head_dim, "qk_nope_head_dim"),
        rope_head_size=_said(run.qk_rope_head_dim, "qk_rope_head_dim"),
        value_head_size=_said(run.v_head_dim, "v_head_dim"),
    )


def _said(value: int | None, column: str) -> int:
    if not value:
        raise CannotPredict(f"{column} is not stated, and the architecture needs it")
    return value
