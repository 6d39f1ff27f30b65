"""Adapt the calibrated profile to a cluster's own runs: few multipliers, pulled to 1 where runs are few.

The most probable multipliers exp(x) of the terms of `own-runs.toml`, x ~ N(0, spread^2) beforehand and the
log error of a configuration's step time scattered around what they make of it: with one coefficient of
slope s, n configurations of mean log error r and scatter c,

    x = -s r n / (n s^2 + c^2 / spread^2)

(`service.measured.solve` does the general case.) Repeats of one configuration count as one.

Symbols: N runs, J terms. Logarithms throughout.
"""

import threading
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.catalogue.own_runs import BASE, Moved, moved_by, own_runs_rules
from models.catalogue.profiles import coefficients, with_values
from service.measured.cases import Case, predict
from service.measured.solve import (
    EVERY,
    SCALE,
    Beliefs,
    Found,
    Residuals,
    Rows,
    robust_weights,
    search,
    slopes_at,
)

Array = NDArray[np.float64]

ROUNDS = 1
"""Times the slopes are reckoned anew: a multiplier moves a step's time nearly as a power of it, and a second
time moves none by a thousandth."""
ENOUGH = 1e-3
"""Gain of a round that is next to nothing, of a cost of a few. [1]"""
FELT = 0.01
"""Part of a step that a term must make of some run to be moved at all. [1]"""
LESS, SAME = 0.99, 1e-7
"""How far a coefficient is moved to see if a run hangs on it, and what part of a step none notices. [1]"""
TURNS = 12
"""Reweightings of a configuration left out; they settle in three or four."""


class Stopped(Exception):
    """Nobody waits for the multipliers any more."""


@dataclass(frozen=True)
class Adapted:
    """Where the multipliers ended, and what is then made of the runs."""

    terms: tuple[Moved, ...]
    x: Array
    """Logarithms of the multipliers, (J,)."""
    spread: Array
    """Standard deviation that is left of each, (J,)."""
    before: Array
    """log(predicted / measured) as the profile stands, (N,)."""
    after: Array
    """The same as adapted, (N,)."""
    left_one_out: Array
    """The same as adapted to the other configurations alone, (N,)."""

    def values(self, base: Mapping[str, float]) -> dict[str, float]:
        """Return the coefficients that the terms move, as adapted."""
        return moved_values(self.terms, self.x, base)


def adapt(
    cases: Sequence[Case],
    measured: Array,
    spreads: Mapping[str, float] | None = None,
    scatter: Mapping[str, float] | None = None,
    base: Mapping[str, float] | None = None,
    stop: threading.Event | None = None,
) -> Adapted:
    """Adapt to runs of one type of GPU.

    Parameters
    ----------
    measured
        Step time of each, (N,). [s]
    spreads, scatter
        Of `own-runs.toml` unless given: by term, and of dense and MoE runs.
    base
        Coefficients that are adapted; the profile's unless given.
    stop
        Set by the caller to end it early.

    Raises
    ------
    Stopped
        When it was ended.
    """
    before = {name: one.value for name, one in coefficients(BASE).items()} | dict(base or {})
    terms = _terms(cases, before)
    wide = np.array([(spreads or {}).get(term.name, term.spread) for term in terms])
    if not cases:
        nothing = np.zeros(0)
        return Adapted(terms, np.zeros(len(terms)), wide, nothing, nothing, nothing)
    own = scatter or own_runs_rules().scatter.model_dump()
    unit = SCALE / np.array([own["moe" if case.moe else "dense"] for case in cases])
    beliefs = Beliefs(
        tuple(term.name for term in terms),
        np.zeros(len(terms)),
        wide,
        np.array([term.low for term in terms]),
        np.array([term.high for term in terms]),
    )
    weights, names = _weights(cases)
    residuals = _residuals(cases, measured, unit, terms, before, stop or threading.Event())
    start = _start(residuals, beliefs, unit)
    found = search(residuals, beliefs, weights, start, ROUNDS, ENOUGH)
    return Adapted(
        terms,
        found.x,
        _posterior(found, beliefs, weights),
        start.residuals / unit,
        found.residuals / unit,
        left_one_out(found, beliefs, weights, names) / unit,
    )


def moved_values(terms: Sequence[Moved], x: Array, base: Mapping[str, float]) -> dict[str, float]:
    """Return the coefficients that terms move, each multiplied by its term's exp(x)."""
    by = np.exp(x).tolist()
    return {
        name: base[name] * times for term, times in zip(terms, by, strict=True) for name in term.coefficients
    }


