"""Checks that what the architecture and the sequence are made of divides over the ranks."""

from models.architecture import Architecture
from search.case import Case, Check, one_of, padded


def tp_cap(case: Case) -> str | None:
    """The tensor-parallel degree is at most 64 unless the request constrains it."""
    return _cap(case, "tp", case.layout.tp)


def cp_cap(case: Case) -> str | None:
    """The context-parallel degree is at most 64 unless the request constrains it."""
    return _cap(case, "cp", case.layout.cp)


def heads_divide(case: Case) -> str | None:
    """The tensor-parallel degree divides the number of attention heads."""
    return None if case.architecture.heads % case.layout.tp == 0 else _tensor_degrees(case)


def kv_heads_divide(case: Case) -> str | None:
    """The tensor-parallel degree divides the key-value heads, or is a multiple that replicates them."""
    return None if _kv_heads_fit(case.architecture, case.layout.tp) else _tensor_degrees(case)


def ffn_divides(case: Case) -> str | None:
    """The tensor-parallel degree divides the width of the dense and the shared-expert feed-forward."""
    return None if _widths_fit(case.architecture, case.layout.tp) else _tensor_degrees(case)


def expert_ffn_divides(case: Case) -> str | None:
    """The tensor-parallel degree inside an expert divides the expert's width."""
    moe, layout = case.architecture.moe, case.layout
    if moe is None or moe.expert_ffn % layout.etp == 0:
        return None
    return one_of("etp", (d for d in range(1, layout.tp + 1) if moe.expert_ffn % d == 0))


def sequence_splits_in_context(case: Case) -> str | None:
    """With context parallelism, 2 cp divides the sequence: each rank takes a front and a back chunk."""
    layout, length = case.layout, case.setting.workload.sequence_length
    if layout.cp == 1 or length % (2 * layout.cp) == 0:
        return None
    fits = (d for d in range(1, 65) if d == 1 or length % (2 * d) == 0)
    return f"{one_of('cp', fits)} Or pad the sequence to {padded(length, 2 * layout.cp)} tokens."


def sequence_splits_in_tensor(case: Case) -> str | None:
    """With sequence parallelism, tp divides the tokens each context-parallel rank holds."""
    layout, length = case.layout, case.setting.workload.sequence_length
    if layout.tp == 1 or not layout.sequence_parallel or length % (layout.cp * layout.tp) == 0:
        return None
    return f"Pad the sequence to {padded(length, layout.cp * layout.tp)} tokens, or lower tp or cp."


def experts_need_sequence_parallel(case: Case) -> str | None:
    """A mixture of experts with tp > 1 trains only with sequence parallelism."""
    layout = case.layout
    fits = case.architecture.moe is None or layout.tp == 1 or layout.sequence_parallel
    return None if fits else "Switch sequence_parallel on, or use tp 1."


def tp_overlap_needs_sequence_parallel(case: Case) -> str | None:
    """Overlapping the tensor-parallel collectives needs sequence parallelism."""
    layout = case.layout
    fits = not layout.tp_overlap or layout.tp == 1 or layout.sequence_parallel
    return None if fits else "Switch sequence_parallel on, or tp_overlap off."


def ulysses_heads_divide(case: Case) -> str | None:
    """Under Ulysses, cp divides the query heads and the key-value heads of a tensor-parallel rank."""
    layout, architecture = case.layout, case.architecture
    if layout.cp_comm != "ulysses" or layout.cp == 1:
        return None
    held = [max(architecture.heads // layout.tp, 1)]
    if architecture.mla is None:
        held.append(max(architecture.kv_heads // layout.tp, 1))
    if all(heads % layout.cp == 0 for heads in held):
        return None
    fits = (d for d in range(1, max(held) + 1) if all(heads % d == 0 for heads in held))
    return f"{one_of('cp', fits)} Or use cp_comm all_gather."


SHAPE_CHECKS: tuple[Check, ...] = (
    tp_cap,
    cp_cap,
    heads_divide,
    kv_heads_divide,
    ffn_divides,
    expert_ffn_divides,
    sequence_splits_in_context,
    sequence_splits_in_tensor,
    experts_need_sequence_parallel,
    tp_overlap_needs_sequence_parallel,
    ulysses_heads_divide,
)


def _cap(case: Case, name: str, degree: int) -> str | None:
    cap = case.caps.get(name, degree)
    return None if degree <= cap else f"Use {name} of at most {cap}, or constrain {name} in the request."


def _kv_heads_fit(architecture: Architecture, tp: int) -> bool:
    kv_heads = architecture.kv_heads
    return architecture.mla is not None or kv_heads % tp == 0 or tp % kv_heads == 0


def _widths_fit(architecture: Architecture, tp: int) -> bool:
    sparse, moe = architecture.sparse_layers(), architecture.moe
    dense_fits = all(sparse) or architecture.ffn % tp == 0
    return dense_fits and (moe is None or not any(sparse) or moe.shared_expert_ffn % tp == 0)


def _tensor_degrees(case: Case) -> str:
    """Name the tensor-parallel degrees that the architecture's shapes accept."""
    architecture = case.architecture
    return one_of(
        "tp",
        (
            tp
            for tp in range(1, architecture.heads + 1)
            if architecture.heads % tp == 0
            and _kv_heads_fit(architecture, tp)
            and _widths_fit(architecture, tp)
        ),
    )
