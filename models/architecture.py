"""The large language model as the cost physics sees it: shapes, not weights.

Every field is one that changes a parameter count, a byte or a FLOP. Names follow the field's
papers; `models/huggingface.py` maps the many spellings of `config.json` onto them.
"""

from typing import Annotated, Literal

from pydantic import Field

from models.base import Count, Schema, Tokens

Natural = Annotated[int, Field(strict=True, ge=0, le=1_000_000)]
"""A whole number that may be none."""
Parameters = Annotated[int, Field(strict=True, ge=1, le=10**15)]
"""A number of parameters."""


class LatentAttention(Schema):
    """Multi-head latent attention (MLA) of DeepSeek-V2 and V3, arXiv:2405.04434."""

    query_lora_rank: Count | None = None
    """Width of the compressed query; null when queries are projected directly (V2-Lite)."""
    key_value_lora_rank: Count
    """Width of the compressed keys and values."""
    nope_head_size: Count
    """Part of a query/key head without rotary position."""
    rope_head_size: Count
    """Part of a query/key head with rotary position; the key's is shared by all heads."""
    value_head_size: Count
    """Width of a value head."""


class MixtureOfExperts(Schema):
    """The sparse feed-forward layers of a mixture of experts."""

    experts: Count
    """Routed experts in a layer, E."""
    experts_per_token: Count
    """Routed experts each token visits, k."""
    expert_ffn: Count
    """Width of one routed expert."""
    shared_expert_ffn: Natural = 0
    """Width of the shared experts together; 0 for none."""
    shared_expert_gate: bool = False
    """A learned gate of `hidden` parameters on the shared expert (Qwen2-MoE)."""
    dense_first: Natural = 0
    """Leading layers with a dense feed-forward instead (DeepSeek's first_k_dense_replace)."""
    every: Count = 1
    """After the leading dense layers, every n-th layer is sparse; 1 for all of them."""
    dense_layers: Annotated[tuple[Natural, ...], Field(max_length=10_000)] = ()
    """Further layers with a dense feed-forward, by index from 0, where no rule says which."""
    expert_groups: Count = 1
    """Groups the routed experts form; one a node as DeepSeek places them."""
    groups_per_token: Count = 1
    """Groups a token's experts may lie in at most (DeepSeek-V3: 4 of 8)."""
    router_bias: bool = False
    """A trainable bias of `experts` parameters on the router (gpt-oss)."""
    router_score_correction: bool = False
    """A buffer of `experts` numbers on the router, not trained by gradient (DeepSeek-V3)."""
    expert_bias: bool = False
    """Biases on the experts' matrices (gpt-oss)."""


class Architecture(Schema):
    """A decoder-only transformer."""

    name: str
    """For people; the service never decides anything by it."""
    hidden: Count
    """Width of the residual stream, h."""
    layers: Count
    """Decoder layers, L, without multi-token-prediction layers."""
    heads: Count
    """Query heads, a."""
    kv_heads: Count
    """Key-value heads, n_kv; equal to `heads` without grouping, ignored under MLA."""
    head_size: Count
    """Width of a head, d; not always hidden / heads."""
    ffn: Count
    """Width of the dense feed-forward, f."""
    gated_mlp: bool = True
    """Gate, up and down matrices (SwiGLU and kin) instead of up and down."""
    vocabulary: Count
    """Tokens of the vocabulary, V, unpadded."""
    tied_embeddings: bool = False
    """The output head reuses the input embedding."""
    learned_positions: Natural = 0
    """Rows of a learned position embedding; 0 for rotary, ALiBi or none."""
    norm: Literal["rms", "layer"] = "rms"
    """RMSNorm has one parameter a channel, LayerNorm two."""
    norm_affine: bool = True
    """False when the norms have no parameters at all (OLMo)."""
    norm_bias: bool = True
    """LayerNorm's bias; false leaves one parameter a channel (Command-R)."""
    norms_per_layer: Count = 2
    """Norms of width `hidden` in a layer: 2 usually, 1 with parallel attention, 4 in Gemma 2."""
    embedding_norm: bool = False
    """A norm right after the embedding (BLOOM)."""
    qkv_bias: bool = False
    """Biases on the query, key and value projections."""
    attention_output_bias: bool = False
    """A bias on the attention's output projection."""
    mlp_bias: bool = False
    """Biases on the dense feed-forward's matrices."""
    head_bias: bool = False
    """A bias of `vocabulary` parameters on the output head."""
    qk_norm: Literal["none", "per_head", "full"] = "none"
    """Norms on queries and keys: of width `head_size` (Qwen3) or of the whole projection (OLMo 2)."""
    attention_sinks: bool = False
    """One learned sink a head (gpt-oss)."""
    sliding_window: Tokens | None = None
    """Tokens a query sees on sliding layers; changes attention FLOPs, never parameters."""
    sliding_layers: Natural = 0
    """How many layers slide; the others see every token before."""
    chunked_window: bool = False
    """The window does not slide: a query sees the tokens before it in its own chunk (Llama 4)."""
    mla: LatentAttention | None = None
    """Latent attention in place of grouped-query attention."""
    moe: MixtureOfExperts | None = None
    """Sparse layers; null for a dense architecture."""
    mtp_layers: Natural = 0
    """Multi-token-prediction layers the checkpoint offers; counted only when asked for."""
    max_positions: Tokens | None = None
    """Tokens of a sequence the configuration was made for; a longer one only warns."""
    nominal_parameters: Parameters | None = None
    """The round figure in the name (405e9); what the textbook profile reckons with."""
    nominal_active_parameters: Parameters | None = None
    """The same for the parameters a token meets (37e9)."""

    def sparse_layers(self) -> tuple[bool, ...]:
        """Whether each decoder layer is a mixture of experts, first to last.

        >>> tiny = dict(name="t", hidden=8, heads=2, kv_heads=2, head_size=4, ffn=8, vocabulary=16)
        >>> moe = MixtureOfExperts(experts=4, experts_per_token=1, expert_ffn=8, dense_first=1)
        >>> Architecture(layers=3, moe=moe, **tiny).sparse_layers()
        (False, True, True)
        """
        moe = self.moe
        if moe is None:
            return (False,) * self.layers
        first, every, dense = moe.dense_first, moe.every, frozenset(moe.dense_layers)
        return tuple(
            i >= first and (i - first + 1) % every == 0 and i not in dense for i in range(self.layers)
        )
