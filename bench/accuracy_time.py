"""The step-time half of `accuracy.py`: its figures, and its section of `docs/accuracy.md`."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from service.measured import ValidateAnswer
from service.measured.answer import Errors, ErrorTable, RunReport, Summary
from service.measured.answer_order import Order, PairCount

VIEWS = {"source": "by_source", "GPU": "by_gpu", "precision": "by_precision", "kind": "by_kind"}
HEAD = """## Step time

`python bench/accuracy.py` over the {runs} runs of `bench/data/runs.csv`, {rows} of which have a measured step
time and a confidence of high or medium; every one of these rows counts. The coefficients are fitted to these
runs: how far off one is that was no part of a fit stands further down. Beside it, for reference, what
one constant MFU for each GPU and precision gives, taken from the other sources' runs (n rows have another
source to take it from).
"""
ALONE = """### Rows that state TFLOP/s and no time

No part of the figures above. TFLOP/s are compared in the way the source counts them: attention over the
tokens before (causal) or over the whole sequence, or that and what recompute repeats (hardware); where a row
does not say, as the other rows of its source do, else causal. Counted so, our FLOPs are those of the rows
that state both within 0.3 % in the median of every source.
"""
ORDER = """### Order of layouts

Groups of one source, model (hidden size, layers and heads included), GPU, number of GPUs, sequence and
precision with three layouts or more, of the rows above; layouts are compared by the GPU time of a token,
and a layout run more than once, whatever the batch, stands for its median. Pairs more than 3 % apart as
measured, those more than 8 % apart, and what the layout predicted best takes longer than the best.
"""
PEERS = """### Beside other predictors

Their figures are those published or measured for the same rows; ours are of the same coefficients for all.

| rows | ours | other predictors |
|---|---|---|
| ten GPT models, 1.7B to 1T (`sc21`) | {sc21} | 12.0 %, τ 0.72; 7.7 %, τ 0.49; a constant: 5.9 %, τ 0 |
| selective recompute, 22B to 1T (`korth22`, four rows) | {korth} | 5.2 %; 2.5 % |
| Llama 3.1 405B at 8,192 tokens, TFLOP/s (two rows) | {short} | 16.6 %; 25.7 % |
| Llama 3.1 405B at 131,072 tokens, TFLOP/s (one row) | {long} | none answers |
"""
OURS_OF = {"short": ("llama3rep-0001", "llama3rep-0002"), "long": ("llama3rep-0003",)}
SELECTIVE = ("korth22-0002", "korth22-0004", "korth22-0006", "korth22-0008")


def figures(answer: ValidateAnswer) -> dict[str, Any]:
    found = answer.summary
    names = ("step_time", "constant_mfu", "tflops_alone", "order")
    told = {name: getattr(found, name).model_dump(mode="json") for name in names}
    return told | {"rank_correlation": found.rank_correlation, "steps": steps(answer.runs)}


def steps(runs: Sequence[RunReport]) -> dict[str, float]:
    """Predicted seconds of every row that has a time, to four digits."""
    timed = [run for run in runs if run.measured_step_s is not None and run.predicted_step_s is not None]
    return {run.id: float(f"{run.predicted_step_s:.4g}") for run in timed}


def section(answer: ValidateAnswer) -> str:
    """Return the step-time section of the page."""
    found = answer.summary
    assert found.step_time.all is not None
    parts = [HEAD.format(runs=found.runs, rows=found.step_time.all.rows), *error_tables(found)]
    parts += [ALONE, alone(answer), ORDER, order_table(found.order), best(found.order)]
    return "\n".join([*parts, peers(answer)])


def error_tables(found: Summary) -> list[str]:
    told = found.step_time
    parts = [table(head, view, told, found.constant_mfu) for head, view in VIEWS.items()]
    once, low = told.group_once, told.low_confidence
    if once is not None and low is not None:
        parts.append(
            "With repeats of one configuration counted once "
            f"({once.n} groups): {figure(once)}. "
            f"Left out, the {low.n} rows of low confidence: {figure(low)}.\n"
        )
    worst = "\n".join(f"| `{one.id}` | {one.error:+.1%} |" for one in told.worst)
    return [*parts, f"Furthest off, one a group:\n\n| run | error |\n|---|---|\n{worst}\n"]


def table(head: str, view: str, told: ErrorTable, reference: ErrorTable) -> str:
    rows = {**getattr(told, view), "**all**": told.all}
    beside = {**getattr(reference, view), "**all**": reference.all}
    heads = f"| {head} | rows | mean | median | bias | one MFU: n | mean | median | bias |"
    lines = [f"| {name} {cells(e)} {cells(beside.get(name))} |" for name, e in rows.items()]
    return "\n".join([heads, "|---" * 9 + "|", *lines]) + "\n"


def figure(e: Errors) -> str:
    return f"mean {e.mean:.1%}, median {e.median:.1%}, bias {e.bias:+.1%}"


def cells(e: Errors | None) -> str:
    return "| | | |" if e is None else f"| {e.n} | {e.mean:.1%} | {e.median:.1%} | {e.bias:+.1%}"


def alone(answer: ValidateAnswer) -> str:
    rows = [
        run for run in answer.runs if run.measured_step_s is None and run.measured_tflops_per_gpu is not None
    ]
    lines = [
        f"| `{run.id}` | {run.confidence} | {run.flops_counted or ''} | {run.measured_tflops_per_gpu:.0f} | "
        f"{run.predicted_tflops_per_gpu:.0f} | {run.tflops_error:+.1%} |"
        for run in rows
        if run.tflops_error is not None
    ]
    heads = "| run | confidence | counted | measured TFLOP/s | predicted | error |"
    return "\n".join([heads, "|---" * 6 + "|", *lines]) + "\n"


def order_table(order: Order) -> str:
    lines = [
        f"| {g.source} {g.model} ({g.heads} heads) | {g.gpus} {g.gpu}, {g.sequence_length}, {g.precision} "
        f"| {g.layouts} | {pairs(g.pairs)} | {pairs(g.far_pairs)} | {g.cost:+.1%} |"
        for g in order.groups
    ]
    whole = f"| **all** | | | {pairs(order.pairs)} | {pairs(order.far_pairs)} | {order.mean_cost:+.1%} |"
    heads = "| group | GPUs, sequence, precision | layouts | pairs > 3 % | > 8 % | predicted best costs |"
    return "\n".join([heads, "|---" * 6 + "|", *lines, whole]) + "\n"


def pairs(count: PairCount) -> str:
    return f"{count.right} of {count.pairs}" + ("" if count.share is None else f" ({count.share:.0%})")


def best(order: Order) -> str:
    told = ", ".join(f"{name} {pairs(count)}" for name, count in order.by_source.items())
    return f"Pairs more than 3 % apart by source: {told}.\n"


def peers(answer: ValidateAnswer) -> str:
    """The rows other predictors are known on."""
    runs, found = {run.id: run for run in answer.runs}, answer.summary
    sc21 = found.step_time.by_source["sc21"]
    korth = fmean(abs(runs[name].step_error or 0.0) for name in SELECTIVE)
    rates = {
        name: fmean(abs(runs[row].tflops_error or 0.0) for row in rows) for name, rows in OURS_OF.items()
    }
    return PEERS.format(
        sc21=f"{sc21.mean:.1%}, τ {found.rank_correlation['sc21']:.2f}",
        korth=f"{korth:.1%}",
        **{name: f"{error:.1%}" for name, error in rates.items()},
    )
