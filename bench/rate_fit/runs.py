"""The measured runs as a fit sees them: weights, folds, and residuals under values of the coefficients."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from measured_runs import claimed, load
from numpy.typing import NDArray

from models.catalogue.profiles import coefficients, with_values
from service.measured.cases import Case, predict
from service.measured.solve import EVERY, Beliefs, Residuals, Rows

Array = NDArray[np.float64]
NAME = "calibrated"
DIGITS = 4
"""Figures a written value keeps."""


@dataclass(frozen=True)
class Runs:
    """Runs of confidence high or medium whose step time is known."""

    cases: tuple[Case, ...]
    measured: Array
    """(N,). [s]"""
    weights: Array
    """One for each configuration, shared by its repeats, (N,). [1]"""

    @classmethod
    def read(cls) -> "Runs":
        """Read the file."""
        cases = tuple(claimed(load()))
        repeats = Counter(case.group for case in cases)
        return cls(
            cases,
            np.array([case.measured_step_s for case in cases], dtype=np.float64),
            np.array([1 / repeats[case.group] for case in cases]),
        )

    def labels(self, of: Callable[[Case], str]) -> NDArray[np.str_]:
        """A word for each run, (N,)."""
        return np.array([of(case) for case in self.cases])

    def log_errors(self, values: dict[str, float]) -> Array:
        """log(predicted / measured) of every run under values of the fitted coefficients, (N,)."""
        return np.asarray(np.log(predict(self.cases, with_values(NAME, values)) / self.measured))

    def residuals(self, names: tuple[str, ...]) -> Residuals:
        """The same of the coefficients' logarithms, of some rows."""

        def found(x: Array, rows: Rows) -> Array:
            runs = self if rows == EVERY else self.some(rows)
            return runs.log_errors(dict(zip(names, np.exp(x).tolist(), strict=True)))

        return found

    def some(self, rows: Rows) -> "Runs":
        """Return some of the runs."""
        chosen = list(rows)
        return Runs(tuple(self.cases[row] for row in rows), self.measured[chosen], self.weights[chosen])


FOLDS: dict[str, Callable[[Case], str]] = {
    "source": lambda case: case.source,
    "model": lambda case: f"{case.source} {case.model}",
    "generation": lambda case: case.setting.cluster.gpu.generation.partition("-")[0],
}
"""What is left out at once: a source, a model of one source, or a generation of GPUs."""


def beliefs() -> Beliefs:
    """Return what is believed of every coefficient that has a prior."""
    known = {name: one for name, one in coefficients(NAME).items() if one.prior is not None}

    def column(of: str) -> Array:
        return np.array([getattr(one, of) for one in known.values()], dtype=np.float64)

    logs = {of: np.log(np.maximum(column(of), 1e-6)) for of in ("prior", "low", "high")}
    return Beliefs(tuple(known), logs["prior"], column("spread"), logs["low"], logs["high"])


def committed() -> dict[str, float]:
    """Return the fitted coefficients as they stand."""
    return {name: one.value for name, one in coefficients(NAME).items() if one.prior is not None}


def rounded(x: Array, names: tuple[str, ...]) -> dict[str, float]:
    """Return values as they are written."""
    return {name: float(f"{value:.{DIGITS}g}") for name, value in zip(names, np.exp(x).tolist(), strict=True)}
