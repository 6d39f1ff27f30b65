"""Frameworks' memory habits, read from their data files."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from models.errors import UnknownEntry
from models.framework import Framework


def framework_names() -> tuple[str, ...]:
    """Names of every framework whose habits are known."""
    folder = files("models.catalogue") / "frameworks"
    found = (entry.name for entry in folder.iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in found if name.endswith(".toml")))


@cache
def framework(name: str) -> Framework:
    """Return a framework's habits by name, or raise UnknownEntry at `/framework`.

    >>> framework("torchtitan").logits_fp32_copies
    3
    """
    return Framework(**{key: value for key, value in _table(name).items() if key != "sources"})


def _table(name: str) -> dict[str, Any]:
    """Only names that were listed are ever opened, so no name can reach outside the folder."""
    if name not in framework_names():
        raise UnknownEntry.among("/framework", name, framework_names())
    return tomllib.loads((files("models.catalogue") / "frameworks" / f"{name}.toml").read_text("utf-8"))
