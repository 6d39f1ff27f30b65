"""How long placing a layout's layers on its chunks takes, and who found the split.

Every model below on every number of stages and chunks its layers fill, with as much memory as it takes, and
with a byte less than the even split needs. Writes `stage_assignment.md` beside this file:

    python bench/stage_assignment.py
"""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from models.catalogue import resolve
from models.cost.memory.stage_bytes import peak_bytes
from models.cost.setting import Setting
from models.cost.table import LayoutTable
from models.layout import Layout
from models.request import EvaluateRequest
from search.evaluation import whole_layout
from search.placing import LIMIT_S, placed_layers, stage_problem
from search.problem import setting_of
from search.stages import StageSplit, assign_layers

HERE = Path(__file__).parent
MODELS = {
    "dense": ("llama-3.1-405b", "llama-3-70b", "gpt3-175b", "bloom-176b", "mt-nlg-530b", "gpt-1t"),
    "experts": ("qwen3-235b-a22b",),
    "dense, then experts": ("deepseek-v3", "kimi-k2"),
}
STAGES, CHUNKS = (4, 8, 16, 32), (1, 2, 3, 4, 8)
AMPLE = 10**14
"""More memory than any layout takes. [B]"""


def problems(model: str) -> Iterator[tuple[Layout, Setting]]:
    """Layouts of a model, and what they are priced under."""
    for pp in STAGES:
        for vpp in CHUNKS:
            knobs = {"tp": 4, "pp": pp, "vpp": vpp, "dp": 8, "ep": 1}
            request = EvaluateRequest(
                model=model,
                cluster="dgx-h100",
                gpus=4 * pp * 8,
                workload={"sequence_length": 4096, "global_batch": 512},
                layout=knobs,
            )
            resolved = resolve(request)
            if pp * vpp > resolved.architecture.layers:
                continue
            layout, setting = whole_layout(request, resolved), setting_of(request, resolved)
            yield layout, limited(setting, AMPLE)
            yield layout, limited(setting, int(peak_bytes(LayoutTable.of([layout]), setting)[0]) - 1)


def limited(setting: Setting, limit: int) -> Setting:
    known = {name: getattr(setting, name) for name in setting.__dataclass_fields__}
    return Setting(**known | {"memory_limit_bytes": limit})


def measured(model: str) -> Iterator[tuple[float, str]]:
    """Milliseconds each takes, and who would find its split."""
    for layout, setting in problems(model):
        start = time.process_time()
        placed_layers(layout, setting)
        took = time.process_time() - start
        found = assign_layers(stage_problem(layout, setting), LIMIT_S)
        yield 1e3 * took, found.by if isinstance(found, StageSplit) else "none fits"


def row(name: str, found: list[tuple[float, str]]) -> str:
    ms = np.array([took for took, _ in found])
    by = ", ".join(f"{who} {sum(w == who for _, w in found)}" for who in sorted({who for _, who in found}))
    spread = " | ".join(f"{value:.1f}" for value in (np.median(ms), np.percentile(ms, 90), ms.max()))
    return f"| {name} | {len(found)} | {spread} | {by} |\n"


def main() -> None:
    text = (
        "# Layers to stages\n\nMade by `python bench/stage_assignment.py`: CPU ms a layout, reckoning "
        "what its layers cost included.\n\n| layers | layouts | median | p90 | max | found by |\n"
        + "|---" * 6
        + "|\n"
    )
    every: list[tuple[float, str]] = []
    for name, models in MODELS.items():
        found = [each for model in models for each in measured(model)]
        text, every = text + row(name, found), every + found
    text += row("all", every)
    (HERE / "stage_assignment.md").write_text(text, "utf-8")
    print(text)


if __name__ == "__main__":
    main()
