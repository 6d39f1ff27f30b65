"""Whole bytes out of shares, without one lost: the largest remainders take what is left."""

from collections.abc import Iterable
from fractions import Fraction


def apportion(whole: int, weights: Iterable[float]) -> list[int]:
    """Split a whole number in proportion to weights, the parts adding up to it exactly (Hamilton's method).

    Each part is its quota rounded down, and one more goes to the largest remainders, the earlier of
    equal ones first; a weight of 0 gets nothing. Reckoned in fractions, so that no size is too large.

    >>> apportion(10, [1.0, 1.0, 1.0]), apportion(7, [0.5, 0.0, 0.5])
    ([4, 3, 3], [4, 0, 3])

    Raises
    ------
    ValueError
        When there is something to split and no weight is above 0.
    """
    exact = [Fraction(weight) for weight in weights]
    total = sum(exact)
    if not total:
        if whole:
            raise ValueError(f"no weight takes any of {whole}")
        return [0] * len(exact)
    quotas = [whole * weight / total for weight in exact]
    parts = [quota.numerator // quota.denominator for quota in quotas]
    left = whole - sum(parts)
    by_remainder = sorted(range(len(parts)), key=lambda i: (parts[i] - quotas[i], i))
    for i in by_remainder[:left]:
        parts[i] += 1
    return parts
