"""What a row of the table of families can say: how a family spells a decoder, and what it always has."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from models.huggingface_fields import Fields

EXPERT_COUNT_KEYS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
TOP_K_KEYS = ("num_experts_per_tok", "experts_per_token", "moe_k")
EXPERT_KEYS = (
    *EXPERT_COUNT_KEYS, "n_shared_experts", "num_shared_experts", "first_k_dense_replace",
    "shared_expert_intermediate_size", "moe_intermediate_size", "mlp_layer_types", "mlp_only_layers",
)  # fmt: skip
"""Fields that mean something only beside routed experts."""
DECIDED_BY_SHAPE = ""
"""In place of a field's name: the family's `shape` decides."""
USUAL_KEYS: Mapping[str, str] = {
    "hidden": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_size": "head_dim",
    "ffn": "intermediate_size",
    "vocabulary": "vocab_size",
    "tied_embeddings": "tie_word_embeddings",
    "max_positions": "max_position_embeddings",
}


@dataclass(frozen=True)
class Experts:
    """How a family spells its mixture of experts."""

    ffn: str = "moe_intermediate_size"
    """Width of a routed expert."""
    required: bool = True
    """False where a configuration without experts is a dense one."""
    shared_width: str | None = None
    """Field with the width of the shared experts together."""
    shared_count: str | None = None
    """Field with the number of shared experts, each as wide as a routed one."""
    shared_as_routed: bool = False
    """One shared expert, as wide as a routed one, always."""
    dense_first: str | None = None
    """Field with the number of leading dense layers."""
    dense_last: str | None = None
    """Field with the index of the last sparse layer; -1 and missing mean the last of all."""
    every: str | None = None
    """Field n: every n-th layer is sparse."""
    sparse_layers: str | None = None
    """Field that lists the sparse layers by index."""
    dense_layers: str | None = None
    """Field that lists dense layers by index."""
    kinds: str | None = None
    """Field that names every layer "dense" or "sparse"."""
    every_is_one: str | None = None
    """Field of a pattern we model only where it is 1."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `MixtureOfExperts` that the family decides."""


@dataclass(frozen=True)
class Family:
    """How a family spells a decoder, and what it always has."""

    keys: Mapping[str, str] = field(default_factory=dict)
    """Our field -> its field, where it is not the usual one."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `Architecture` that the family decides."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """Our true-or-false field -> its field."""
    switches: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Its true-or-false field -> our fields where it is true."""
    not_modelled: Mapping[str, str] = field(default_factory=dict)
    """Its true-or-false field -> what is missing where it is true."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Its field -> the value its class takes where the file is silent."""
    experts: Experts | None = None
    latent: bool = False
    """Multi-head latent attention."""
    learned_positions: bool = False
    """A learned embedding of as many positions as the configuration was made for."""
    window: str | None = None
    """Field with the tokens a query of a sliding layer sees; none where its class has no window."""
    window_flag: str | None = None
    """Field without which the window is not used."""
    chunked: bool = False
    """The window does not slide but starts anew with each chunk."""
    full_attention_every: int = 0
    """Every n-th layer sees all tokens; 0 where all layers slide."""
    full_attention_every_key: str | None = None
    """Field that says otherwise."""
    full_attention_first: str | None = None
    """Field with the number of leading layers that see all tokens."""
    shape: Callable[[Fields, dict[str, Any]], dict[str, Any]] | None = None
    """What no table says: reads more fields and returns fields of `Architecture`."""
