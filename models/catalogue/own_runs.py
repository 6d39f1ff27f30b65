"""What a cluster's own runs may move of the calibrated profile, read from its data file."""

import math
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from models.base import Schema
from models.catalogue.profiles import coefficients, profile
from models.hardware import Generation
from models.rates import ByGeneration
from models.stack import AttentionKernel

BASE = "calibrated"
"""The profile that is adapted."""
SOURCE = "scatter between published sources, each predicted without itself: bench/own_runs.py"
LEAST = 1e-6
"""Stands for 0 where a logarithm is taken: the least a coefficient may be, and none is that small."""


class Term(Schema):
    """Something runs move: one multiplier of all its coefficients."""

    meaning: str
    moves: tuple[str, ...]
    """Coefficients of the profile; of those told by generation or kernel, the table."""
    spread: float
    """Standard deviation of the multiplier's logarithm between clusters. [1]"""


class Scatter(Schema):
    """Standard deviation of a configuration's log step time around what own multipliers make of it. [1]."""

    dense: float
    moe: float


class BandRule(Schema):
    """How a band goes over from published runs to own ones."""

    weight: float
    """Own configurations that count as much as all published ones. [1]"""
    least: float
    """Half-width that no band is narrower than. [1]"""


class OwnRunsRules(Schema):
    """All of the data file."""

    scatter: Scatter
    band: BandRule
    terms: dict[str, Term]


@dataclass(frozen=True)
class Moved:
    """A term for one type of GPU and the kernels its runs use."""

    name: str
    meaning: str
    spread: float
    coefficients: tuple[str, ...]
    """Dotted names of what it multiplies."""
    low: float
    """Least logarithm of the multiplier that leaves every coefficient inside what physics allows. [1]"""
    high: float
    """Greatest one. [1]"""

    def without(self, names: Collection[str]) -> "Moved":
        """Return the term with some coefficients left where they are."""
        return replace(self, coefficients=tuple(name for name in self.coefficients if name not in names))


@cache
def own_runs_rules() -> OwnRunsRules:
    """Return what the data file holds.

    >>> list(own_runs_rules().terms)
    ['matmul', 'matmul_low', 'attention', 'streaming', 'host', 'network', 'experts']
    """
    place = files("models.catalogue") / "profiles" / "own-runs.toml"
    return OwnRunsRules.model_validate(tomllib.loads(place.read_text("utf-8")))


def moved_by(
    generation: Generation,
    kernels: Iterable[AttentionKernel],
    values: Mapping[str, float] | None = None,
) -> tuple[Moved, ...]:
    """Return every term with the coefficients it moves on a generation of GPUs.

    Parameters
    ----------
    generation
        Of coefficients told by generation, the one it reads is moved.
    kernels
        Fused attention kernels the runs use; the others stay.
    values
        Coefficients before any is moved; as the profile has them unless given.

    Examples
    --------
    >>> [term.coefficients for term in moved_by("hopper", ["flash2"])][:3]
    [('matmul_16.hopper',), ('matmul_8.hopper', 'matmul_4.other'), ('attention.flash2.hopper',)]
    """
    known, kernels = coefficients(BASE), tuple(kernels)
    before = {name: one.value for name, one in known.items()} | dict(values or {})
    found = []
    for name, term in own_runs_rules().terms.items():
        names = tuple(one for table in term.moves for one in _read(table, generation, kernels))
        ends = [
            (math.log(max(known[one].low, LEAST) / before[one]), math.log(known[one].high / before[one]))
            for one in names
        ]
        low, high = max((e[0] for e in ends), default=0.0), min((e[1] for e in ends), default=0.0)
        found.append(Moved(name, term.meaning, term.spread, names, min(low, 0.0), max(high, 0.0)))
    return tuple(found)


def _read(table: str, generation: Generation, kernels: tuple[AttentionKernel, ...]) -> tuple[str, ...]:
    """Dotted names of the coefficients of a table that a generation and its kernels read."""
    rates: Any = profile(BASE).rates
    if table == "attention":
        fused = sorted({kernel for kernel in kernels if kernel != "unfused"})
        return tuple(
            f"attention.{kernel.replace('-', '_')}.{rates.attention.of(kernel).entry(generation)}"
            for kernel in fused
        )
    held = getattr(rates, table, None)
    return (f"{table}.{held.entry(generation)}",) if isinstance(held, ByGeneration) else (table,)
