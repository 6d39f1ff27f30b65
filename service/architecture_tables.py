"""One architecture for people: its dimensions, what it holds by part, what a token costs."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console

from models.architecture import Architecture
from models.cost.parameters import ParameterCounts
from service.architectures import FlopsPerToken, ModelEntry
from service.tables import Column, line, print_columns, print_notes

ALWAYS = ("layers", "hidden", "heads", "kv_heads", "head_size", "ffn", "vocabulary")
"""Dimensions shown whatever they are; the others where they are not the usual."""
LAYER_PARTS = ("attention", "mlp", "router", "norms", "experts", "total")
ENDS = ("embedding", "embedding_norm", "positions", "head", "final_norm", "buffers")
FLOPS = {
    "matmul_forward_flops": "forward, matrix products",
    "attention_causal_forward_flops": "forward, attention, causal",
    "attention_whole_forward_flops": "forward, attention, whole",
    "training_causal_flops": "training, attention causal",
    "training_whole_flops": "training, attention whole",
}


def print_architecture(console: Console, entry: ModelEntry, warnings: tuple[str, ...] = ()) -> None:
    """Print an architecture's dimensions, counts by part, FLOPs, sources and what was assumed."""
    line(console, entry.name, "bold")
    rows = list(_dimensions(entry.architecture))
    print_columns(
        console,
        [
            Column("dimension", [name for name, _ in rows], left=True),
            Column("", [value for _, value in rows]),
        ],
    )
    print_columns(console, _parameters(entry.parameters))
    print_columns(console, _flops(entry.flops_per_token))
    for field, source in entry.sources.items():
        line(console, f"{field}: {source}")
    print_notes(console, entry.assumptions, warnings)


def _dimensions(architecture: Architecture) -> Iterator[tuple[str, str]]:
    """Name and value of every dimension, those inside MLA and MoE among them."""
    unusual = architecture.model_dump(exclude_defaults=True)
    for name in (*ALWAYS, *(n for n in unusual if n not in (*ALWAYS, "name"))):
        value = getattr(architecture, name)
        if name in ("mla", "moe"):
            yield from _inside(name, value.model_dump(exclude_defaults=True))
        else:
            yield name.replace("_", " "), _told(value)


def _inside(name: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for inner, value in values.items():
        yield f"{name} {inner.replace('_', ' ')}", _told(value)


def _told(value: Any) -> str:
    """A value as people read it.

    >>> _told(True), _told(128256), _told((0, 2))
    ('yes', '128,256', '0, 2')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (tuple, list)):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def _parameters(counts: ParameterCounts) -> list[Column]:
    """Parts down, one layer of each kind and the whole across; parts that hold nothing are left out."""
    kinds = [("dense", counts.dense_layers, counts.dense_layer)]
    if counts.sparse_layer is not None:
        kinds.append(("sparse", counts.sparse_layers, counts.sparse_layer))
    kinds = [kind for kind in kinds if kind[1]]
    rows = [(p, [getattr(layer, p) for _, _, layer in kinds]) for p in LAYER_PARTS]
    layers = [(p, each, sum(n * x for (_, n, _), x in zip(kinds, each, strict=True))) for p, each in rows]
    named = {"mlp": "feed-forward or shared expert", "experts": "routed experts", "total": "layers"}
    layers = [(named.get(p, p), each, whole) for p, each, whole in layers if whole]
    ends = [(name.replace("_", " "), getattr(counts, name)) for name in ENDS if getattr(counts, name)]
    ends += [("total", counts.total), ("active", counts.active)]
    ends += [("beside them: MTP", counts.mtp)] if counts.mtp else []
    blank = [""] * len(ends)
    return [
        Column("parameters", [name for name, *_ in layers] + [name for name, _ in ends], left=True),
        *(
            Column(f"each of {n} {kind} layers", [f"{each[i]:,}" for _, each, _ in layers] + blank)
            for i, (kind, n, _) in enumerate(kinds)
        ),
        Column("in all", [f"{whole:,}" for *_, whole in layers] + [f"{count:,}" for _, count in ends]),
    ]


def _flops(flops: FlopsPerToken) -> list[Column]:
    values = [getattr(flops, name) for name in FLOPS]
    return [
        Column("a token", list(FLOPS.values()), left=True),
        Column(f"FLOP at {flops.sequence_length:,} tokens", [f"{value:,.0f}" for value in values]),
    ]
