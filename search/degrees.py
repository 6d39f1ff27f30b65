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
    dense = _factorisations(domains, problem.setting.gpus)
    experts = max(1, len(domains.ep) * len(domains.etp))
    step = max(1, BLOCK // experts)
    for start in range(0, len(dense[0]), step):
        yield _with_experts([column[start : start + step] for column in dense], domains)


def joined(blocks: list[Degrees]) -> Degrees:
    """Return blocks as one."""
    nothing = np.zeros(0, dtype=np.int64)
    columns = ([getattr(block, name) for block in blocks] for name in DEGREES)
    return Degrees(*(np.concatenate([nothing, *column]) for column in columns))


def _factorisations(domains: Domains, gpus: int) -> list[IntVector]:
    """Columns tp, cp, pp, dp of every ordered factorisation within the domains."""
    columns = [np.zeros(1, dtype=np.int64) for _ in range(0)]
    rest = np.array([gpus], dtype=np.int64)
    for values in (domains.tp, domains.cp, domains.pp):
        grid = np.array(values, dtype=np.int64)
        row, value = np.nonzero(rest[:, None] % np.maximum(grid, 1)[None, :] == 0)
        columns = [column[row] for column in columns] + [grid[value]]
        rest = rest[row] // grid[value]
    kept = np.isin(rest, np.array(domains.dp, dtype=np.int64))
    return [column[kept] for column in (*columns, rest)]


def _with_experts(dense: list[IntVector], domains: Domains) -> Degrees:
    ep, etp = np.array(domains.ep, dtype=np.int64), np.array(domains.etp, dtype=np.int64)
    row, first, second = (
        axis.reshape(-1) for axis in np.indices((len(dense[0]), len(ep), len(etp)), dtype=np.int64)
    )
    tp, cp, pp, dp = (column[row] for column in dense)
    degrees = Degrees(tp, cp, pp, dp, ep[first], etp[second])
    if not domains.etp_follows_tp:
        return degrees
    follows = (degrees.etp == 1) | (degrees.etp == degrees.tp)
    return degrees.take(np.flatnonzero(follows))
