"""The rules of stages, chunks and micro-batches again, on one finished layout.

As in `check`: the first line of a docstring is what the rule demands, the answer is the fix.
Sources are in docs/frameworks.md, sections 3 and 4.
"""

from models.cost.splits import EMPTY_CHUNKS, hold_layers
from search.case import Case, Check, one_of, padded

SHOWN = 8
"""Groups of micro-batches a fix names: the smallest, and all micro-batches as one. [1]"""


def stages_hold_a_layer(case: Case) -> str | None:
    """Stages hold a layer each, chunks too but two interleaved ends: pp * vpp <= layers (interleaved + 2)."""
    layout, layers = case.layout, case.architecture.layers
    loops = layout.schedule == "interleaved"
    if hold_layers(layout.pp, layout.vpp, loops, layers) and all(layout.stage_layers[1:-1]):
        return None
    most = layers + EMPTY_CHUNKS * loops
    return f"Use pp * vpp of at most {most} and at least one layer in every chunk between the ends."


def split_covers_the_chunks(case: Case) -> str | None:
    """Where the request states stage_layers, pp * vpp is the number of chunks it names."""
    layout, chunks = case.layout, len(case.layout.stage_layers)
    return None if layout.pp * layout.vpp == chunks else f"Use pp * vpp of {chunks}."


def micro_batches_divide_batch(case: Case) -> str | None:
    """micro_batch * dp divides the global batch."""
    layout, batch = case.layout, case.setting.workload.global_batch
    if batch % (layout.micro_batch * layout.dp) == 0:
        return None
    each = batch // layout.dp
    return one_of("micro_batch", (d for d in range(1, min(each, 64) + 1) if each % d == 0))


def group_holds_the_stages(case: Case) -> str | None:
    """Interleaving's group of micro-batches is at least pp."""
    layout = case.layout
    if layout.schedule != "interleaved" or layout.micro_batch_group >= layout.pp:
        return None
    working = _groups(_micro_batches(case), layout.pp)
    return f"Use a micro_batch_group of at least {layout.pp}. {working}".rstrip()


def interleaving_fills_groups(case: Case) -> str | None:
    """Interleaving needs a full group of micro-batches, and what is left over to be none or at least pp."""
    layout, count = case.layout, _micro_batches(case)
    group, pp = layout.micro_batch_group, layout.pp
    if layout.schedule != "interleaved" or _fills(count, group, pp):
        return None
    if count < pp:
        return f"{_more_micro_batches(case, pp)} Only torchtitan interleaves fewer than pp."
    least = padded(count, group)
    filled = f"or a multiple of {group} micro-batches, such as {least}: {_batch_of(case, least)}"
    return f"{_groups(count, pp)[:-1]}, {filled}."


def split_schedules_fill_stages(case: Case) -> str | None:
    """ZB-H1 needs at least pp micro-batches, ZB-V 2 pp - 1, DualPipe and DualPipe-V 2 pp."""
    layout = case.layout
    pp, twice = layout.pp, 2 * layout.pp
    least = {"zb-h1": pp, "zb-v": twice - 1, "dualpipe": twice, "dualpipe-v": twice}.get(layout.schedule, 0)
    return None if _micro_batches(case) >= least else _more_micro_batches(case, least)


def dualpipe_meets_in_the_middle(case: Case) -> str | None:
    """Dualpipe sends half of the micro-batches from each end: their number and pp are even."""
    layout, count = case.layout, _micro_batches(case)
    if layout.schedule != "dualpipe" or (layout.pp % 2 == 0 and count % 2 == 0):
        return None
    if layout.pp % 2:
        return "Use schedule dualpipe-v, or an even pp."
    return f"Use an even number of micro-batches, such as {count + 1}: {_batch_of(case, count + 1)}."


def weight_halves_keep_activations(case: Case) -> str | None:
    """ZB-H1 and ZB-V go without full recompute: the weight halves they leave for later need what it drops."""
    layout = case.layout
    if layout.recompute == "full" and layout.schedule in ("zb-h1", "zb-v"):
        return "Use recompute none or selective, or another schedule."
    return None


PIPELINE_CHECKS: tuple[Check, ...] = (
    stages_hold_a_layer,
    split_covers_the_chunks,
    micro_batches_divide_batch,
    group_holds_the_stages,
    interleaving_fills_groups,
    split_schedules_fill_stages,
    dualpipe_meets_in_the_middle,
    weight_halves_keep_activations,
)
"""In the order the search counts by."""


def _fills(count: int, group: int, pp: int) -> bool:
    return count >= group and (count % group == 0 or count % group >= pp)


def _micro_batches(case: Case) -> int:
    return case.setting.workload.global_batch // (case.layout.micro_batch * case.layout.dp)


def _batch_of(case: Case, micro_batches: int) -> str:
    """The global batch of so many micro-batches, in words."""
    return f"a global batch of {micro_batches * case.layout.micro_batch * case.layout.dp}"


def _more_micro_batches(case: Case, least: int) -> str:
    count = _micro_batches(case)
    return f"Use at least {least} micro-batches, {_batch_of(case, least)}; there are {count}."


def _groups(count: int, pp: int) -> str:
    """The fix that names groups of micro-batches interleaving accepts; nothing where there are too few."""
    fits = [group for group in range(pp, count + 1) if _fills(count, group, pp)]
    shown = fits if len(fits) <= SHOWN else [*fits[: SHOWN - 1], fits[-1]]
    return one_of("micro_batch_group", shown) if shown else ""
