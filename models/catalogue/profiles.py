"""The cost model's profiles, read from their data files."""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from models.bands import Bands
from models.base import Schema
from models.profile import Profile
from models.rates import Rates


class Coefficient(Schema):
    """One rate as its file states it."""

    value: float
    unit: str
    """SI, or 1."""
    low: float
    """Least value physics allows."""
    high: float
    """Greatest value physics allows."""
    source: str
    """Where the value is read, or the command that fits it."""
    prior: float | None = None
    """Where a fit starts and what it is pulled to; none where the value is not fitted."""
    spread: float | None = None
    """Standard deviation of the belief, of the value's logarithm. [1]"""
    belief: str | None = None
    """Why the prior is believed."""
    runs: int | None = None
    """Measured runs whose prediction hangs on it, where it is fitted."""


@cache
def profile(name: str) -> Profile:
    """Return a profile by name.

    >>> profile("textbook").flat_compute_fraction
    0.4043
    """
    data = {key: value for key, value in _table(name).items() if key != "sources"}
    found = rates({key: one.value for key, one in coefficients(name).items()})
    bands = _optional(f"{name}-bands")
    return Profile(**data, **found, bands=Bands(**bands) if bands else None)


def rates(values: dict[str, float]) -> dict[str, Any]:
    """Return coefficients by their dotted names as a profile's fields: its rates, and what is its own.

    >>> found = rates({key: one.value for key, one in coefficients("calibrated").items()})
    >>> found["rates"].matmul_4.other, sorted(found)
    (1.0, ['network_collectives', 'network_exchange', 'rates'])
    """
    nested: dict[str, Any] = {}
    for name, value in values.items():
        *parents, last = name.split(".")
        place = nested
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    own = {name: value for name, value in nested.items() if name in Profile.model_fields}
    rest = {name: value for name, value in nested.items() if name not in own}
    return own | ({"rates": Rates.model_validate(rest)} if rest else {})


def with_values(name: str, values: Mapping[str, float]) -> Profile:
    """Return a profile with some coefficients at other values, by their dotted names."""
    every = {known: one.value for known, one in coefficients(name).items()} | dict(values)
    return profile(name).model_copy(update=rates(every))


@cache
def coefficients(name: str) -> dict[str, Coefficient]:
    """Return the rates of a profile by their dotted names; none where it has a flat rate.

    >>> coefficients("calibrated")["straggling"].unit, coefficients("textbook")
    ('1', {})
    """
    return dict(_leaves(_optional(f"{name}-rates")))


def _optional(name: str) -> dict[str, Any]:
    """A data file of a profile, empty where it has none of that name."""
    place = files("models.catalogue") / "profiles" / f"{name}.toml"
    return tomllib.loads(place.read_text("utf-8")) if place.is_file() else {}


def _leaves(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Coefficient]]:
    for key, entry in table.items():
        if "value" in entry:
            yield prefix + key, Coefficient(**entry)
        else:
            yield from _leaves(entry, f"{prefix}{key}.")


def profile_sources(name: str) -> dict[str, str]:
    """Return where each coefficient of a profile comes from."""
    return dict(_table(name)["sources"])


def _table(name: str) -> dict[str, dict[str, str]]:
    return tomllib.loads((files("models.catalogue") / "profiles" / f"{name}.toml").read_text("utf-8"))
