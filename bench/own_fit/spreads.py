"""How far clusters' own multipliers lie apart: the spreads and scatters under which their runs are likeliest.

Each cluster c has multipliers exp(x_c), x_c ~ N(0, spread^2) term by term; a configuration's log error is
what they make of it, slopes . x_c, and a scatter by kind, Huber's as in the fit. x_c is integrated out
(Laplace); the spreads and scatters that make all clusters' runs likeliest are sought, each held loosely to
what was believed beforehand, so that a kind with few clusters does not run away (D. J. C. MacKay, "Bayesian
interpolation", 1992: the evidence).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from own_fit.clusters import Cluster

from models.catalogue.own_runs import own_runs_rules
from service.measured.solve import KNEE

Array = NDArray[np.float64]

TERMS = tuple(own_runs_rules().terms)
SCATTERS = ("dense", "moe")
BELIEVED = np.array([0.15] * len(TERMS) + [0.06, 0.12])
"""Spreads as the fit's beliefs have them, 8 to 30 %; scatters as repeats of one configuration have them, and
twice that with experts, of whom one layout takes up to 30 % more or less by its software. [1]"""
LOOSELY = np.array([0.7] * len(TERMS) + [0.3] * 2)
"""How far each may lie from that: standard deviation of its logarithm. [1]"""
TURNS, FIRST, LAST = 8, 0.4, 0.02
"""Reweightings of a cluster; steps of the search in logarithms."""


@dataclass(frozen=True)
class Spreads:
    """What clusters scatter by."""

    terms: dict[str, float]
    scatter: dict[str, float]


@dataclass(frozen=True)
class Averages:
    """A cluster's configurations, repeats averaged."""

    logs: Array
    """(C,)."""
    slopes: Array
    """(C, J)."""
    moe: NDArray[np.bool_]
    """(C,)."""


def spreads(found: list[Cluster]) -> Spreads:
    """Return the likeliest spreads and scatters, found coordinate by coordinate."""
    data = [_averages(cluster) for cluster in found]
    x = np.log(BELIEVED)
    best, step = _cost(x, data), FIRST
    while step > LAST:
        better = False
        for move in (sign * step * unit for unit in np.eye(len(x)) for sign in (1, -1)):
            cost = _cost(x + move, data)
            if cost < best - 1e-4:
                x, best, better = x + move, cost, True
        step = step if better else step / 2
    values = [float(f"{value:.2g}") for value in np.exp(x).tolist()]
    return Spreads(
        dict(zip(TERMS, values[: len(TERMS)], strict=True)),
        dict(zip(SCATTERS, values[len(TERMS) :], strict=True)),
    )


def _averages(cluster: Cluster) -> Averages:
    rows = [cluster.groups == group for group in range(cluster.configurations)]
    moe = np.array([case.moe for case in cluster.runs.cases])
    return Averages(
        np.array([cluster.logs[mine].mean() for mine in rows]),
        np.array([cluster.slopes[mine].mean(axis=0) for mine in rows]),
        np.array([moe[mine].any() for mine in rows]),
    )


def _cost(x: Array, data: list[Averages]) -> float:
    """Minus the logarithm of how likely the runs are, and of what is believed beforehand."""
    wide, (dense, moe) = np.exp(x[: len(TERMS)]), np.exp(x[len(TERMS) :])
    held = (((x - np.log(BELIEVED)) / LOOSELY) ** 2).sum() / 2
    return float(held + sum(_unlikely(one, wide, np.where(one.moe, moe, dense)) for one in data))


def _unlikely(one: Averages, wide: Array, scatter: Array) -> float:
    """The same of one cluster, its multipliers integrated out."""
    slopes, logs = one.slopes / scatter[:, None], one.logs / scatter
    robust, x = np.ones(len(logs)), np.zeros(len(wide))
    for _ in range(TURNS):
        curvature = np.diag(wide**-2.0) + (slopes * robust[:, None]).T @ slopes
        x = np.linalg.solve(curvature, (slopes * robust[:, None]).T @ logs)
        off = np.abs(logs - slopes @ x)
        robust = np.where(off < KNEE, 1.0, KNEE / np.maximum(off, KNEE))
    huber = np.where(off < KNEE, off**2 / 2, KNEE * off - KNEE**2 / 2).sum()
    volume = np.linalg.slogdet(curvature)[1] / 2 + np.log(wide).sum()
    return float(huber + np.log(scatter).sum() + ((x / wide) ** 2).sum() / 2 + volume)
