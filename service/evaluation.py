"""One evaluated layout for people: where its time, memory and traffic go, and what it breaks."""

import shlex
from collections.abc import Sequence

from rich.console import Console

from models.estimate import Candidate, EvaluateAnswer, Memory, Pipeline, TierLoad
from service.tables import Column, describe, gigabytes, line, peak, print_columns, print_notes, time_parts


def print_evaluation(console: Console, answer: EvaluateAnswer) -> None:
    """Print one layout's figures, where its time, memory and traffic go, and what it breaks."""
    row = answer.candidate
    line(console, describe(row.layout), "bold")
    rate = f"{row.tokens_per_s_per_gpu:,.0f} tokens/s a GPU, {row.tokens_per_s:,.0f} in all"
    line(
        console, f"step {row.step_time_s:.3f} s, MFU {row.mfu:.1%}, {row.tflops_per_gpu:.0f} TFLOP/s, {rate}"
    )
    over = -row.memory.headroom_bytes
    fits = "fits" if over <= 0 else f"does NOT fit, {over:,} bytes over"
    line(console, f"peak/limit {peak(row.memory)} GB on stage {row.memory.peak_stage}: {fits}")
    console.print()
    parts = time_parts(row)
    print_columns(console, [
        Column("time", [name for name, _ in parts], left=True),
        Column("s", [f"{seconds:.4f}" for _, seconds in parts]),
        Column("of the step", [f"{seconds / row.step_time_s:.1%}" for _, seconds in parts]),
    ])  # fmt: skip
    print_columns(console, _stages(row.memory))
    if row.pipeline is not None:
        _print_pipeline(console, row.pipeline, row.layout.stage_layers)
    if row.traffic:
        print_columns(console, _traffic(row))
        print_columns(console, _tiers(row.tiers))
    if row.busiest_node is not None:
        sent = gigabytes(row.busiest_node_sent_bytes)
        line(console, f"busiest server: {row.busiest_node}, {sent} GB a step over its network cards")
    for rule in answer.broken_rules:
        line(console, f"Broken rule {rule.rule} ({rule.framework}): {rule.statement} {rule.fix}", "red")
    print_notes(console, answer.assumptions, (*answer.warnings, *row.warnings))


def _print_pipeline(console: Console, pipeline: Pipeline, stage_layers: Sequence[int]) -> None:
    """How well stages keep each other busy, and how frameworks are told the split."""
    pace = f"stage {pipeline.limiting_stage} sets the pace, {pipeline.imbalance:.1%} over the mean stage"
    line(console, f"pipeline: bubble {pipeline.bubble_of_total:.1%} of the time; {pace}")
    ways = pipeline.split.how if pipeline.split else ()
    line(console, f"layers of each chunk: {'-'.join(map(str, stage_layers))}{':' if ways else ''}")
    for way in ways:
        settings = " ".join(_setting(name, value) for name, value in way.settings.items())
        line(console, f"  {way.framework}, {way.way.replace('_', ' ')}: {settings or 'nothing to say'}")
    console.print()


def _setting(name: str, value: int | bool | str) -> str:
    """A flag or field as a launch script holds it; a layout string's bars would be the shell's.

    >>> _setting("--flag", True), _setting("--layers", 7), _setting("--layout", "Et|tL")
    ('--flag', '--layers 7', "--layout 'Et|tL'")
    """
    if not name.startswith("--"):
        return f"{name} = {value!r}"
    return name if value is True else f"{name} {shlex.quote(str(value))}"


def _stages(memory: Memory) -> list[Column]:
    names = ("weights", "gradients", "optimizer", "activations", "buffers", "overhead", "total")
    return [
        Column("stage", [str(s.stage) for s in memory.stages]),
        Column("layers", [f"{s.layers:g}" for s in memory.stages]),
        Column("in flight", [f"{s.in_flight:g}" for s in memory.stages]),
        *(Column(f"{n} GB", [f"{getattr(s, n + '_bytes') / 1e9:.2f}" for s in memory.stages]) for n in names),
    ]


def _traffic(row: Candidate) -> list[Column]:
    rows = row.traffic
    return [
        Column("traffic", [d.dimension for d in rows], left=True),
        Column("operation", [d.operation for d in rows], left=True),
        Column("a step", [f"{d.per_step:,.6g}" for d in rows]),
        Column("message MB", [f"{d.message_bytes / 1e6:.1f}" for d in rows]),
        Column("sent GB/GPU", [f"{d.sent_bytes_per_gpu / 1e9:.2f}" for d in rows]),
        Column("wire s", [f"{d.seconds:.4f}" for d in rows]),
        Column("waited s", [f"{d.exposed_s:.4f}" for d in rows]),
        Column("over", [", ".join(t.tier for t in d.tiers if t.sent_bytes_per_gpu) for d in rows], left=True),
    ]


def _tiers(tiers: Sequence[TierLoad]) -> list[Column]:
    return [
        Column("tier", [t.tier for t in tiers], left=True),
        Column("sent GB/GPU", [f"{t.sent_bytes_per_gpu / 1e9:.2f}" for t in tiers]),
        Column("utilisation", [f"{t.utilisation:.1%}" for t in tiers]),
        Column("waited s", [f"{t.waiting_s:.4f}" for t in tiers]),
        Column("of the step", [f"{t.waiting_share:.1%}" for t in tiers]),
    ]
