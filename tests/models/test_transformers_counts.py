"""The counts of the golden table, made by the classes of huggingface/transformers (bench/oracle.py)."""

import json
from pathlib import Path

import pytest

from models.huggingface_families import FAMILIES
from tests.models.oracle.configurations import known_families
from tests.models.oracle.counts import our_parts

GOLDEN = Path(__file__).parents[1] / "golden" / "transformers_counts.json"
ROWS = {row["name"]: row for row in json.loads(GOLDEN.read_text(encoding="utf-8"))["rows"]}


@pytest.mark.parametrize("name", ROWS)
def test_every_part_counts_as_the_class_does(name):
    assert our_parts(ROWS[name]["config"]) == ROWS[name]["parts"]


@pytest.mark.parametrize("name", ROWS)
def test_the_parts_of_the_table_add_up(name):
    parts = ROWS[name]["parts"]
    assert sum(v for part, v in parts.items() if part not in ("total", "active")) == parts["total"]
    assert 0 < parts["active"] <= parts["total"]


def test_the_table_holds_every_family_that_can_be_compared():
    assert {name.split(" #")[0] for name in ROWS if " #" in name} == set(known_families())
    assert len(ROWS) > 300
    assert len(FAMILIES) > 60
