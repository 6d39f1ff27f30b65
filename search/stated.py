"""What of a stated layout leaves its figures without a meaning: every fault, at the knob that was stated."""

from collections.abc import Iterable
from typing import Any

from models.architecture import Architecture
from models.catalogue import Resolved
from models.cost.splits import EMPTY_CHUNKS, balanced_split, hold_layers
from models.errors import Fault
from models.layout import StatedLayout
from models.request import Constraints, EvaluateRequest
from search.domains import divisors, is_order, order_fault
from search.experts import DEGREES, no_experts
from search.recompute import stage_recompute_faults

Knobs = dict[str, Any]

FOLLOWING = {
    "edp": "tp * cp * dp / (etp * ep)",
    "gpus": "the job's number of GPUs",
    "micro_batches": "global_batch / (micro_batch * dp)",
}
"""What follows from the knobs, and how."""


def following(knobs: Knobs, batch: int) -> dict[str, int]:
    """Return what follows from the knobs of a layout and the global batch."""
    ranks = knobs["tp"] * knobs["cp"] * knobs["dp"]
    return {
        "edp": ranks // (knobs["etp"] * knobs["ep"]),
        "gpus": ranks * knobs["pp"],
        "micro_batches": batch // (knobs["micro_batch"] * knobs["dp"]),
    }


def layout_faults(request: EvaluateRequest, knobs: Knobs, resolved: Resolved) -> list[Fault]:
    """Return every fault of a stated layout, its knobs completed.

    What only follows from degrees that do not multiply to the GPUs is not told beside them.
    """
    choice, order = request.layout, knobs["rank_order"]
    grid = _grid_faults(choice, knobs, resolved.gpus)
    batch = [] if grid else _batch_faults(request, knobs, resolved.workload.global_batch)
    experts = _expert_faults(knobs, resolved.architecture, judge_ranks=not grid)
    faults = [] if is_order(order) else [order_fault("/layout/rank_order", order)]
    faults += grid + batch + _layer_faults(choice, knobs, resolved.architecture)
    mtp = resolved.architecture.mtp_layers * request.stack.mtp
    faults += stage_recompute_faults(choice, _split_of(choice, knobs, resolved.architecture), mtp) + experts
    wrong = {name for name, held in (("edp", experts), ("micro_batches", batch)) if held or grid}
    wrong |= {"gpus"} if grid and choice.gpus == following(knobs, 1)["gpus"] else set()
    return faults + _disagreements(choice, knobs, resolved, wrong)


def _disagreements(
    choice: StatedLayout, knobs: Knobs, resolved: Resolved, unknown: Iterable[str]
) -> list[Fault]:
    """Whatever is stated of what follows from the knobs, and is something else."""
    told = following(knobs, resolved.workload.global_batch) | {"gpus": resolved.gpus}
    return [
        Fault(
            f"/layout/{name}",
            stated,
            f"{stated} is stated, and {FOLLOWING[name]} is {value}",
            f"Use {value}, or leave it out.",
        )
        for name, value in told.items()
        if (stated := getattr(choice, name)) not in (None, value) and name not in unknown
    ]


def _grid_faults(choice: StatedLayout, knobs: Knobs, gpus: int) -> list[Fault]:
    fixed = knobs["tp"] * knobs["cp"] * knobs["pp"]
    if fixed * knobs["dp"] == gpus:
        return []
    name = "dp" if choice.dp is not None else max(("tp", "cp", "pp"), key=lambda axis: int(knobs[axis]))
    stated = f"tp * cp * pp * dp is {fixed * knobs['dp']}" if choice.dp else f"tp * cp * pp is {fixed}"
    fix = f"Use dp {gpus // fixed}." if gpus % fixed == 0 else f"Make tp * cp * pp divide {gpus}."
    return [Fault(f"/layout/{name}", knobs[name], f"{stated}, the GPUs are {gpus}", fix)]


