"""Published analytic facts by area, and what meeting one means."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.architecture import Architecture

Given = dict[str, Any]
Ways = dict[str, Callable[[Given], Any]]
"""How the product reckons an entry, by the start of its id: from its inputs alone."""

ENTRIES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "golden" / "published.json").read_text()
)["entries"]


def of_area(area: str) -> list[dict[str, Any]]:
    return [entry for entry in ENTRIES if entry["area"] == area]


def way(entry: dict[str, Any], ways: Ways) -> str:
    """The way whose name the entry's id starts with, the longest of them."""
    found = [name for name in ways if entry["id"].startswith(name)]
    assert found, f"no way meets {entry['id']}"
    return max(found, key=len)


def assert_met(entry: dict[str, Any], found: Any) -> None:
    """Every expected value within the entry's rtol; 0 means exact."""
    expected = entry["expected"]
    if isinstance(expected, dict):
        assert set(found) == set(expected)
        pairs = [(found[key], expected[key]) for key in expected]
    else:
        pairs = [(found, expected)]
    for value, wanted in pairs:
        plain = np.asarray(value, dtype=np.float64).tolist()
        assert plain == wanted if entry["rtol"] == 0 else plain == pytest.approx(wanted, rel=entry["rtol"])


def gpt(hidden: int, heads: int = 8, layers: int = 1, **more: Any) -> Architecture:
    """A GPT with a plain 4 h feed-forward and neither biases nor norm weights: 12 h^2 a layer."""
    known = {"kv_heads": heads, "vocabulary": 51200, "gated_mlp": False, "norm_affine": False}
    shape = {"hidden": hidden, "layers": layers, "heads": heads, "head_size": hidden // heads}
    return Architecture(name="gpt", ffn=4 * hidden, **shape, **(known | more))
