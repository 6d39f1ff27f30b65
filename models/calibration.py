"""A cluster's own measured runs and what they make of the calibrated profile: what a request may carry."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from models.bands import HalfWidth, Kind
from models.base import Count, Schema
from models.workload import Precision

FORMAT = "layout-search-calibration-1"
MOST_RUNS = 200
"""Runs a request may carry; a file of them on the command line may hold more."""
Cell = str | int | float | bool | None
Name = Annotated[str, Field(min_length=1, max_length=100)]
Text = Annotated[str, Field(max_length=1000)]
Positive = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
Spread = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]
Size = Annotated[float, Field(ge=0, le=1e30, allow_inf_nan=False)]
Finite = Annotated[float, Field(ge=-1e30, le=1e30, allow_inf_nan=False)]


class OwnRuns(Schema):
    """Measured runs of the caller's own, adapted to before the question is answered."""

    runs: Annotated[tuple[dict[Name, Cell], ...], Field(min_length=1, max_length=MOST_RUNS)]
    """One object a run, of one type of GPU. Its fields are the columns of `bench/data/runs.csv`; what may be
    blank there may be left out or null."""


class LeftOut(Schema):
    """A run that was not adapted to."""

    id: Text
    reason: Text


class Misses(Schema):
    """Relative errors of the step time over the runs used."""

    mean: Size
    """Mean absolute error. [1]"""
    median: Size
    """Median absolute error. [1]"""
    bias: Finite
    """Mean signed error; positive predicts too much. [1]"""


class MissesTold(Schema):
    """How the error of the runs used changed."""

    before: Misses
    """By the profile as it stands."""
    after: Misses
    """By the adapted one: the runs it was adapted to, so no test of it."""
    left_one_out: Misses
    """Each configuration by what the others make of the profile: what a run not yet made may expect."""


class AdaptedTerm(Schema):
    """One thing the runs may move, and how far they moved it."""

    name: Name
    meaning: Text
    unit: Literal["1"] = "1"
    default: Positive = 1.0
    adapted: Positive
    """Multiplier of every coefficient it moves. [1]"""
    prior_spread: Spread
    """Standard deviation believed beforehand, of the multiplier's logarithm. [1]"""
    posterior_spread: Spread
    """What the runs leave of it; the same where they say nothing. [1]"""
    source: Text
    """Where the prior's spread comes from."""


class AdaptedCoefficient(Schema):
    """A coefficient of the profile as adapted: what a price is reckoned with."""

    name: Name
    unit: Literal["1", "s", "B"]
    default: Positive
    """As the profile has it."""
    adapted: Positive


class AdaptedBand(Schema):
    """How far off a step time of one kind of run may be."""

    kind: Kind
    configurations: Annotated[int, Field(ge=0, le=10**9)]
    """Own configurations of that kind."""
    default: HalfWidth
    """Half-width as the profile has it, of the logarithm of the time. [1]"""
    adapted: HalfWidth


class Calibration(Schema):
    """What own runs make of the calibrated profile, as `layout-search validate --fit` writes it."""

    format: Literal["layout-search-calibration-1"] = "layout-search-calibration-1"
    cost_model: Name
    """Version of the cost model it was made with; another refuses it."""
    service: Name
    """Version of the service that made it."""
    gpu: Name
    """Catalogue name of the GPU the runs were made on; another refuses it."""
    precisions: Annotated[tuple[Precision, ...], Field(min_length=1, max_length=8)]
    """Precisions of the runs used."""
    most_gpus: Count
    """GPUs of the largest run used."""
    configurations: Count
    """Different configurations among the runs used; repeats of one count as one."""
    used: Annotated[tuple[Text, ...], Field(min_length=1, max_length=100_000)]
    """The runs adapted to, by their ids."""
    left_out: Annotated[tuple[LeftOut, ...], Field(max_length=100_000)] = ()
    """The runs that were not, each with the reason."""
    terms: Annotated[tuple[AdaptedTerm, ...], Field(max_length=100)]
    coefficients: Annotated[tuple[AdaptedCoefficient, ...], Field(max_length=100)]
    bands: Annotated[tuple[AdaptedBand, ...], Field(max_length=10)]
    errors: MissesTold


def shape_meant(stated: object) -> str:
    """Name the shape a calibration is stated in: what a fit wrote says its format, all else is runs.

    >>> shape_meant({"runs": []}), shape_meant({"format": "layout-search-calibration-1"})
    ('OwnRuns', 'Calibration')
    """
    if isinstance(stated, Calibration):
        return "Calibration"
    written = isinstance(stated, Mapping) and bool({"format", "coefficients"} & stated.keys())
    return "Calibration" if written else "OwnRuns"


CalibrationRequest = Annotated[
    Annotated[Calibration, Tag("Calibration")] | Annotated[OwnRuns, Tag("OwnRuns")],
    Discriminator(shape_meant),
]
