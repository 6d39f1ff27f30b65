"""Knobs that follow from the others unless the caller fixes them: one function a knob.

Columns are integers (N,); choices are codes of `models.cost.table`.
"""

from collections.abc import Mapping

import numpy as np

from models.cost.table import ALL_GATHER, CODES, GPIPE, ONCE, PER_MICRO_BATCH, PER_PASS, IntVector
from models.estimate import Assumption
from models.layout import LayoutChoice
from models.request import Constraints

Pins = Mapping[str, int]
"""Derived knobs a caller fixed, by name."""

KNOBS = (
    "sequence_parallel",
    "micro_batch_group",
    "cp_comm",
    "gradient_reduce",
    "weight_gather",
    "tp_overlap",
    "dp_overlap",
)


def columns(
    pins: Pins, tp: IntVector, pp: IntVector, zero: IntVector, schedule: IntVector
) -> dict[str, IntVector]:
    """Return every derived knob of N layouts; what is pinned stays as pinned."""
    derived = {
        "sequence_parallel": sequence_parallel(tp),
        "micro_batch_group": pp,
        "cp_comm": np.full_like(tp, ALL_GATHER),
        "gradient_reduce": gradient_reduce(zero, schedule),
        "weight_gather": np.full_like(tp, PER_PASS),
        "tp_overlap": np.zeros_like(tp),
        "dp_overlap": np.ones_like(tp),
    }
    return {name: np.full_like(tp, pins[name]) if name in pins else derived[name] for name in KNOBS}


def one_row(pins: Pins, tp: int, pp: int, zero: int, schedule: int) -> dict[str, int]:
    """Return every derived knob of one layout."""
    row = columns(pins, *(np.array([value], dtype=np.int64) for value in (tp, pp, zero, schedule)))
    return {name: int(column[0]) for name, column in row.items()}


def sequence_parallel(tp: IntVector) -> IntVector:
    """On wherever there is a tensor-parallel group: it costs no bytes sent and saves activations."""
    return (tp > 1).astype(np.int64)


def gradient_reduce(zero: IntVector, schedule: IntVector) -> IntVector:
    """Once a step while whole gradients are kept (ZeRO 0, 1; 2 under GPipe), else each micro-batch."""
    kept_whole = (zero <= 1) | ((zero == 2) & (schedule == GPIPE))
    return np.where(kept_whole, ONCE, PER_MICRO_BATCH)


TOLD: dict[str, tuple[object, str]] = {
    "sequence_parallel": ("tp > 1", "derived: saves activation memory at no bytes sent"),
    "micro_batch_group": ("pp", "derived: the default of Megatron-LM"),
    "cp_comm": (CODES["cp_comm"][ALL_GATHER], "derived"),
    "gradient_reduce": (
        "once for ZeRO 0 and 1, and for ZeRO 2 under gpipe; per_micro_batch otherwise",
        "derived: gradients stay whole only where the ZeRO stage keeps them",
    ),
    "weight_gather": (CODES["weight_gather"][PER_PASS], "derived"),
    "tp_overlap": (False, "derived"),
    "dp_overlap": (True, "derived"),
    "recompute_modules": (["core_attn"], "derived: what selective recompute means in Megatron-LM"),
    "stage_layers": ("balanced", "derived: equal chunks, the first and last lighter"),
}
"""What an answer says of each derived knob: its value and why."""


def assumptions(stated: Constraints | LayoutChoice) -> tuple[Assumption, ...]:
    """Return the derived knobs a caller left to us, told."""
    return tuple(
        Assumption(field=f"/layout/{knob}", value=value, why=why)
        for knob, (value, why) in TOLD.items()
        if getattr(stated, knob, None) is None
    )
