"""Our own count of a configuration, by the parts the other opinion is counted by."""

from typing import Any

from models.cost.parameters import count_parameters
from models.huggingface import read_config

PER_LAYER = ("attention", "mlp", "experts", "router", "norms")
ENDS = ("embedding", "embedding_norm", "positions", "head", "final_norm", "buffers", "total", "active")


def our_parts(config: dict[str, Any]) -> dict[str, int]:
    """Parameters by part, with `total` and `active`."""
    counts = count_parameters(read_config(config).architecture)
    layers = [(counts.dense_layers, counts.dense_layer)]
    if counts.sparse_layer is not None:
        layers.append((counts.sparse_layers, counts.sparse_layer))
    per_layer = {part: sum(n * getattr(layer, part) for n, layer in layers) for part in PER_LAYER}
    return per_layer | {part: getattr(counts, part) for part in ENDS}
