"""Lengths of actions stated in slots: for all stages, for each rank, or for each chunk."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.cost.pipeline.known import KNOWN, Size
from models.cost.pipeline.simulate import Durations
from models.errors import Fault
from models.timeline import BareSchedule, SlotLengths

Array = NDArray[np.float64]

BACKWARD = 2.0
"""Slots of a backward unless stated: twice a forward's one. [1]"""
HALVES = ("input_gradient_slots", "weight_gradient_slots")


@dataclass(frozen=True)
class Stated:
    """A bare schedule's lengths, each spread over the stages, (S,)."""

    given: dict[str, Array]
    """Field to lengths, of those that were stated."""
    stages: int

    def get(self, name: str) -> Array | None:
        """Lengths of a field, None where it was left out."""
        return self.given.get(name)


def length_faults(asked: BareSchedule, size: Size) -> list[Fault]:
    """Return every list that is as long as nothing, and halves that do not make the backward."""
    names = ("forward_slots", "backward_slots", *HALVES)
    fits = dict.fromkeys((size.pp, _stages(asked, size)))
    faults = [_of_length(asked, name, list(fits)) for name in names]
    links = max(_stages(asked, size) - 1, 1)
    faults.append(_of_length(asked, "send_slots", [links]))
    found = [fault for fault in faults if fault]
    if asked.pair_share != 1 and not KNOWN[asked.schedule].pairs:
        reason = f"{asked.schedule} runs no forward and backward together"
        found.append(Fault("pair_share", asked.pair_share, reason, "Leave it out."))
    return found or _half_faults(asked, _spread_all(asked, size))


def slot_durations(asked: BareSchedule, size: Size) -> Durations:
    """Return how long everything takes; the lengths have no fault.

    >>> asked = BareSchedule(schedule="zb-h1", pp=2, micro_batches=2, forward_slots=(1, 2))
    >>> slot_durations(asked, Size(2, 2)).weight_gradient
    (1.0, 1.0)
    """
    stated = _spread_all(asked, size)
    inputs, weights = _halves(stated)
    forward = stated.given["forward_slots"]
    return Durations.of(stated.stages, forward, inputs, weights, _links(asked, size), asked.pair_share)


def _stages(asked: BareSchedule, size: Size) -> int:
    return KNOWN[asked.schedule].stages(size)


def _of_length(asked: BareSchedule, name: str, fits: list[int]) -> Fault | None:
    value = getattr(asked, name)
    if not isinstance(value, tuple) or len(value) in fits:
        return None
    wanted = " or ".join(map(str, fits))
    reason = f"{len(value)} lengths, and {wanted} are read: one for each {_each(name)}"
    return Fault(name, list(value), reason, f"Give one number, or {wanted}.")


def _each(name: str) -> str:
    return "boundary between chunks" if name == "send_slots" else "stage, or each chunk in execution order"


def _spread_all(asked: BareSchedule, size: Size) -> Stated:
    names = ("forward_slots", "backward_slots", *HALVES)
    stated = {name: value for name in names if (value := getattr(asked, name)) is not None}
    spread = {name: _spread(value, asked, size) for name, value in stated.items()}
    return Stated(spread, _stages(asked, size))


def _spread(value: SlotLengths, asked: BareSchedule, size: Size) -> Array:
    """One number for all; a list of the ranks' by where each stage is placed."""
    lengths, stages = np.atleast_1d(np.asarray(value, dtype=np.float64)), _stages(asked, size)
    if len(lengths) in (1, stages):
        return np.broadcast_to(lengths, (stages,))
    return np.asarray(lengths[list(KNOWN[asked.schedule].placements(size)[0])])


def _links(asked: BareSchedule, size: Size) -> Array:
    links = np.atleast_1d(np.asarray(asked.send_slots, dtype=np.float64))
    return np.broadcast_to(links, (_stages(asked, size) - 1,))


def _halves(stated: Stated) -> tuple[Array, Array]:
    """Both halves of the backward: as stated, what the other leaves, or half each."""
    whole, inputs, weights = (stated.get(name) for name in ("backward_slots", *HALVES))
    if inputs is not None and weights is not None:
        return inputs, weights
    both = np.full(stated.stages, BACKWARD) if whole is None else whole
    if inputs is not None:
        return inputs, both - inputs
    if weights is not None:
        return both - weights, weights
    return both / 2, both / 2


def _half_faults(asked: BareSchedule, stated: Stated) -> list[Fault]:
    """Halves that leave nothing of the backward, or that sum to another than was stated."""
    whole, inputs, weights = stated.get("backward_slots"), *_halves(stated)
    if whole is not None and not np.allclose(inputs + weights, whole, rtol=1e-9, atol=0):
        total = (inputs + weights).tolist()
        told = total[0] if len(set(total)) == 1 else total
        reason = f"the two halves sum to {told if not isinstance(told, list) else 'something else'}"
        return [Fault("backward_slots", asked.backward_slots, reason, "Leave it out, or make them agree.")]
    for name, left in zip(HALVES, (weights, inputs), strict=True):
        if (left <= 0).any():
            reason = "nothing is left of the whole backward for the other half"
            fix = "Use less, or say backward_slots or the other half."
            return [Fault(name, getattr(asked, name), reason, fix)]
    return []
