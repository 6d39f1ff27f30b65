"""The catalogues on the command line: tables for people, the API's JSON for programs."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from rich.console import Console

from models import catalogue
from models.base import Schema
from models.errors import Fault, InvalidField
from models.hardware import Tier
from service.architecture_tables import print_architecture
from service.architectures import ModelEntry, model_entries, model_entry
from service.flags import read_file
from service.importing import import_architecture
from service.routes.catalogues import (
    ClusterEntry,
    Clusters,
    GpuEntry,
    Gpus,
    cluster_entry,
    gpu_entry,
)
from service.tables import Column, line, print_columns

IMPORT = "import"
"""In place of a name on the command line: a file follows."""

Entry = TypeVar("Entry", GpuEntry, ClusterEntry)


def models(console: Console, name: str | None, file: str | None, length: int | None, as_json: bool) -> None:
    """Tell one architecture or all; or, where the name is "import", what a file's configuration becomes."""
    parameters: Mapping[str, Any] = {} if length is None else {"sequence_length": length}
    if name == IMPORT:
        _import(console, file, parameters, as_json)
    elif file is not None:
        raise InvalidField(Fault("FILE", file, "only import takes a file", f"Write models {IMPORT} FILE."))
    elif name is None:
        whole = model_entries(parameters)
        _show(whole, as_json, lambda: print_models(console, whole.models))
    else:
        entry = model_entry(name, parameters)
        _show(entry, as_json, lambda: print_architecture(console, entry))


def _import(console: Console, file: str | None, parameters: Mapping[str, Any], as_json: bool) -> None:
    """Tell what the configuration in a file becomes; the file may be a request to import it, too."""
    if file is None:
        reason = f"{IMPORT} reads a file, and none is named"
        raise InvalidField(Fault("FILE", None, reason, "Name a config.json, or '-' for standard input."))
    content = read_file(file, "FILE")
    wrapped = isinstance(content, dict) and "hf_config" in content
    answer = import_architecture(content if wrapped else {"hf_config": content}, parameters)
    _show(answer, as_json, lambda: print_architecture(console, answer, answer.warnings))


def gpus(console: Console, name: str | None, as_json: bool) -> None:
    """Tell one GPU or all."""
    rows = [gpu_entry(n) for n in _names(name, catalogue.gpu_names)]
    _tell(console, rows, name, Gpus(gpus=tuple(rows)) if as_json else None, print_gpus)


def clusters(console: Console, name: str | None, as_json: bool) -> None:
    """Tell one cluster or all."""
    rows = [cluster_entry(n) for n in _names(name, catalogue.cluster_names)]
    _tell(console, rows, name, Clusters(clusters=tuple(rows)) if as_json else None, print_clusters)


def _names(name: str | None, known: Callable[[], Sequence[str]]) -> Sequence[str]:
    return [name] if name is not None else known()


def _tell(
    console: Console,
    rows: Sequence[Entry],
    name: str | None,
    whole: Schema | None,
    table: Callable[[Console, Sequence[Any]], None],
) -> None:
    """Print JSON where a whole is given; else the table, with the sources of a single entry."""

    def print_table() -> None:
        table(console, rows)
        if name is not None:
            for field, source in rows[0].sources.items():
                line(console, f"{field}: {source}")

    _show(whole if whole and name is None else rows[0], whole is not None, print_table)


def _show(answer: Schema, as_json: bool, table: Callable[[], None]) -> None:
    """Print an answer as the API sends it, or as a table."""
    if as_json:
        sys.stdout.write(answer.model_dump_json(by_alias=True) + "\n")
    else:
        table()


def print_models(console: Console, rows: Sequence[ModelEntry]) -> None:
    """Print architectures with their exact parameter counts and the FLOPs of a token, attention causal."""
    shapes = [row.architecture for row in rows]
    moes = [shape.moe for shape in shapes]
    flops = [row.flops_per_token for row in rows]
    print_columns(console, [
        Column("model", [r.name for r in rows], left=True),
        Column("parameters", [f"{r.parameters.total:,}" for r in rows]),
        Column("active", [f"{r.parameters.active:,}" for r in rows]),
        Column("layers", [str(s.layers) for s in shapes]),
        Column("hidden", [str(s.hidden) for s in shapes]),
        Column("heads/kv", [f"{s.heads}/{s.kv_heads}" for s in shapes]),
        Column("ffn", [str(s.ffn) for s in shapes]),
        Column("experts", [f"{m.experts_per_token} of {m.experts}" if m else "-" for m in moes]),
        Column("vocabulary", [str(s.vocabulary) for s in shapes]),
        Column(
            f"GFLOP to train a token of {flops[0].sequence_length:,}",
            [f"{f.training_causal_flops / 1e9:,.4g}" for f in flops],
        ),
    ])  # fmt: skip


def print_gpus(console: Console, rows: Sequence[GpuEntry]) -> None:
    """Print GPUs with their memory and rates."""
    cards = [row.gpu for row in rows]
    print_columns(console, [
        Column("gpu", [r.name for r in rows], left=True),
        Column("memory GB", [f"{c.memory_bytes / 1e9:.0f}" for c in cards]),
        Column("usable GB", [f"{c.usable_memory_bytes / 1e9:.2f}" for c in cards]),
        Column("memory TB/s", [f"{c.memory_bandwidth_bytes_per_s / 1e12:.2f}" for c in cards]),
        Column("BF16 TFLOP/s", [_tera(c.peak_bf16_flops) for c in cards]),
        Column("FP16 TFLOP/s", [_tera(c.peak_fp16_flops) for c in cards]),
        Column("FP8 TFLOP/s", [_tera(c.peak_fp8_flops) for c in cards]),
    ])  # fmt: skip


def print_clusters(console: Console, rows: Sequence[ClusterEntry]) -> None:
    """Print clusters with their tiers, innermost first."""
    fabrics = [row.cluster for row in rows]
    print_columns(console, [
        Column("cluster", [r.name for r in rows], left=True),
        Column("gpu", [c.gpu.name for c in fabrics], left=True),
        Column("GPUs a server", [str(c.gpus_per_node) for c in fabrics]),
        Column("tiers: GPUs joined at GB/s a GPU, one way (/ oversubscription)", [
            ", ".join(_tier(tier) for tier in c.tiers) for c in fabrics
        ], left=True),
    ])  # fmt: skip


def _tier(tier: Tier) -> str:
    """A tier in a few words: "core all at 50/16", the divisor being the oversubscription."""
    crowded = f"/{tier.oversubscription:g}" if tier.oversubscription > 1 else ""
    rails = f" on {tier.rails} rails" if tier.rails else ""
    return f"{tier.name} {tier.gpus or 'all'} at {tier.bandwidth_bytes_per_s / 1e9:g}{crowded}{rails}"


def _tera(flops: float | None) -> str:
    return "-" if flops is None else f"{flops / 1e12:.0f}"
