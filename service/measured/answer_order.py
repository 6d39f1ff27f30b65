"""What `validate` answers of the order of layouts."""

from models.base import Schema


class PairCount(Schema):
    """Pairs of layouts, and how many are predicted in their measured order."""

    pairs: int
    right: int
    share: float | None
    """Of them, the ones in the right order; null without pairs. [1]"""

    @classmethod
    def of(cls, pairs: int, right: int) -> "PairCount":
        """Return the count with its share.

        >>> PairCount.of(4, 3).share, PairCount.of(0, 0).share
        (0.75, None)
        """
        return cls(pairs=pairs, right=right, share=right / pairs if pairs else None)


class OrderGroup(Schema):
    """Layouts of one source, model, GPU, number of GPUs, sequence and precision."""

    source: str
    model: str | None
    """As the file calls it."""
    heads: int
    gpu: str
    gpus: int
    sequence_length: int
    precision: str
    layouts: int
    """Different layouts in it, three or more."""
    pairs: PairCount
    """Pairs whose measured times of a token are more than 3 % apart."""
    far_pairs: PairCount
    """Pairs more than 8 % apart."""
    predicted_best: str
    """A run of the layout predicted fastest."""
    measured_best: str
    """A run of the fastest."""
    cost: float
    """Measured time of the layout predicted fastest over that of the fastest, less 1. [1]"""


class Order(Schema):
    """Rows of confidence high or medium whose step time is known, group by group and in all."""

    groups: tuple[OrderGroup, ...]
    pairs: PairCount
    far_pairs: PairCount
    by_source: dict[str, PairCount]
    far_by_source: dict[str, PairCount]
    mean_cost: float | None
    """Mean over groups. [1]"""
    most_cost: float | None
    """Worst group. [1]"""