def _batch_faults(request: EvaluateRequest, knobs: Knobs, batch: int) -> list[Fault]:
    each, dp = knobs["micro_batch"] * knobs["dp"], knobs["dp"]
    if batch % each == 0:
        return []
    near = f"a global batch of {-(-batch // each) * each}"
    if batch % dp == 0:
        fits = ", ".join(str(d) for d in divisors(batch // dp) if d <= 64)
        reason = f"micro_batch * dp = {each} does not divide the global batch of {batch}"
        fix = f"Use micro_batch of {fits}, or {near}."
        return [Fault("/layout/micro_batch", knobs["micro_batch"], reason, fix)]
    reason = f"the data-parallel degree of {dp} does not divide the global batch of {batch}"
    if request.layout.dp is not None:
        return [Fault("/layout/dp", dp, reason, f"Use {near}, or a dp that divides {batch}.")]
    tokens = request.workload.global_batch is None
    field = "/workload/global_batch_tokens" if tokens else "/workload/global_batch"
    value = request.workload.global_batch_tokens if tokens else batch
    return [Fault(field, value, reason, f"Use {near} sequences, or other degrees.")]


def _layer_faults(choice: StatedLayout, knobs: Knobs, architecture: Architecture) -> list[Fault]:
    layers, chunks, stated = architecture.layers, knobs["pp"] * knobs["vpp"], choice.stage_layers
    loops = knobs["schedule"] == "interleaved"
    if not hold_layers(knobs["pp"], knobs["vpp"], loops, layers):
        name = "vpp" if choice.pp is None else "pp"
        reason = f"pp * vpp = {chunks} chunks have only {layers} layers to hold"
        ends = f", or of {layers + EMPTY_CHUNKS} interleaved, the ends empty" if loops else ""
        return [Fault(f"/layout/{name}", knobs[name], reason, f"Use pp * vpp of at most {layers}{ends}.")]
    if stated is None or (len(stated) == chunks and sum(stated) == layers):
        return []
    reason = f"{len(stated)} chunks that sum to {sum(stated)}, for {chunks} chunks and {layers} layers"
    fix = f"For instance {list(balanced_split(layers, chunks))}."
    return [Fault("/layout/stage_layers", list(stated), reason, fix)]


def split_faults(constraints: Constraints, architecture: Architecture) -> list[Fault]:
    """What is wrong with a split that a search is to keep to: its sum, or an empty chunk inside."""
    split, layers = constraints.stage_layers, architecture.layers
    if split is None or (sum(split) == layers and all(split[1:-1])):
        return []
    chunks = min(len(split), layers)
    reason = f"{len(split)} chunks that sum to {sum(split)}, for {layers} layers"
    reason = reason if sum(split) != layers else "only the first and the last chunk may hold no layer"
    fix = f"For instance {list(balanced_split(layers, chunks))}."
    return [Fault("/constraints/stage_layers", list(split), reason, fix)]


def _split_of(choice: StatedLayout, knobs: Knobs, architecture: Architecture) -> tuple[int, ...] | None:
    """Layers of each chunk; nothing where what is stated makes none."""
    if _layer_faults(choice, knobs, architecture):
        return None
    return choice.stage_layers or balanced_split(architecture.layers, knobs["pp"] * knobs["vpp"])


def _expert_faults(knobs: Knobs, architecture: Architecture, *, judge_ranks: bool) -> list[Fault]:
    """Faults of ep and etp; whether they divide the ranks of a stage only where those are known."""
    ep, etp, moe = knobs["ep"], knobs["etp"], architecture.moe
    if moe is None:
        return [no_experts(f"/layout/{name}", knobs[name]) for name in DEGREES if knobs[name] > 1]
    ranks = knobs["tp"] * knobs["cp"] * knobs["dp"] if judge_ranks else 0
    faults = []
    if ranks % etp:
        reason = f"etp does not divide tp * cp * dp = {ranks}"
        faults.append(Fault("/layout/etp", etp, reason, f"Use etp that divides {ranks}, such as 1."))
        ranks = 0
    fits = ", ".join(str(d) for d in divisors(moe.experts) if ranks % (etp * d) == 0)
    if moe.experts % ep:
        reason = f"ep does not divide the {moe.experts} experts"
        faults.append(Fault("/layout/ep", ep, reason, f"Use ep of {fits}."))
    elif ranks % (etp * ep):
        reason = f"etp * ep = {etp * ep} does not divide tp * cp * dp = {ranks}"
        faults.append(Fault("/layout/ep", ep, reason, f"Use ep of {fits}."))
    return faults
