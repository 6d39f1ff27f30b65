"""Rank orders in lines under a shortlist: which take the same time, and what the others would cost."""

from collections.abc import Sequence

from models.estimate import RankedCandidate, TierLoad

MOST_TIES = 4
"""Rank orders of a tie that are named."""


def ties(rows: Sequence[RankedCandidate]) -> list[str]:
    """Rank orders that take the same time, each set with the places it stands at."""
    places: dict[str, list[str]] = {}
    for row in rows:
        if row.ties:
            orders = ", ".join("-".join(order) for order in row.ties[:MOST_TIES])
            more = f" and {len(row.ties) - MOST_TIES} more" if len(row.ties) > MOST_TIES else ""
            places.setdefault(orders + more, []).append(f"#{row.rank}")
    return [f"{', '.join(at)}: the same time under {orders}" for orders, at in places.items()]


def other_orders(place: RankedCandidate) -> list[str]:
    """A place under its own rank order and under those it was chosen over, a line each.

    Each tells its step and the GB a GPU sends over each tier; there are none where no other order searched
    makes other groups.
    """
    if not place.other_orders:
        return []
    own = _order(place.layout.rank_order, place.step_time_s, place.tiers)
    others = [_order(one.rank_order, one.step_time_s, one.tiers) for one in place.other_orders]
    return [f"#{place.rank} under {own}", *(f"   under {other}" for other in others)]


def _order(order: Sequence[str], seconds: float, tiers: Sequence[TierLoad]) -> str:
    sent = ", ".join(f"{t.tier} {t.sent_bytes_per_gpu / 1e9:.1f}" for t in tiers)
    return f"{'-'.join(order)}: {seconds:.3f} s, GB/GPU {sent}"