def configuration(case: Case) -> Hashable:
    """What repeats of one configuration share: the group their file states, else the question itself."""
    return case.run.group or (id(case.setting), case.layout)


def left_one_out(found: Found, beliefs: Beliefs, weights: Array, names: NDArray[np.int64]) -> Array:
    """Residual of every run as adapted to the configurations but its own, (N,), in the solver's scale.

    By the slopes where the search ended, each configuration's weight set to nothing in turn: no run is
    priced anew. Exact where the time is a power of the multipliers.

    Parameters
    ----------
    names
        Number of each run's configuration, (N,).
    """
    kept = np.where(names[None, :] == np.arange(names.max() + 1)[:, None], 0.0, weights)
    moves = np.zeros((len(kept), len(found.x)))
    pull = np.diag(beliefs.spread**-2.0)
    for _ in range(TURNS):
        off = found.residuals + moves @ found.slopes.T
        robust = robust_weights(off, kept)
        curvature = np.einsum("cn,nj,nk->cjk", robust, found.slopes, found.slopes) + pull
        toward = (robust * found.residuals) @ found.slopes + found.x / beliefs.spread**2
        free = -np.linalg.solve(curvature, toward[:, :, None])[:, :, 0]
        moves = np.clip(found.x + free, beliefs.low, beliefs.high) - found.x
    off = found.residuals + moves @ found.slopes.T
    return np.asarray(off[names, np.arange(len(names))])


def _start(residuals: Residuals, beliefs: Beliefs, unit: Array) -> Found:
    """Where the profile stands; a term that is next to nothing of any run has no slope, and never moves."""
    here = residuals(beliefs.prior, EVERY)
    slopes = slopes_at(residuals, beliefs.prior, here, beliefs, None)
    felt = (np.abs(slopes / unit[:, None]) >= FELT).any(axis=0)
    return Found(beliefs.prior, here, slopes * felt)


def _terms(cases: Sequence[Case], before: Mapping[str, float]) -> tuple[Moved, ...]:
    """The terms of the runs' GPU, of each the coefficients that some run hangs on: no other is moved."""
    if not cases:
        return moved_by("other", (), before)
    kernels = [case.setting.stack.attention_kernel for case in cases]
    terms = moved_by(cases[0].setting.cluster.gpu.generation, kernels, before)
    kinds = tuple({_kind(case): case for case in reversed(cases)}.values())
    here = predict(kinds, with_values(BASE, before))

    def hangs(name: str) -> bool:
        less = with_values(BASE, {**before, name: before[name] * LESS})
        return bool((np.abs(predict(kinds, less) / here - 1) > SAME).any())

    return tuple(term.without({name for name in term.coefficients if not hangs(name)}) for term in terms)


def _kind(case: Case) -> Hashable:
    """What decides which coefficients a step hangs on: software, precision, what is sent and sharded."""
    setting, layout = case.setting, case.layout
    moe, nodes = setting.architecture.moe is not None, setting.gpus > setting.cluster.gpus_per_node
    return (
        setting.framework,
        setting.stack,
        setting.workload.precision,
        moe,
        nodes,
        layout.zero,
        layout.dp > 1,
    )


def _weights(cases: Sequence[Case]) -> tuple[Array, NDArray[np.int64]]:
    """One for each configuration, shared by its repeats, (N,); and the number of each run's, (N,)."""
    shared = [configuration(case) for case in cases]
    repeats, order = Counter(shared), {name: place for place, name in enumerate(dict.fromkeys(shared))}
    return np.array([1 / repeats[name] for name in shared]), np.array([order[name] for name in shared])


def _residuals(
    cases: Sequence[Case],
    measured: Array,
    unit: Array,
    terms: Sequence[Moved],
    before: Mapping[str, float],
    stop: threading.Event,
) -> Residuals:
    """Log error of some runs of multipliers' logarithms, in the solver's scale."""

    def found(x: Array, rows: Rows) -> Array:
        if stop.is_set():
            raise Stopped
        chosen = list(rows) or list(range(len(cases)))
        profile = with_values(BASE, {**before, **moved_values(terms, x, before)})
        seconds = predict([cases[row] for row in chosen], profile)
        return np.asarray(np.log(seconds / measured[chosen]) * unit[chosen])

    return found


def _posterior(found: Found, beliefs: Beliefs, weights: Array) -> Array:
    """What is left of each spread, (J,): from the curvature where the search ended."""
    robust = robust_weights(found.residuals, weights)
    curvature = (found.slopes * robust[:, None]).T @ found.slopes + np.diag(beliefs.spread**-2.0)
    return np.asarray(np.sqrt(np.diag(np.linalg.inv(curvature))))
