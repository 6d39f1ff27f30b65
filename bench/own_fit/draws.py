"""What adapting to k runs of a cluster does for its other runs."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from own_fit.clusters import Cluster
from own_fit.spreads import Spreads
from rate_fit.runs import NAME

from models.catalogue.profiles import profile, with_values
from models.cost.step.band import kinds_of
from service.measured.calibrating import own_bands
from service.measured.cases import predict
from service.measured.own_runs import adapt

Array = NDArray[np.float64]
SIZES = (1, 3, 10)
DRAWS = 6
LEFT = 2
"""Configurations that must be left to be predicted. [1]"""


def drawn(cluster: Cluster, known: Spreads) -> dict[str, dict[str, float]]:
    """Adapt to some runs, one a configuration, and predict every other configuration; the mean of the draws.

    Spreads are those of the clusters of other sources, coefficients those fitted to other sources.
    """
    found = {}
    for size in SIZES:
        if cluster.configurations < size + LEFT:
            continue
        draws = [_draw(cluster, known, size, turn) for turn in range(DRAWS)]
        found[str(size)] = {name: round(float(np.mean([one[name] for one in draws])), 4) for name in draws[0]}
    return found


def _draw(cluster: Cluster, known: Spreads, size: int, turn: int) -> dict[str, Any]:
    random = np.random.default_rng([len(cluster.groups), size, turn])
    groups = random.choice(cluster.configurations, size, replace=False)
    rows = [int(random.choice(np.flatnonzero(cluster.groups == group))) for group in groups]
    cases = [cluster.runs.cases[row] for row in rows]
    own = adapt(cases, cluster.runs.measured[rows], known.terms, known.scatter, cluster.base)
    other = ~np.isin(cluster.groups, groups)
    adapted = with_values(NAME, cluster.base | own.values(cluster.base))
    logs = np.log(predict(cluster.runs.cases, adapted) / cluster.runs.measured)[other]
    before = cluster.logs[other]
    told = {band.kind: band.adapted for band in own_bands(cases, own.left_one_out)}
    wide = _widths(cluster, other, told)
    return {
        "before": float(np.abs(np.expm1(before)).mean()),
        "after": float(np.abs(np.expm1(logs)).mean()),
        "median_before": float(np.median(np.abs(np.expm1(before)))),
        "median_after": float(np.median(np.abs(np.expm1(logs)))),
        "inside_before": float((np.abs(before) <= _widths(cluster, other, {})).mean()),
        "inside": float((np.abs(logs) <= wide).mean()),
        "width_before": float(_widths(cluster, other, {}).mean()),
        "width": float(wide.mean()),
    }


def _widths(cluster: Cluster, rows: NDArray[np.bool_], told: dict[str, float]) -> Array:
    """Half-width of the band of each of some runs, own ones before the published, (M,). [1]."""
    bands = profile(NAME).bands
    assert bands is not None
    known = bands.model_copy(update=told)
    chosen = [cluster.runs.cases[row] for row in np.flatnonzero(rows)]
    return np.array([known.widest(kinds_of(case.setting, case.layout)) for case in chosen])
