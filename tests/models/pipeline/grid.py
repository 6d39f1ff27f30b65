"""Every schedule the search may offer, over p <= 32, G <= 128, v <= 8."""

from models.cost.pipeline.folded import dualpipe, dualpipe_v, zb_v
from models.cost.pipeline.looped import (
    gpipe,
    group_allowed,
    interleaved,
    one_f_one_b,
    zb_h1,
)
from models.cost.table import DUALPIPE, DUALPIPE_V, GPIPE, INTERLEAVED, ONE_F_ONE_B, ZB_H1, ZB_V

MAKE = {
    GPIPE: lambda p, g, v, n: gpipe(p, g),
    ONE_F_ONE_B: lambda p, g, v, n: one_f_one_b(p, g),
    INTERLEAVED: lambda p, g, v, n: interleaved(p, g, v, n),
    ZB_H1: lambda p, g, v, n: zb_h1(p, g),
    ZB_V: lambda p, g, v, n: zb_v(p, g),
    DUALPIPE_V: lambda p, g, v, n: dualpipe_v(p, g),
    DUALPIPE: lambda p, g, v, n: dualpipe(p, g),
}


RANKS = (1, 2, 3, 4, 8, 16, 32)


def micro_batches(p):
    return sorted({1, 2, max(p - 1, 1), p, p + 1, 2 * p - 1, 2 * p, 2 * p + 2, 3 * p, min(4 * p, 128)})


def grid():
    """Every schedule over p <= 32, G <= 128, v <= 8 where its order exists."""
    for p in RANKS:
        for g in micro_batches(p):
            yield from ((code, p, g, 1, 1) for code in (GPIPE, ONE_F_ONE_B, ZB_H1, ZB_V))
            if g >= 2 * p:
                yield DUALPIPE_V, p, g, 1, 1
            if g >= 2 * p and p % 2 == 0 and g % 2 == 0:
                yield DUALPIPE, p, g, 1, 1
            for v in (2, 3, 8) if p <= 8 else (2,):
                for n in sorted({p, p + 1, g}):
                    if group_allowed(p, g, n):
                        yield INTERLEAVED, p, g, v, n
