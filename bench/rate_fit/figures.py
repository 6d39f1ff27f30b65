"""How far predictions are off, by what the runs share; and whether layouts come in their order."""

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rate_fit.runs import FOLDS, Runs, beliefs, committed

from models.catalogue.profiles import coefficients, profile
from models.cost.step.band import conformal, kinds_of
from service.measured.order import order

Array = NDArray[np.float64]
COVERED = 0.9
"""Part of unseen runs a band is to hold. [1]"""
WORST = 12


def errors(logs: Array) -> dict[str, float | int]:
    """Mean and median absolute relative error and bias of runs by their log errors."""
    off = np.expm1(logs)
    return {
        "rows": len(logs),
        "mean": round(float(np.abs(off).mean()), 4),
        "median": round(float(np.median(np.abs(off))), 4),
        "bias": round(float(off.mean()), 4),
    }


def once(runs: Runs, logs: Array) -> dict[str, float | int]:
    """The same with each configuration counted once, by the mean of its repeats."""
    groups = defaultdict(list)
    for case, off in zip(runs.cases, np.expm1(logs).tolist(), strict=True):
        groups[case.group].append(off)
    sizes = [float(np.mean(np.abs(values))) for values in groups.values()]
    return {
        "configurations": len(groups),
        "mean": round(float(np.mean(sizes)), 4),
        "median": round(float(np.median(sizes)), 4),
        "bias": round(float(np.mean([np.mean(values) for values in groups.values()])), 4),
    }


def view(runs: Runs, logs: Array) -> dict[str, Any]:
    """Return every figure of one set of predictions."""
    moe, source = runs.labels(lambda c: "moe" if c.moe else "dense"), runs.labels(FOLDS["source"])
    found = order(runs.cases, (runs.measured * np.exp(logs)).tolist())
    return {
        "all": errors(logs),
        "configurations_once": once(runs, logs),
        "dense": errors(logs[moe == "dense"]),
        "moe": errors(logs[moe == "moe"]),
        "by_source": {name: errors(logs[source == name]) for name in sorted(set(source.tolist()))},
        "pairs": {"over_3_percent": found.pairs.model_dump(), "over_8_percent": found.far_pairs.model_dump()},
        "chosen_over_best": {"mean": found.mean_cost, "most": found.most_cost},
        "worst": worst(runs, logs),
    }


def worst(runs: Runs, logs: Array) -> dict[str, float]:
    """Rows that are furthest off, one a configuration."""
    found: dict[str, tuple[str, float]] = {}
    for case, off in sorted(
        zip(runs.cases, np.expm1(logs).tolist(), strict=True), key=lambda pair: -abs(pair[1])
    ):
        found.setdefault(case.group, (case.id, round(off, 3)))
    return dict(list(found.values())[:WORST])


def figures(runs: Runs, folds: dict[str, dict[str, dict[str, float]]]) -> dict[str, Any]:
    """Return the figures of the profile as it stands and of the folds' values on what they left out."""
    fitted = runs.log_errors(committed())
    left_out = {kind: held_out(runs, kind, folds[kind]) for kind in FOLDS}
    return {
        "command": "python bench/fit.py",
        "cost_model": profile("calibrated").version,
        "runs": len(runs.cases),
        "coefficients": len(beliefs().names),
        "fitted": view(runs, fitted),
        "left_out": {kind: view(runs, logs) for kind, logs in left_out.items()},
        "at_a_bound": [
            name
            for name, one in coefficients("calibrated").items()
            if one.prior is not None and not one.low * 1.001 < one.value < one.high * 0.999
        ],
        "band": coverage(runs, left_out["source"]),
    }


def held_out(runs: Runs, kind: str, folds: dict[str, dict[str, float]]) -> Array:
    """Log error of every run under the values fitted without its own fold, (N,)."""
    labels, found = runs.labels(FOLDS[kind]), np.empty(len(runs.cases))
    for name, values in folds.items():
        mine = np.flatnonzero(labels == name)
        found[mine] = runs.some(tuple(mine.tolist())).log_errors(values)
    return found


def bands(runs: Runs, by_source: Array, by_generation: Array) -> dict[str, float]:
    """Half-width of the band of each kind of run: the conformal quantile of misses out of source. [1].

    `unmeasured` takes the generation that was met worst when it was left out: the next may be as bad.
    """
    kinds = [kinds_of(case.setting, case.layout) for case in runs.cases]
    widths = {}
    for kind in sorted({kind for found in kinds for kind in found}):
        mine = np.array([kind in found for found in kinds])
        widths[kind] = conformal(np.abs(by_source[mine]), COVERED)
    generations = runs.labels(FOLDS["generation"])
    widths["unmeasured"] = max(
        conformal(np.abs(by_generation[generations == name]), COVERED) for name in set(generations.tolist())
    )
    return {kind: float(f"{width:.3g}") for kind, width in widths.items()}


def coverage(runs: Runs, logs: Array) -> dict[str, Any]:
    """Part of the runs inside their bands when their source was left out, by kind. [1]."""
    known = profile("calibrated").bands
    assert known is not None
    kinds = [kinds_of(case.setting, case.layout) for case in runs.cases]
    wide = np.array([known.widest(found) for found in kinds])
    inside = np.abs(logs) <= wide
    parts = {"all": inside} | {
        kind: inside[[kind in found for found in kinds]] for kind in sorted({k for f in kinds for k in f})
    }
    return {kind: {"rows": len(part), "inside": round(float(part.mean()), 4)} for kind, part in parts.items()}
