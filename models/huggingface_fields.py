"""Reading one `config.json` without trusting it: every fault noted, every default told, nothing raised."""

import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from reprlib import Repr
from typing import Any

from models.errors import Fault

LARGEST = 1_000_000
"""No width, vocabulary or number of heads or experts that is planned comes near."""
DEEPEST = 10_000
"""Nor any number of layers."""
LONGEST = 2**31
"""Nor any sequence, in tokens."""
MOST_FIELDS = 1_000
"""Nor any `config.json`: the longest published ones have some 150 fields."""
LONGEST_NAME = 128
"""Characters of a field's name that are told, or compared with the names we know."""

_SHORT = Repr()
_SHORT.maxlevel, _SHORT.maxlist, _SHORT.maxdict, _SHORT.maxlong = 2, 4, 2, 40


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
        self.warnings: list[str] = []

    def pointer(self, key: str) -> str:
        """JSON pointer of a field (RFC 6901)."""
        return f"{self.field}/{key[:LONGEST_NAME].replace('~', '~0').replace('/', '~1')}"

    def fault(self, key: str, reason: str, fix: str) -> None:
        """Note, once, what is wrong with a field."""
        fault = Fault(self.pointer(key), shown(self.config.get(key)), reason, fix)
        if fault not in self.faults:
            self.faults.append(fault)

    def unsaid(self, key: str, fix: str) -> None:
        """Note a field that had to be stated."""
        reason = "is null" if key in self.config else "is missing"
        self.fault(key, f"{reason}, and the architecture is not known without it", fix)

    def assume(self, key: str, value: Any, why: str) -> None:
        """Note, once, a value taken for a field that is not stated."""
        entry = (self.pointer(key), value, why)
        if entry not in self.defaults:
            self.defaults.append(entry)

    def warn(self, key: str, why: str) -> None:
        """Note a field that is stated and changes nothing."""
        self.warnings.append(f"{self.pointer(key)} is ignored: {why}.")

    def stated(self, key: str) -> Any:
        """Value of a field; None where it is missing or null."""
        self.read.add(key)
        return self.config.get(key)

    def inside(self, key: str) -> "Fields":
        """The fields of an object within, its faults noted here; none where it is missing or null."""
        value = self.stated(key)
        if value is not None and not isinstance(value, dict):
            self.fault(key, "is not an object", "State its fields, or leave it out.")
        within = Fields(value if isinstance(value, dict) else {}, self.pointer(key), {})
        within.faults = self.faults
        return within

    def indices(self, key: str, below: int | None) -> list[int] | None:
        """A list of whole numbers in 0..below-1; None where it is missing or null, and after a fault."""
        value = self.stated(key)
        if value is None:
            return None
        numbers = value if isinstance(value, list) else [value]
        if len(numbers) > DEEPEST or any(isinstance(n, bool) or not isinstance(n, int) for n in numbers):
            self.fault(key, "is not a list of layers by number", "State whole numbers, or leave it out.")
            return None
        outside = [n for n in numbers if below is not None and not 0 <= n < below]
        if outside or not isinstance(value, list):
            reason = f"names layer {shown(outside[0])} of {below}" if outside else "is not a list"
            self.fault(key, reason, "State layers from 0 on, or leave it out.")
            return None
        return numbers

    def names(self, key: str, length: int | None) -> list[str] | None:
        """One name for each layer; None where it is missing or null, and after a fault."""
        value = self.stated(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            self.fault(key, "is not a list of names", "State one name a layer, or leave it out.")
            return None
        if length is not None and len(value) != length:
            self.fault(key, f"names {len(value)} layers of {length}", f"State {length} names.")
            return None
        return value

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
            self.unsaid(key, "State a whole number.")
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
            self.fault(key, "is neither true nor false", as_flag(value))
        else:
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
                near = nearest(key, known, 0.6)
                fix = (
                    f"Try {near!r}." if near else "Leave it out, or send the whole file with its model_type."
                )
                self.fault(key, "is no field of a decoder without a model_type", fix)

    def refuse_misspelt(self, harmless: frozenset[str]) -> None:
        """Note fields that all but spell one we looked for and did not find."""
        missing = sorted(key for key in self.read if key not in self.config)
        for key in self.config:
            if key not in self.read and key not in harmless:
                near = nearest(key, missing, 0.9)
                if near:
                    self.fault(key, f"is not read, and {near} is missing", f"Try {near!r}.")


def nearest(name: str, known: Sequence[str], cutoff: float) -> str | None:
    """The known name most like another; None where none is, or the other is too long to be one.

    >>> nearest("num_key_value_head", ["num_hidden_layers", "num_key_value_heads"], 0.6)
    'num_key_value_heads'
    """
    if len(name) > LONGEST_NAME:
        return None
    return next(iter(get_close_matches(name, known, n=1, cutoff=cutoff)), None)


def shown(value: Any) -> Any:
    """A value as it may stand in an answer: plain, finite and short, however deep or long it is.

    >>> shown(4096), shown(float("nan")), shown([1, 2])
    (4096, 'nan', '[1, 2]')
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if value.bit_length() < 64 else f"a whole number of {value.bit_length()} bits"
    if isinstance(value, float) and math.isfinite(value):
        return value
    return value[:80] if isinstance(value, str) else _SHORT.repr(value)[:80]


def _as_number(value: Any, low: int, high: int) -> str:
    """Suggest the whole number a string or a float is."""
    try:
        number = int(value[:40]) if isinstance(value, str) else int(value)
        if isinstance(value, float) and number != value:
            return "State a whole number."
    except (ValueError, TypeError, OverflowError):
        return "State a whole number."
    plain = not isinstance(value, bool) and low <= number <= high
    return f"Try {number}." if plain else "State a whole number."


def as_flag(value: Any) -> str:
    """Suggest the flag a string or a number spells.

    >>> as_flag("True"), as_flag(0), as_flag("maybe")
    ('Try true.', 'Try false.', 'State true or false.')
    """
    meant = {"true": "true", "1": "true", "false": "false", "0": "false"}.get(str(shown(value)).lower())
    return f"Try {meant}." if meant else "State true or false."
