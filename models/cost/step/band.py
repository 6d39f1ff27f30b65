"""The band around a predicted step time, and what of the prediction is extrapolated.

A band holds nine in ten runs of sources that were no part of the fit: split conformal prediction on the
logarithm of the time (V. Vovk et al., "Algorithmic learning in a random world", 2005, chapter 2), wider
where measured runs are few.
"""

import math

import numpy as np
from numpy.typing import NDArray

from models.bands import Kind
from models.cost.setting import Setting
from models.layout import Layout
from models.rates import ByGeneration, Rates
from models.stack import Fp8Recipe
from models.workload import LOW_PRECISIONS, Precision

Array = NDArray[np.float64]

UNTRAINED: frozenset[Precision] = frozenset({"fp32"})
"""Precisions no run of the fit trains in: their products take the rates of 16 bits."""
UNSCALED: frozenset[Fp8Recipe] = frozenset({"rowwise"})
"""Recipes no run of the fit scales by: their cost is a belief."""


def step_band(seconds: float, setting: Setting, layout: Layout) -> tuple[float, float] | None:
    """Lower and upper end of the band around a step time; none where the profile has no band. [s].

    t exp(-w), t exp(w)
    """
    bands = setting.profile.bands
    if bands is None:
        return None
    wide = math.exp(bands.widest(kinds_of(setting, layout)))
    return seconds / wide, seconds * wide


def conformal(off: Array, share: float) -> float:
    """Half-width that holds a share of runs not seen: the ceil((n + 1) share)-th smallest of n misses. [1].

    Parameters
    ----------
    off
        |log(predicted / measured)| of runs whose source was left out, (n,). [1]

    Limits
    ------
    With fewer than share / (1 - share) runs, the largest of them: too few to promise more.

    Examples
    --------
    >>> conformal(np.arange(1.0, 20.0), 0.9)
    18.0
    """
    rank = math.ceil((len(off) + 1) * share)
    return float(np.sort(off)[min(rank, len(off)) - 1])


def kinds_of(setting: Setting, layout: Layout) -> tuple[Kind, ...]:
    """Return what kinds of run a layout is."""
    found: list[Kind] = ["moe" if setting.architecture.moe else "dense"]
    if layout.cp > 1:
        found.append("context_parallel")
    if setting.profile.rates and unmeasured(setting, setting.profile.rates):
        found.append("unmeasured")
    return tuple(found)


def unmeasured(setting: Setting, rates: Rates) -> tuple[str, ...]:
    """Return, in words, which of a question's rates no measured run has told."""
    gpu, precision, stack = setting.cluster.gpu, setting.workload.precision, setting.stack
    found = []
    if precision in UNTRAINED or not products(setting, rates).knows(gpu.generation):
        found.append(f"{precision} matrix products on this generation of GPUs ({gpu.generation})")
    kernel = stack.attention_kernel
    if kernel != "unfused" and not rates.attention.of(kernel).knows(gpu.generation):
        found.append(f"the {kernel} attention kernel on this generation of GPUs ({gpu.generation})")
    if stack.fp8_recipe in UNSCALED:
        found.append(f"the {stack.fp8_recipe} scaling of low-precision products")
    return tuple(found)


def products(setting: Setting, rates: Rates) -> ByGeneration:
    """Return the table that the rate of a precision's products is read from."""
    precision = setting.workload.precision
    if precision not in LOW_PRECISIONS:
        return rates.matmul_16
    return rates.matmul_8 if precision == "fp8" else rates.matmul_4


def band_warnings(setting: Setting, layout: Layout) -> tuple[str, ...]:
    """Return what a reader should know of how sure a step time is."""
    rates = setting.profile.rates
    if rates is None or setting.profile.bands is None:
        return ()
    own = setting.profile.bands.own
    only = "only own runs tell {}" if "unmeasured" in own else "no measured run tells {}; the band is wide"
    found = [f"Extrapolated: {only.format(what)}." for what in unmeasured(setting, rates)]
    if setting.architecture.moe is not None and setting.stack.release is None and "moe" not in own:
        found.append(
            "One mixture-of-experts layout takes up to 30 % more or less by its software: the band is wide."
        )
    if layout.cp > 1 and "context_parallel" not in own:
        found.append("Few measured runs use context parallelism: the band is wide.")
    return tuple(found)
