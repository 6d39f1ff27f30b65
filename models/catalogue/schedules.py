"""Which training frameworks run a pipeline schedule, read from its data file."""

import tomllib
from functools import cache
from importlib.resources import files


def offered_by(schedule: str) -> dict[str, str]:
    """Return the frameworks that run a schedule and the name each gives it.

    >>> offered_by("zb-v")
    {'torchtitan': 'ZBVZeroBubble'}
    """
    return dict(_table()[schedule])


def schedule_source(schedule: str) -> str:
    """Return where that is read."""
    return _table()["sources"][schedule]


@cache
def _table() -> dict[str, dict[str, str]]:
    return tomllib.loads((files("models.catalogue") / "schedules.toml").read_text("utf-8"))
