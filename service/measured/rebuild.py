"""From a measured run to what the cost model prices: a setting and a layout."""

from dataclasses import dataclass

from pydantic import ValidationError

from models.catalogue.collective_constants import links
from models.catalogue.framework_memory import framework, framework_names
from models.cost.setting import Setting
from models.framework import Framework
from models.layout import Layout
from models.profile import Profile
from search.case import Case
from search.check import broken_rules
from service.measured.architectures import architecture_of
from service.measured.layouts import layout_of, workload_of
from service.measured.machines import cluster_of
from service.measured.offloading import offloading
from service.measured.run import MeasuredRun
from service.measured.stacks import stack_of
from service.measured.told import CannotPredict, Told

FRAMEWORKS = {"megatron-core": "megatron", "megatron-2020": "megatron-2021", "meta": "megatron"}
"""Names of the `framework` column that the catalogue has under another name."""
UNASKED = frozenset({"memory", "stages_hold_a_layer"})
"""Rules a run that was launched may break: it may run out of memory, and give the embedding and the loss
chunks of their own."""


@dataclass(frozen=True)
class Rebuilt:
    """A run in the cost model's words."""

    setting: Setting
    layout: Layout


def rebuild(run: MeasuredRun, profile: Profile, told: Told) -> Rebuilt:
    """Rebuild a run; the memory limit is what a process can allocate on its GPU.

    Raises
    ------
    CannotPredict
        When its columns describe nothing that can be priced.
    """
    try:
        return _rebuild(run, profile, told)
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "missing":
            raise
        place = ".".join(map(str, first["loc"]))
        raise CannotPredict(f"{error.title}, {place} {first['input']!r}: {first['msg']}") from error


def _rebuild(run: MeasuredRun, profile: Profile, told: Told) -> Rebuilt:
    architecture = architecture_of(run, told)
    cluster = cluster_of(run, told)
    setting = Setting(
        architecture=architecture,
        cluster=cluster,
        gpus=run.gpus,
        workload=workload_of(run, told),
        profile=profile,
        memory_limit_bytes=cluster.gpu.usable_memory_bytes,
        links=links(cluster),
        framework=_framework(run),
        stack=stack_of(run, told),
    )
    layout = layout_of(run, architecture, told)
    setting = offloading(run, setting, layout, told)
    _check_rules(Case(layout, setting))
    return Rebuilt(setting, layout)


def _framework(run: MeasuredRun) -> Framework:
    """Memory habits of the framework the column names; only a known name is ever looked up."""
    name = FRAMEWORKS.get(run.framework, run.framework)
    if name not in framework_names():
        raise CannotPredict.unknown("framework", run.framework, {*FRAMEWORKS, *framework_names()})
    return framework(name)


def _check_rules(case: Case) -> None:
    """Stop at a layout that breaks a rule `evaluate` tells."""
    for broken in broken_rules(case, UNASKED):
        raise CannotPredict(f"{broken.rule}: {broken.statement} {broken.fix}")
