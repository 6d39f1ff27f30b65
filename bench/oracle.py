"""Write the golden table of parameter counts as the classes of huggingface/transformers count them.

    pip install -e '.[dev,oracle]' && python bench/oracle.py --write

Without `--write` the table is made anew and compared with the committed one. It holds the known
configurations and, for each family, a few drawn ones from a fixed seed; no weights are downloaded.
Where the oracle extra is not installed it says so and does nothing.
"""

import argparse
import json
import logging
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests" / "golden" / "transformers_counts.json"
DRAWN_PER_FAMILY = 4


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--write", action="store_true", help="write the table instead of comparing it")
    write = arguments.parse_args().write
    if find_spec("transformers") is None or find_spec("torch") is None:
        print("skipped: the oracle extra (torch, transformers) is not installed", file=sys.stderr)
        return 1 if write else 0
    sys.path.insert(0, str(ROOT))
    logging.disable(logging.WARNING)
    began = time.perf_counter()
    text = one_row_a_line(made())
    same = TABLE.exists() and TABLE.read_text(encoding="utf-8") == text
    if write:
        TABLE.write_text(text, encoding="utf-8")
    word = "written" if write else "as committed" if same else "NOT as committed"
    print(f"{len(json.loads(text)['rows'])} configurations {word} in {time.perf_counter() - began:.1f} s")
    return 0 if write or same else 1


def made() -> dict[str, Any]:
    """The table: every known configuration, then the drawn ones by family."""
    import transformers

    from tests.models.oracle.configurations import configuration, known_configurations, known_families

    rows = [row(name, config) for name, config in known_configurations().items()]
    for family in known_families():
        for seed in range(DRAWN_PER_FAMILY):
            rows.append(row(f"{family} #{seed}", configuration(family, Random(f"golden {family} {seed}"))))
    source = f"classes of huggingface/transformers {transformers.__version__} on the meta device"
    return {"source": source, "command": "python bench/oracle.py --write", "rows": rows}


def one_row_a_line(table: dict[str, Any]) -> str:
    """JSON whose differences can be read."""
    rows = ",\n".join(json.dumps(row) for row in table["rows"])
    head = json.dumps({key: value for key, value in table.items() if key != "rows"})
    return f'{head[:-1]}, "rows": [\n{rows}\n]}}\n'


def row(name: str, config: dict[str, Any]) -> dict[str, Any]:
    """One configuration and what its class holds."""
    from tests.models.oracle.reference import reference_parts

    return {"name": name, "config": config, "parts": reference_parts(config)}


if __name__ == "__main__":
    sys.exit(main())
