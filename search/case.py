"""A finished layout to be checked, and the words its fixes are made of."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from models.architecture import Architecture
from models.cost.setting import Setting
from models.layout import Layout, LayoutChoice


@dataclass(frozen=True)
class Case:
    """A layout and what it is judged by."""

    layout: Layout
    setting: Setting
    caps: Mapping[str, int] = field(default_factory=dict)
    """Largest tp and cp, where the caller left them free."""
    forbidden: tuple[LayoutChoice, ...] = ()

    @property
    def architecture(self) -> Architecture:
        """The architecture trained."""
        return self.setting.architecture


Check = Callable[[Case], str | None]
"""Answers with the fix where its rule is broken, with nothing where it holds."""


def one_of(name: str, values: Iterable[int | str]) -> str:
    """Return the fix that names the values a knob may take."""
    return f"Use {name} of {', '.join(map(str, values))}."


def padded(number: int, multiple: int) -> int:
    """Return the least multiple that is not below a number."""
    return -(-number // multiple) * multiple
