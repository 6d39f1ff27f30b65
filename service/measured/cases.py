"""Measured runs made ready to be priced many times: everything rebuilt once, only the pricing repeated.

A fit prices the same runs under hundreds of profiles. What does not hang on the profile is done here,
once: the setting, the layout, and which runs one call of the cost model can price together.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import cast

import numpy as np
from numpy.typing import NDArray

from models.base import Schema
from models.cost.setting import Setting
from models.cost.splits import balanced_split
from models.cost.stages import Stages, stage_kinds
from models.cost.step.step_time import Traffic, all_traffic, step_time
from models.cost.table import COLUMNS, SHARED, LayoutTable
from models.layout import Layout
from models.profile import Profile
from service.measured.rebuild import Rebuilt, rebuild
from service.measured.run import MeasuredRun
from service.measured.told import CannotPredict, Told

Array = NDArray[np.float64]

ANY_NAME = "measured"
"""Name of every rebuilt architecture and cluster: two runs are the same question whatever theirs is."""


@dataclass(frozen=True, eq=False)
class Case:
    """A measured run and what prices it."""

    run: MeasuredRun
    setting: Setting
    """Equal questions share one object."""
    layout: Layout
    table: LayoutTable
    """The layout, one row."""

    @property
    def id(self) -> str:
        """The row's name. [-]."""
        return self.run.id

    @property
    def source(self) -> str:
        """The source's short name. [-]."""
        return self.run.family

    @property
    def model(self) -> str | None:
        """What the file calls the model: to tell runs apart, never to predict them. [-]."""
        return self.run.model_name

    @property
    def gpu(self) -> str:
        """The file's label of the GPU. [-]."""
        return self.run.gpu

    @property
    def precision(self) -> str:
        """As the file states it. [-]."""
        return self.run.precision

    @property
    def moe(self) -> bool:
        """Whether it has experts. [-]."""
        return bool(self.run.n_experts)

    @property
    def confidence(self) -> str:
        """`high`, `medium` or `low`. [-]."""
        return self.run.confidence

    @property
    def group(self) -> str:
        """Name shared by the runs of one configuration; its own where it has none. [-]."""
        return self.run.group or self.run.id

    @property
    def measured_step_s(self) -> float | None:
        """Measured time of an optimizer step. [s]."""
        return self.run.measured_step_s

    @property
    def gpus(self) -> int:
        """GPUs of the run. [1]."""
        return self.run.gpus


def cases_of(runs: Iterable[MeasuredRun], profile: Profile) -> list[Case]:
    """Rebuild every run that can be priced, in the order given."""
    cases = []
    for run in runs:
        try:
            cases.append(case_of(run, profile, Told()))
        except CannotPredict:
            continue
    return list(shared(cases))


def shared(cases: Iterable[Case]) -> tuple[Case, ...]:
    """Let equal questions share one object, as what is priced together is told by it."""
    known: dict[Setting, Setting] = {}
    return tuple(replace(case, setting=known.setdefault(case.setting, case.setting)) for case in cases)


def case_of(run: MeasuredRun, profile: Profile, told: Told) -> Case:
    """Rebuild one run; CannotPredict says why where it cannot be priced."""
    rebuilt = rebuild(run, profile, told)
    return Case(run, _unnamed(rebuilt.setting), rebuilt.layout, _table(rebuilt))


def predict(cases: Sequence[Case], profile: Profile) -> Array:
    """Step time of every case under a profile, (N,). [s].

    Runs that ask the same question are priced in one table, and equal layouts once.
    """
    seconds = np.empty(len(cases))
    for batch in _batches(tuple(cases)):
        setting = replace(batch.setting, profile=profile)
        stages, traffic = batch.sends(profile)
        seconds[batch.places] = step_time(batch.table, stages, traffic, setting).total[batch.rows]
    return seconds


class Reads:
    """Coefficients that remember which of them were asked for: what was reckoned hangs on those alone."""

    def __init__(self, told: Schema) -> None:
        self._told = told
        self._read: dict[str, object] = {}
        self._within: dict[str, Reads] = {}

    def __getattr__(self, name: str) -> object:
        """Return the coefficient, or the table of them, and note what is asked of either."""
        value = getattr(self._told, name)
        if isinstance(value, Schema):
            return self._within.setdefault(name, Reads(value))
        return self._read.setdefault(name, value)

    def same_for(self, other: Schema | None) -> bool:
        """Whether others would have answered the same. [-]."""
        return (
            other is not None
            and all(getattr(other, name) == value for name, value in self._read.items())
            and all(part.same_for(getattr(other, name)) for name, part in self._within.items())
        )


@dataclass
class Batch:
    """Cases that one call prices."""

    setting: Setting
    table: LayoutTable
    """Its different layouts, (M,)."""
    places: NDArray[np.int64]
    """Where among all cases each of its cases stands, (K,)."""
    rows: NDArray[np.int64]
    """Row of the table each of its cases is, (K,)."""
    _sent: tuple[Reads, Stages, Traffic] | None = None

    def sends(self, profile: Profile) -> tuple[Stages, Traffic]:
        """Kinds of stages and what they send: reckoned again where a coefficient they hang on has changed.

        Few do, and placing the groups takes most of the time of a price.
        """
        if self._sent is None or not self._sent[0].same_for(profile):
            reads = Reads(profile)
            setting = replace(self.setting, profile=cast("Profile", reads))
            stages = stage_kinds(self.table, setting)
            self._sent = (reads, stages, all_traffic(self.table, stages, setting))
        return self._sent[1:]


@lru_cache(maxsize=128)
def _batches(cases: tuple[Case, ...]) -> tuple[Batch, ...]:
    found: dict[tuple[object, ...], list[int]] = {}
    for place, case in enumerate(cases):
        knobs = (getattr(case.table, name) for name in ("orders", *SHARED))
        found.setdefault((id(case.setting), *knobs), []).append(place)
    return tuple(_batch([cases[place] for place in places], places) for places in found.values())


def _batch(cases: list[Case], places: list[int]) -> Batch:
    table = LayoutTable.joined([case.table for case in cases])
    grid = np.stack([getattr(table, name) for name in COLUMNS])
    _, first, rows = np.unique(grid, axis=1, return_index=True, return_inverse=True)
    return Batch(cases[0].setting, table.take(first), np.array(places), rows.reshape(-1))


def _unnamed(setting: Setting) -> Setting:
    return replace(
        setting,
        architecture=setting.architecture.model_copy(update={"name": ANY_NAME}),
        cluster=setting.cluster.model_copy(update={"name": ANY_NAME}),
    )


def _table(rebuilt: Rebuilt) -> LayoutTable:
    """One row; a split that is the balanced one is left to the cost model, which makes the same."""
    table = LayoutTable.of([rebuilt.layout])
    layout, layers = rebuilt.layout, rebuilt.setting.architecture.layers
    balanced = layout.stage_layers == balanced_split(layers, layout.pp * layout.vpp)
    return replace(table, stage_layers=None) if balanced else table
