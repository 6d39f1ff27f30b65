"""Least squares with beliefs: coefficients that explain the runs best, pulled toward what physics expects.

Minimises, over x (logarithms of the coefficients),

    sum_i w_i H((log predicted_i(x) - log measured_i) / s) + 1/2 sum_j ((x_j - prior_j) / spread_j)^2

H is Huber's: squares up to `KNEE` scales, straight beyond, so that a run that is wrong by half pulls no
harder than one that is wrong by a tenth. Gauss-Newton with Levenberg's damping; the slopes are reckoned
by differences and kept up to date by Broyden's rule between.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Rows = tuple[int, ...]
EVERY: Rows = ()
"""All rows."""
Residuals = Callable[[Array, Rows], Array]
"""From x, (J,), to log(predicted / measured) of some runs."""

SCALE = 0.06
"""s: repeats of one configuration scatter 4 to 6 % around their median. [1]"""
KNEE = 1.5
STEP = 1e-3
"""Difference a slope is reckoned by. [1]"""
FARTHEST = 0.5
"""Largest move of a coefficient's logarithm in one step. [1]"""
ENOUGH = 0.02
"""Gain of a round that is next to nothing, of a cost of some hundreds. [1]"""
STEPS, TRIES = 30, 4
"""Steps of a round at most, and dampings tried for one."""


@dataclass(frozen=True)
class Beliefs:
    """Where each coefficient is believed to be, as logarithms; (J,) each."""

    names: tuple[str, ...]
    prior: Array
    spread: Array
    low: Array
    high: Array


@dataclass(frozen=True)
class Found:
    """Where a search ended."""

    x: Array
    residuals: Array
    """Of every run, fitted to or not, (N,)."""
    slopes: Array
    """(N, J)."""


def search(
    residuals: Residuals,
    beliefs: Beliefs,
    weights: Array,
    start: Found | None = None,
    anew: int = 4,
    enough: float = ENOUGH,
) -> Found:
    """Search from the beliefs, or from where another search ended, with its slopes.

    Where it settles, slopes are reckoned anew, so often at most, until a round gains less than `enough`.
    """
    if start is None:
        found = residuals(beliefs.prior, EVERY)
        start = Found(beliefs.prior, found, slopes_at(residuals, beliefs.prior, found, beliefs, None))
    here, known = start, start.slopes != 0
    for turn in range(anew + 1):
        before = cost(here.residuals, here.x, beliefs, weights)
        here = _settled(residuals, beliefs, weights, here, known, enough)
        if turn == anew or (turn and before - cost(here.residuals, here.x, beliefs, weights) < enough):
            break
        here = replace(here, slopes=slopes_at(residuals, here.x, here.residuals, beliefs, known))
    return here


def _settled(
    residuals: Residuals,
    beliefs: Beliefs,
    weights: Array,
    start: Found,
    known: NDArray[np.bool_],
    enough: float,
) -> Found:
    """Move until a move is small or none lowers the cost; Broyden's rule keeps the slopes."""
    x, found, slopes, damping = start.x, start.residuals, start.slopes, 1e-3
    here = cost(found, x, beliefs, weights)
    for _ in range(STEPS):
        moved = _move(found, x, slopes, beliefs, weights, residuals, here, damping)
        if moved is None:
            break
        new, then, damping = moved
        step, gained = new - x, here - cost(then, new, beliefs, weights)
        bent = np.outer(then - found - slopes @ step, step) / (step @ step)
        slopes = slopes + np.where(known, bent, 0.0)
        x, found, here = new, then, here - gained
        if gained < enough / 10:
            break
    return Found(x, found, slopes)


def slopes_at(
    residuals: Residuals, x: Array, found: Array, beliefs: Beliefs, known: NDArray[np.bool_] | None
) -> Array:
    """How every residual moves with every coefficient, (N, J); only where it is known to do so."""
    slopes = np.zeros((len(found), len(x)))
    for place, unit in enumerate(np.eye(len(x))):
        rows = tuple(np.flatnonzero(known[:, place]).tolist()) if known is not None else EVERY
        step = -STEP if x[place] + STEP > beliefs.high[place] else STEP
        moved = residuals(x + step * unit, rows)
        mine = list(rows) if rows != EVERY else slice(None)
        slopes[mine, place] = (moved - found[mine]) / step
    return slopes


def cost(found: Array, x: Array, beliefs: Beliefs, weights: Array) -> float:
    """What is minimised."""
    off = np.abs(found) / SCALE
    huber = np.where(off < KNEE, off**2 / 2, KNEE * off - KNEE**2 / 2)
    return float(weights @ huber + (((x - beliefs.prior) / beliefs.spread) ** 2).sum() / 2)


def robust_weights(found: Array, weights: Array) -> Array:
    """What a run's square counts where it stands, by Huber, (N,). [1]."""
    off = np.abs(found) / SCALE
    return np.asarray(weights * np.where(off < KNEE, 1.0, KNEE / np.maximum(off, KNEE)) / SCALE**2)


def _move(
    found: Array,
    x: Array,
    slopes: Array,
    beliefs: Beliefs,
    weights: Array,
    residuals: Residuals,
    here: float,
    damping: float,
) -> tuple[Array, Array, float] | None:
    """A step that lowers the cost, its residuals and the damping that gave it; none where nothing does."""
    robust = robust_weights(found, weights)
    curvature = (slopes * robust[:, None]).T @ slopes + np.diag(beliefs.spread**-2.0)
    slope = (slopes * robust[:, None]).T @ found + (x - beliefs.prior) / beliefs.spread**2
    for _ in range(TRIES):
        step = -np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), slope)
        new = np.clip(x + np.clip(step, -FARTHEST, FARTHEST), beliefs.low, beliefs.high)
        if not (new != x).any():
            return None
        then = residuals(new, EVERY)
        if cost(then, new, beliefs, weights) < here:
            return new, then, max(damping / 4, 1e-6)
        damping *= 8
    return None
