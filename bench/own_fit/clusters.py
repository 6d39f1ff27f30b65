"""Published runs as clusters: those of one source on one type of GPU, predicted without their source."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rate_fit.runs import FOLDS, NAME, Runs

from models.catalogue.own_runs import moved_by
from models.catalogue.profiles import coefficients, with_values
from service.measured.cases import predict
from service.measured.own_runs import moved_values

Array = NDArray[np.float64]
STEP = 1e-3
"""Difference a slope is reckoned by. [1]"""


@dataclass(frozen=True)
class Cluster:
    """Runs of one source and GPU, and how the profile fitted without the source misses them."""

    source: str
    gpu: str
    runs: Runs
    base: dict[str, float]
    """Coefficients as fitted without the source."""
    groups: NDArray[np.int64]
    """Number of each run's configuration, (N,)."""
    logs: Array
    """log(predicted / measured), (N,)."""
    slopes: Array
    """How it moves with each term's logarithm, (N, J)."""

    @property
    def configurations(self) -> int:
        """Different configurations. [1]."""
        return int(self.groups.max()) + 1


def clusters(runs: Runs, folds: dict[str, dict[str, float]]) -> list[Cluster]:
    """Cut the runs into clusters, by source and GPU."""
    labels = [(FOLDS["source"](case), case.setting.cluster.gpu.name) for case in runs.cases]
    found = []
    for source, gpu in sorted(set(labels)):
        rows = tuple(row for row, label in enumerate(labels) if label == (source, gpu))
        found.append(_cluster(source, gpu, runs.some(rows), folds[source]))
    return found


def _cluster(source: str, gpu: str, runs: Runs, fold: dict[str, float]) -> Cluster:
    base = {name: one.value for name, one in coefficients(NAME).items()} | fold
    order = {name: place for place, name in enumerate(Counter(case.group for case in runs.cases))}
    groups = np.array([order[case.group] for case in runs.cases])
    logs = runs.log_errors(base)
    return Cluster(source, gpu, runs, base, groups, logs, _slopes(runs, base, logs))


def _slopes(runs: Runs, base: dict[str, float], logs: Array) -> Array:
    kernels = [case.setting.stack.attention_kernel for case in runs.cases]
    terms = moved_by(runs.cases[0].setting.cluster.gpu.generation, kernels, base)
    found = np.zeros((len(logs), len(terms)))
    for place, term in enumerate(terms):
        step = -STEP if term.high < STEP else STEP
        x = step * np.eye(len(terms))[place]
        profile = with_values(NAME, base | moved_values(terms, x, base))
        found[:, place] = (np.log(predict(runs.cases, profile) / runs.measured) - logs) / step
    return found
