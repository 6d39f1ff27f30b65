"""The README's table and the command above it: what is shown, what is printed, the one from the other.

`python -m tests.service.readme_table` (`make readme`) writes the table anew.
"""

import os
import re
import shlex
import subprocess
import sys
from io import StringIO
from typing import NamedTuple

from rich.console import Console

from service.tables import Column, print_columns
from tests.service.conftest import ROOT

README = ROOT / "README.md"
COMMAND = re.compile(r"^layout-search (search (?:.*\\\n)*.*)$", re.MULTILINE)
BLOCK = re.compile(r"(?<=^```\n)#  TP .*?(?=^```)", re.MULTILINE | re.DOTALL)
ROWS = 3
"""Places the README shows."""
LEFT_OUT = frozenset({"fullest stage", "bubble", "imbalance", "slowest stage", "variants"})
"""Columns it does not."""
LEFT = frozenset({"schedule", "recompute", "rank order", "busiest link", "where the time goes"})
REJECTIONS = 2
WALL = re.compile(r", \d+\.\d\d s$", re.MULTILINE)


class Printed(NamedTuple):
    """A table of places by column, and the line about the space."""

    rows: list[dict[str, str]]
    space: str


def printed() -> Printed:
    """What the README's command prints now."""
    (command,) = COMMAND.findall(README.read_text(encoding="utf-8"))
    arguments = shlex.split(command.replace("\\\n", " "))
    ran = subprocess.run(
        [sys.executable, "-m", "service.cli", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=True,
        env=os.environ | {"COLUMNS": "400"},
    )  # fmt: skip
    return parsed(ran.stdout)


def shown() -> Printed:
    """What the README shows."""
    (block,) = BLOCK.findall(README.read_text(encoding="utf-8"))
    return parsed(block)


def parsed(text: str) -> Printed:
    """Read a table of places and the line under it; columns are two spaces apart, and none is empty."""
    lines = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]
    start = next(i for i, cells in enumerate(lines) if cells[0] == "#")
    heads = [head for head in lines[start] if head != "…"]
    rows = [cells for cells in lines[start + 1 :] if cells[0].isdecimal()]
    (space,) = (line for line in text.splitlines() if line.startswith("found: "))
    return Printed([dict(zip(heads, cells, strict=True)) for cells in rows], space)


def block_of(found: Printed) -> str:
    """The README's block: the first places, some columns of them, and the shortened line about the space."""
    rows = found.rows[:ROWS]
    heads = [head for head in rows[0] if head not in LEFT_OUT]
    columns = [Column(head, [row[head] for row in rows], left=head in LEFT) for head in heads]
    columns.insert(heads.index("busiest link"), Column("…", [""] * ROWS))
    text = StringIO()
    print_columns(Console(file=text, width=400), columns)
    table = "\n".join(line.rstrip() for line in text.getvalue().strip().splitlines())
    return f"{table}\n…\n{shortened(found.space)}\n"


def shortened(space: str) -> str:
    """The line about the space with the rules that rejected most, and dots for the others."""
    head, _, rest = space.partition("rejected: ")
    rejected, _, tail = rest.partition("; ")
    kept = re.findall(r"\w+ [\d,]*\d", rejected)[:REJECTIONS]
    return f"{head}rejected: {', '.join([*kept, '…'])}; {tail}"


def main() -> None:
    """Write the table anew; the time that a search took is no reason to."""
    text = README.read_text(encoding="utf-8")
    anew = BLOCK.sub(lambda _: block_of(printed()), text)
    if WALL.sub("", anew) != WALL.sub("", text):
        README.write_text(anew, encoding="utf-8")


if __name__ == "__main__":
    main()
