"""What an answer says of what there was no time for."""

from collections.abc import Sequence

from search.shortlist import LATE, Shortlist


def hurried(found: Shortlist, limit_s: float, *, spared: bool) -> tuple[str, ...]:
    """Return a sentence for each thing that was left out because time was nearly up.

    Parameters
    ----------
    limit_s
        What the search was given. [s]
    spared
        Whether layouts that recompute some layers of a stage were all ranked.
    """
    count, told = len(found.places), []
    nearly = f"Time was nearly up ({LATE:.0%} of time_limit_s, {limit_s:g})"
    if found.by_formula:
        told.append(
            f"{nearly}: {named(found.by_formula, count)} told as formulas have it, "
            "its schedule not run and its layers split evenly. Allow more time."
        )
    if found.orders_left_out:
        told.append(f"{nearly}: {named(found.orders_left_out, count)} told without other rank orders.")
    if not spared:
        told.append(
            f"Time was up (time_limit_s, {limit_s:g}) before all layouts that recompute only some layers of "
            "a stage were ranked: one of them may be faster. Allow more time."
        )
    return tuple(told)


def named(ranks: Sequence[int], count: int) -> str:
    """Name some of so many places, with the verb that follows.

    >>> named([1, 2, 3], 3), named([7, 8, 9], 9), named([2, 4], 5), named([3], 3)
    ('every place is', 'from place 7 on each is', 'of places 2, 4 each is', 'place 3 is')
    """
    if len(ranks) == count:
        return "every place is"
    if len(ranks) == 1:
        return f"place {ranks[0]} is"
    if list(ranks) == list(range(ranks[0], count + 1)):
        return f"from place {ranks[0]} on each is"
    return f"of places {', '.join(map(str, ranks))} each is"
