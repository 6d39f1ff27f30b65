"""Every tuple of degrees of a search, in blocks small enough to stay in the cache."""

from collections.abc import Iterator

import numpy as np

from models.cost.table import IntVector
from search.domains import Domains
from search.problem import DEGREES, Degrees, Problem

BLOCK = 1 << 16
"""Tuples looked at together."""


def degree_blocks(problem: Problem) -> Iterator[Degrees]:
    """Yield tp * cp * pp * dp = gpus with every ep and etp, in canonical order."""
    domains = problem.domains
    dense = factorisations(domains, problem.setting.gpus)
    etp = 2 if domains.etp_follows_tp else len(domains.etp)
    step = max(1, BLOCK // max(1, len(domains.ep) * etp))
    for start in range(0, len(dense[0]), step):
        yield _with_experts([column[start : start + step] for column in dense], domains)


def joined(blocks: list[Degrees]) -> Degrees:
    """Return blocks as one."""
    nothing = np.zeros(0, dtype=np.int64)
    columns = ([getattr(block, name) for block in blocks] for name in DEGREES)
    return Degrees(*(np.concatenate([nothing, *column]) for column in columns))


def factorisations(domains: Domains, gpus: int) -> list[IntVector]:
    """Return columns tp, cp, pp, dp of every ordered factorisation within the domains."""
    columns: list[IntVector] = []
    rest = np.array([gpus], dtype=np.int64)
    for values in (domains.tp, domains.cp, domains.pp):
        grid = np.array(values, dtype=np.int64)
        row, value = np.nonzero(rest[:, None] % np.maximum(grid, 1)[None, :] == 0)
        columns = [column[row] for column in columns] + [grid[value]]
        rest = rest[row] // grid[value]
    kept = np.isin(rest, np.array(domains.dp, dtype=np.int64))
    return [column[kept] for column in (*columns, rest)]


def _with_experts(dense: list[IntVector], domains: Domains) -> Degrees:
    ep, tp = np.array(domains.ep, dtype=np.int64), dense[0]
    if domains.etp_follows_tp:
        etp = np.stack([np.ones_like(tp), tp], axis=1)
        kept = np.isin(etp, np.array(domains.etp, dtype=np.int64))
        kept[:, 1] &= tp > 1
    else:
        etp = np.broadcast_to(np.array(domains.etp, dtype=np.int64), (len(tp), len(domains.etp)))
        kept = np.ones_like(etp, dtype=np.bool_)
    shape = (len(tp), len(ep), etp.shape[1])
    row, first, second = np.nonzero(np.broadcast_to(kept[:, None, :], shape))
    tp, cp, pp, dp = (column[row] for column in dense)
    return Degrees(tp, cp, pp, dp, ep[first], etp[row, second])
