"""The cost model's profiles, read from their data files."""

import tomllib
from functools import cache
from importlib.resources import files

from models.profile import Profile


@cache
def profile(name: str) -> Profile:
    """Return a profile by name.

    >>> profile("textbook").flat_compute_fraction
    0.4043
    """
    data = _table(name)
    return Profile(**{key: value for key, value in data.items() if key != "sources"})


def profile_sources(name: str) -> dict[str, str]:
    """Return where each coefficient of a profile comes from."""
    return dict(_table(name)["sources"])


def _table(name: str) -> dict[str, dict[str, str]]:
    return tomllib.loads((files("models.catalogue") / "profiles" / f"{name}.toml").read_text("utf-8"))
