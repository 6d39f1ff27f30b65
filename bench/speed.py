"""How long searches take: each case in a process of its own, after the imports.

Writes `speed.json` and `speed.md` beside this file. Run it on an idle machine:

    python bench/speed.py
"""

import json
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CASES: dict[str, dict[str, Any]] = {
    "llama-3-8b, 8": {"model": "llama-3-8b", "cluster": "dgx-h100", "gpus": 8, "run": (8192, 128)},
    "llama-3-70b, 64": {"model": "llama-3-70b", "cluster": "dgx-h100", "gpus": 64, "run": (8192, 128)},
    "mixtral-8x7b, 64": {"model": "mixtral-8x7b", "cluster": "dgx-h100", "gpus": 64, "run": (4096, 1024)},
    "gpt3-175b, 64": {"model": "gpt3-175b", "cluster": "dgx-a100", "gpus": 64, "run": (2048, 1536)},
    "gpt3-175b, 512": {"model": "gpt3-175b", "cluster": "dgx-a100", "gpus": 512, "run": (2048, 1536)},
    "gpt3-175b, 4,096": {"model": "gpt3-175b", "cluster": "dgx-a100", "gpus": 4096, "run": (2048, 1536)},
    "deepseek-v3, 2,048": {
        "model": "deepseek-v3",
        "cluster": "h800-8x400g",
        "gpus": 2048,
        "run": (4096, 16384),
    },
    "405b, 16,384": {"model": "llama-3.1-405b", "cluster": "dgx-h100", "gpus": 16384, "run": (8192, 2048)},
    "405b, 16,384, long": {
        "model": "llama-3.1-405b",
        "cluster": "dgx-h100",
        "gpus": 16384,
        "run": (131072, 128),
    },
    "405b, 100,000": {
        "model": "llama-3.1-405b",
        "cluster": "dgx-h100",
        "gpus": 100_000,
        "run": (8192, 100_000),
    },
    "405b, 110,880": {
        "model": "llama-3.1-405b",
        "cluster": "dgx-h100",
        "gpus": 110_880,
        "run": (8192, 110_880),
    },
    "405b, 131,072": {"model": "llama-3.1-405b", "cluster": "dgx-h100", "gpus": 131_072, "run": (8192, 2048)},
    "kimi-k2, 110,880": {"model": "kimi-k2", "cluster": "dgx-h100", "gpus": 110_880, "run": (4096, 443_520)},
    "kimi-k2, 98,304": {"model": "kimi-k2", "cluster": "dgx-h100", "gpus": 98_304, "run": (4096, 393_216)},
    "kimi-k2, 100,000": {"model": "kimi-k2", "cluster": "dgx-h100", "gpus": 100_000, "run": (4096, 400_000)},
}
CASES |= {
    f"{name}, all orders": case | {"constraints": {"rank_orders": "all"}} for name, case in CASES.items()
}
"""Questions by name; `run` is the sequence length and the global batch."""
COLUMNS = ("cpu_s", "wall_s", "peak_rss_mb", "enumerated", "fit")


def measure(name: str) -> dict[str, Any]:
    from models.catalogue import resolve
    from models.request import SearchRequest
    from search import search

    case = dict(CASES[name])
    sequence, batch = case.pop("run")
    request = SearchRequest(workload={"sequence_length": sequence, "global_batch": batch}, **case)
    resolved = resolve(request)
    cpu, wall = time.process_time(), time.monotonic()
    answer = search(request, resolved)
    return {
        "cpu_s": round(time.process_time() - cpu, 3),
        "wall_s": round(time.monotonic() - wall, 3),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "enumerated": answer.space.enumerated,
        "fit": answer.space.fit,
        "outcome": answer.outcome,
        "complete": answer.space.complete,
    }


def in_own_process(name: str) -> dict[str, Any]:
    environment = os.environ | {"PYTHONPATH": str(HERE.parent)}
    told = subprocess.run(
        [sys.executable, __file__, name], env=environment, check=True, capture_output=True, text=True
    )
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def table(cases: dict[str, dict[str, Any]]) -> str:
    head = "| case | CPU s | wall s | peak RSS MB | enumerated | fit | outcome |\n" + "|---" * 7 + "|\n"
    rows = (
        f"| {name} | " + " | ".join(f"{row[column]:,}" for column in COLUMNS) + f" | {row['outcome']} |\n"
        for name, row in cases.items()
    )
    return head + "".join(rows)


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1])))
        return
    cases = {name: in_own_process(name) for name in CASES}
    machine = {"python": platform.python_version(), "machine": platform.machine(), "cpus": os.cpu_count()}
    (HERE / "speed.json").write_text(
        json.dumps({"machine": machine, "cases": cases}, indent=1) + "\n", "utf-8"
    )
    text = "# Speed\n\nMade by `python bench/speed.py`: one process a case, seconds after the imports.\n\n"
    (HERE / "speed.md").write_text(text + table(cases), "utf-8")
    print(table(cases))


if __name__ == "__main__":
    main()
