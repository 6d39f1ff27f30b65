"""Every rule again, on one finished layout, without the solver: all that are broken, with a fix.

The first line of a check's docstring is what the rule demands; it answers with the fix where the
rule is broken, and with nothing where it holds. Sources are in docs/frameworks.md, by section.
"""

import inspect
from collections.abc import Container

from models.cost.memory.stage_bytes import peak_bytes
from models.cost.setting import Setting
from models.cost.table import LayoutTable
from models.estimate import BrokenRule
from models.layout import SCHEDULES, Layout, LayoutChoice
from search.case import Case, Check, one_of, padded
from search.check_pipeline import PIPELINE_CHECKS
from search.check_shapes import SHAPE_CHECKS
from search.groups import grids, same_groups
from search.recompute import absent_modules


def broken_rules(case: Case, unasked: Container[str] = ()) -> list[BrokenRule]:
    """Return every rule the layout breaks, in the order the search counts by; but the unasked ones."""
    fixes = ((check, check(case)) for check in CHECKS if check.__name__ not in unasked)
    return [
        BrokenRule(rule=check.__name__, statement=statement(check), framework="any", fix=fix)
        for check, fix in fixes
        if fix is not None
    ]


def statement(check: Check) -> str:
    """Return what a rule demands."""
    return (inspect.getdoc(check) or "").partition("\n")[0]


def schedule_fits_stages(case: Case) -> str | None:
    """The schedule is none exactly when pp is 1; vpp is 2 or more interleaved, 2 under the Vs, else 1."""
    layout = case.layout
    if (layout.schedule == "none") != (layout.pp == 1):
        return "Use schedule none." if layout.pp == 1 else one_of("schedule", SCHEDULES[1:])
    if layout.schedule in ("zb-v", "dualpipe-v"):
        return None if layout.vpp == 2 else f"Use vpp 2: {layout.schedule} runs two chunks a stage."
    if (layout.schedule == "interleaved") != (layout.vpp > 1):
        return "Use vpp 1, or the interleaved schedule with vpp of at least 2."
    return None


def sharding_group_divides(case: Case) -> str | None:
    """The group ZeRO shards inside (hsdp_shard) divides dp * cp."""
    layout = case.layout
    ranks = layout.dp * layout.cp
    if layout.hsdp_shard is None or ranks % layout.hsdp_shard == 0:
        return None
    return one_of("hsdp_shard", (d for d in range(1, ranks + 1) if ranks % d == 0))


def replicas_divide_batch(case: Case) -> str | None:
    """The data-parallel degree divides the global batch."""
    batch, dp = case.setting.workload.global_batch, case.layout.dp
    if batch % dp == 0:
        return None
    return f"Use a global batch that is a multiple of {dp}, such as {padded(batch, dp)}."


def experts_divide_stage(case: Case) -> str | None:
    """The expert grid fits the stage: etp * ep divides tp * cp * dp."""
    layout = case.layout
    ranks = layout.tp * layout.cp * layout.dp
    if ranks % (layout.etp * layout.ep) == 0:
        return None
    experts = case.architecture.moe.experts if case.architecture.moe else 1
    fits = (d for d in range(1, experts + 1) if experts % d == 0 and ranks % (layout.etp * d) == 0)
    return one_of("ep", fits)


def pipeline_groups_agree(case: Case) -> str | None:
    """In a mixture of experts with pp > 1, an order not ending in pp needs dp = edp and one pipeline grid."""
    layout = case.layout
    if case.architecture.moe is None or layout.pp == 1:
        return None
    dense, expert = (grid["pp"] for grid in grids(layout, layout.rank_order))
    outermost = dense == expert == layout.gpus // layout.pp
    if outermost or (layout.dp == layout.edp and dense == expert):
        return None
    return "Use the rank order tp-cp-ep-dp-pp."


def pipeline_keeps_weights(case: Case) -> str | None:
    """Pipeline stages go with ZeRO 2 at most."""
    return None if case.layout.pp == 1 or case.layout.zero <= 2 else "Use zero 0, 1 or 2, or pp 1."


def weight_gather_needs_zero_3(case: Case) -> str | None:
    """Keeping gathered weights means something under ZeRO 3 only."""
    layout = case.layout
    return None if layout.zero == 3 or layout.weight_gather == "per_pass" else "Use weight_gather per_pass."


def gradient_reduce_needs_zero_2(case: Case) -> str | None:
    """Reducing gradients after every micro-batch means something under ZeRO 2 and 3 only."""
    layout = case.layout
    return None if layout.zero >= 2 or layout.gradient_reduce == "once" else "Use gradient_reduce once."


def sharding_group_needs_zero(case: Case) -> str | None:
    """Sharding inside groups (hsdp_shard) means something under ZeRO 1 to 3 only."""
    layout = case.layout
    return None if layout.hsdp_shard is None or layout.zero >= 1 else "Use zero 1, 2 or 3, or no hsdp_shard."


def recompute_covers_what_it_names(case: Case) -> str | None:
    """Recomputed layers are counted under full recompute, modules named under selective, if they exist."""
    layout = case.layout
    for name in ("recompute_layers", "recompute_stage_layers"):
        if getattr(layout, name) is not None and layout.recompute != "full":
            return f"Use recompute full, or leave {name} out."
    if layout.recompute_modules != ("core_attn",) and layout.recompute != "selective":
        return "Use recompute selective, or leave recompute_modules out."
    absent = absent_modules(layout.recompute_modules, case.architecture)
    return f"Leave out {', '.join(absent)}: the architecture has none." if absent else None


def forbid(case: Case) -> str | None:
    """The request forbids it."""
    matched = any(agrees(case.layout, choice, case.setting) for choice in case.forbidden)
    return "Change one of the knobs that forbid states." if matched else None


def memory(case: Case) -> str | None:
    """The heaviest stage fits the memory limit."""
    peak = int(peak_bytes(LayoutTable.of([case.layout]), case.setting)[0])
    limit = case.setting.memory_limit_bytes
    if peak <= limit:
        return None
    return (
        f"The heaviest stage takes {peak} bytes, {peak - limit} over the limit of {limit}: "
        "shard more (tp, pp, zero), recompute more, or use a smaller micro_batch."
    )


CHECKS: tuple[Check, ...] = (
    schedule_fits_stages,
    recompute_covers_what_it_names,
    *SHAPE_CHECKS,
    sharding_group_divides,
    replicas_divide_batch,
    experts_divide_stage,
    pipeline_groups_agree,
    pipeline_keeps_weights,
    weight_gather_needs_zero_3,
    gradient_reduce_needs_zero_2,
    sharding_group_needs_zero,
    *PIPELINE_CHECKS,
    forbid,
    memory,
)


def agrees(layout: Layout, choice: LayoutChoice, setting: Setting) -> bool:
    """Whether the layout agrees with a partial one in every stated knob; rank orders by their groups."""
    stated = choice.model_dump(exclude_none=True, exclude={"rank_order"})
    if any(getattr(layout, name) != value for name, value in stated.items()):
        return False
    moe = setting.architecture.moe is not None
    return choice.rank_order is None or same_groups(layout, choice.rank_order, moe=moe)
