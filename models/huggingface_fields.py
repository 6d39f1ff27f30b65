"""Reading one `config.json` without trusting it: every fault noted, every default told, nothing raised."""

import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from models.errors import Fault

LARGEST = 1_000_000
"""No width, vocabulary or number of heads or experts that is planned comes near."""
DEEPEST = 10_000
"""Nor any number of layers."""
LONGEST = 2**31
"""Nor any sequence, in tokens."""


class Fields:
    """The fields of one configuration, with what was wrong and what was assumed so far."""

    def __init__(self, config: Mapping[str, Any], field: str, family_defaults: Mapping[str, Any]) -> None:
        """Start on a configuration that stands at the JSON pointer `field`."""
        self.config = config
        self.field = field
        self.family_defaults = family_defaults
        self.faults: list[Fault] = []
        self.defaults: list[tuple[str, Any, str]] = []
        self.read: set[str] = set()

    def pointer(self, key: str) -> str:
        """JSON pointer of a field (RFC 6901)."""
        return f"{self.field}/{key.replace('~', '~0').replace('/', '~1')}"

    def fault(self, key: str, reason: str, fix: str) -> None:
        """Note what is wrong with a field."""
        self.faults.append(Fault(self.pointer(key), shown(self.config.get(key)), reason, fix))

    def assume(self, key: str, value: Any, why: str) -> None:
        """Note, once, a value taken for a field that is not stated."""
        entry = (self.pointer(key), value, why)
        if entry not in self.defaults:
            self.defaults.append(entry)

    def stated(self, key: str) -> Any:
        """Value of a field; None where it is missing or null."""
        self.read.add(key)
        return self.config.get(key)

    def spelling(self, keys: Sequence[str]) -> str:
        """Which of several spellings of one field is used; the first where none is."""
        self.read.update(keys)
        used = [key for key in keys if self.config.get(key) is not None]
        if len({shown(self.config[key]) for key in used}) > 1:
            self.fault(used[1], f"says otherwise than {used[0]}", f"Leave one of {' and '.join(used)} out.")
        return used[0] if used else keys[0]

    def count(self, *keys: str, low: int = 1, high: int = LARGEST) -> int | None:
        """A whole number that must be there, under one of its spellings; None after a fault."""
        key = self.spelling(keys)
        value = self.config.get(key)
        if value is None and key in self.family_defaults:
            default: int = self.family_defaults[key]
            self.assume(key, default, "default of the family")
            return default
        if value is None:
            reason = "is null" if key in self.config else "is missing"
            self.fault(
                key, f"{reason}, and the architecture is not known without it", "State a whole number."
            )
            return None
        return self._whole(key, value, low, high)

    def optional_count(self, *keys: str, low: int = 1, high: int = LARGEST) -> int | None:
        """A whole number that may be missing or null; None then, and after a fault."""
        key = self.spelling(keys)
        value = self.config.get(key)
        if value is None:
            default: int | None = self.family_defaults.get(key) if key not in self.config else None
            if default is not None:
                self.assume(key, default, "default of the family")
            return default
        return self._whole(key, value, low, high)

    def flag(self, key: str, default: bool = False) -> bool:
        """True or false; the family's default where it is missing or null."""
        value = self.stated(key)
        if isinstance(value, bool):
            return value
        assumed = bool(self.family_defaults.get(key, default))
        if value is not None:
            self.fault(key, "is neither true nor false", f"Try {str(assumed).lower()}.")
        elif assumed:
            self.assume(key, assumed, "default of the family")
        return assumed

    def _whole(self, key: str, value: Any, low: int, high: int) -> int | None:
        if isinstance(value, bool) or not isinstance(value, int):
            self.fault(key, "is not a whole number", _as_number(value, low, high))
            return None
        if not low <= value <= high:
            self.fault(key, f"lies outside {low}..{high}", f"State a whole number in {low}..{high}.")
            return None
        return value

    def refuse_unknown(self, known: Sequence[str]) -> None:
        """Note every field that is not among the known ones, with the nearest that is."""
        for key in self.config:
            if key not in known and key not in self.read:
                near = get_close_matches(key, known, n=1, cutoff=0.6)
                fix = (
                    f"Try {near[0]!r}."
                    if near
                    else "Leave it out, or send the whole file with its model_type."
                )
                self.fault(key, "is no field of a decoder without a model_type", fix)

    def refuse_misspelt(self, harmless: frozenset[str]) -> None:
        """Note fields that all but spell one we looked for and did not find."""
        missing = sorted(key for key in self.read if key not in self.config)
        for key in self.config:
            near = get_close_matches(key, missing, n=1, cutoff=0.9)
            if key not in self.read and key not in harmless and near:
                self.fault(key, f"is not read, and {near[0]} is missing", f"Try {near[0]!r}.")


def shown(value: Any) -> Any:
    """A value as it may stand in an answer: plain, finite and short.

    >>> shown(4096), shown(float("nan")), shown([1, 2])
    (4096, 'nan', '[1, 2]')
    """
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return (value if isinstance(value, str) else repr(value))[:80]


def _as_number(value: Any, low: int, high: int) -> str:
    """Suggest the whole number a string or a float all but is."""
    try:
        number = int(value) if isinstance(value, str) else round(value)
    except (ValueError, TypeError, OverflowError):
        return "State a whole number."
    return (
        f"Try {number}." if not isinstance(value, bool) and low <= number <= high else "State a whole number."
    )
