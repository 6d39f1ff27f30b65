"""What rebuilding a run had to assume, what it could not take in, and why it had to stop."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from models.estimate import Assumption

Value = TypeVar("Value")


class CannotPredict(Exception):
    """A run whose columns describe nothing that can be priced; the message says why."""

    @classmethod
    def unknown(cls, column: str, said: str, known: Iterable[str]) -> "CannotPredict":
        """Build the reason of a cell that names nothing we know, with what we do.

        >>> str(CannotPredict.unknown("precision", "fp7", ["fp8", "bf16"]))
        "precision 'fp7' is not known; known: bf16, fp8"
        """
        return cls(f"{column} {said!r} is not known; known: {', '.join(sorted(known))}")


@dataclass
class Told:
    """Grows while a run is rebuilt, column by column."""

    assumed: list[Assumption] = field(default_factory=list)
    """Columns that say nothing, what was taken instead, and why."""
    ignored: list[str] = field(default_factory=list)
    """Columns that say something the cost model does not price, with what they say."""

    def assume(self, column: str, value: Value, why: str) -> Value:
        """Take a value for a column that does not say."""
        self.assumed.append(Assumption(field=column, value=value, why=why))
        return value

    def ignore(self, column: str, value: object, priced_as: str) -> None:
        """Note that a stated value is priced as something else."""
        self.ignored.append(f"{column} {value}: {priced_as}")
