"""How far predictions are from measured runs: `layout-search validate` over the published ones.

Reads `data/runs.csv` beside this file (its sources: `data/SOURCES.md`) and writes `accuracy.json`
beside it and the memory and step-time sections of `docs/accuracy.md`. Takes seconds; the same tree gives
the same figures:

    python bench/accuracy.py
"""

import json
from pathlib import Path
from typing import Any

import accuracy_time
from sections import put

from service.measured import ValidateAnswer, read_runs, validate
from service.measured.answer import Errors, ErrorTable, OutOfMemory, RunReport

HERE = Path(__file__).parent
RUNS = HERE / "data" / "runs.csv"
FIGURES = HERE / "accuracy.json"
PAGE = HERE.parent / "docs" / "accuracy.md"
MARKS = {
    "memory": ("<!-- memory: written by bench/accuracy.py -->", "<!-- /memory -->"),
    "time": ("<!-- step time: written by bench/accuracy.py -->", "<!-- /step time -->"),
}
"""What stands around each section of the page."""
TITLE = "# Accuracy: predicted beside measured\n"
VIEWS = {
    "source": "by_source",
    "GPU": "by_gpu",
    "precision": "by_precision",
    "kind": "by_kind",
    "columns left blank": "by_unstated",
}
HEAD = """## Peak memory

`python bench/accuracy.py` over the {runs} runs of `bench/data/runs.csv`, {rows} of which have a measured
memory and a confidence of high or medium. A group of runs (one configuration, or one measurement shared)
counts once, by the mean of its rows' errors. Measured figures are taken in the unit and of the bytes their
source counts: what the allocator handed out or reserved is compared with the prediction without CUDA
context and communicators, what `nvidia-smi` shows with the whole. Low confidence is told apart and is no
part of the figures.
"""


def figures() -> dict[str, Any]:
    """Return the figures of the tree as it is, rounded so that they do not hang on a last digit."""
    return summary(predict())


def predict() -> ValidateAnswer:
    return validate(read_runs(RUNS), "calibrated")


def summary(answer: ValidateAnswer) -> dict[str, Any]:
    found = answer.summary
    return {
        "command": "python bench/accuracy.py",
        "cost_model": answer.version.cost_model,
        "runs": found.runs,
        "predicted": found.predicted,
        "not_predicted": found.not_predicted,
        "memory": rounded(found.memory.model_dump()),
        "out_of_memory": found.out_of_memory.model_dump(mode="json"),
        "rows": {run.id: row(run) for run in answer.runs if told(run)},
        "time": rounded(accuracy_time.figures(answer)),
    }


def told(run: RunReport) -> bool:
    """Whether a run says anything of memory."""
    return run.measured_memory_bytes is not None or run.measured_oom


def row(run: RunReport) -> dict[str, Any]:
    """Megabytes, for a byte more or less is no change."""
    names = ("predicted_memory_bytes", "measured_memory_bytes", "predicted_peak_bytes", "usable_bytes")
    sizes = {name.removesuffix("_bytes") + "_mb": getattr(run, name) for name in names}
    return {name: None if size is None else round(size / 1e6) for name, size in sizes.items()}


def rounded(value: Any, digits: int = 4) -> Any:
    """Round every float of nested figures."""
    if isinstance(value, float):
        return round(value, digits)
    if isinstance(value, dict):
        return {key: rounded(item, digits) for key, item in value.items()}
    return [rounded(item, digits) for item in value] if isinstance(value, (list, tuple)) else value


def section(answer: ValidateAnswer) -> str:
    """Return the memory section of the page."""
    memory = answer.summary.memory
    assert memory.all is not None
    parts = [HEAD.format(runs=answer.summary.runs, rows=memory.all.rows)]
    parts += [table(head, getattr(memory, view), memory) for head, view in VIEWS.items()]
    if memory.low_confidence:
        parts.append(table("left out", {"confidence low": memory.low_confidence}, None))
    worst = "\n".join(f"| `{one.id}` | {one.error:+.1%} |" for one in memory.worst)
    parts.append(f"Furthest off, one a group:\n\n| run | error |\n|---|---|\n{worst}\n")
    parts.append(out_of_memory(answer.summary.out_of_memory))
    return "\n".join(parts)


def table(head: str, parts: dict[str, Errors], whole: ErrorTable | None) -> str:
    rows = dict(parts)
    if whole is not None and whole.all is not None:
        rows["**all**"] = whole.all
    lines = [f"| {head} | rows | n | mean | median | bias |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {name} | {e.rows} | {e.n} | {e.mean:.1%} | {e.median:.1%} | {e.bias:+.1%} |"
        for name, e in rows.items()
    ]
    return "\n".join(lines) + "\n"


def out_of_memory(found: OutOfMemory) -> str:
    def names(ids: tuple[str, ...]) -> str:
        return ", ".join(f"`{one}`" for one in ids) or "none"

    return (
        "Out of memory, by the point figure against what a process can allocate on the GPU:\n\n"
        f"- {found.ran_out} rows ran out; predicted to fit: {names(found.missed)}\n"
        f"- {found.ran} rows ran; predicted to run out: {names(found.false_alarms)}; where interleave, "
        f"gradient type or recompute is not stated: {names(found.false_alarms_unstated)}\n"
        f"- of low confidence and on the wrong side, no part of the claim: {len(found.low_confidence)}\n"
    )


def main() -> None:
    answer = predict()
    FIGURES.write_text(json.dumps(summary(answer), indent=1) + "\n", encoding="utf-8")
    old = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    written = put(old or f"{TITLE}\n", section(answer), *MARKS["memory"])
    written = put(written, accuracy_time.section(answer), *MARKS["time"])
    PAGE.write_text(written, encoding="utf-8")
    for name, table in (("peak memory", answer.summary.memory), ("step time", answer.summary.step_time)):
        assert table.all is not None
        print(f"{name}: mean {table.all.mean:.1%}, median {table.all.median:.1%} over {table.all.n} runs")


if __name__ == "__main__":
    main()
