"""What each schedule asks of stages, chunks and micro-batches; sources are in docs/frameworks.md, section 4.

Symbols: p ranks, G micro-batches, v chunks a rank, N the interleaving's group. A fault's field is the bare
name of the knob.
"""

from collections.abc import Callable
from dataclasses import dataclass

from models.cost.pipeline.known import KNOWN, Known
from models.cost.pipeline.looped import group_allowed
from models.errors import Fault

SHOWN = 6
"""Values a fix names. [1]"""
TRIED = 2000
"""Groups of micro-batches looked at for a fix. [1]"""


@dataclass(frozen=True)
class Asked:
    """A schedule as it was asked for; None for what was left out or cannot be read."""

    schedule: str
    pp: int | None
    micro_batches: int | None
    vpp: int | None = None
    group: int | None = None
    """N."""

    @property
    def known(self) -> Known:
        """The schedule itself."""
        return KNOWN[self.schedule]

    @property
    def least_micro_batches(self) -> int:
        """Fewest micro-batches: both pipes need 2 p, none less than one."""
        return 2 * (self.pp or 1) if self.known.pairs else 1


def condition_faults(asked: Asked) -> list[Fault]:
    """Return every condition of a schedule that is not kept.

    >>> [fault.fix for fault in condition_faults(Asked("interleaved", 4, 6, 2))]
    ['Use micro_batch_group of 6, or a multiple of 4 micro-batches such as 8.']
    """
    return [fault for rule in RULES if (fault := rule(asked))]


def no_pipeline(asked: Asked) -> Fault | None:
    """`none` runs one stage."""
    if asked.schedule != "none" or asked.pp in (None, 1):
        return None
    return Fault("pp", asked.pp, "none is for one stage", "Use pp 1, or a schedule such as 1f1b.")


def chunks_fit(asked: Asked) -> Fault | None:
    """A schedule runs the chunks it is made for."""
    known, v = asked.known, asked.vpp
    if v is None or known.most_chunks is None or v <= known.most_chunks:
        return None
    if known.folded:
        reason = f"{asked.schedule} runs two chunks a stage, down the stages and up again"
        return Fault("vpp", v, reason, "Use vpp 2, or leave it out.")
    more = "A stage of each direction counts as one." if known.both_ways else "interleaved runs several."
    return Fault("vpp", v, f"{asked.schedule} runs one chunk a stage", f"Use vpp 1. {more}")


def group_means_something(asked: Asked) -> Fault | None:
    """Only interleaving takes micro-batches in groups."""
    if asked.group is None or asked.schedule == "interleaved":
        return None
    reason = f"{asked.schedule} takes no groups of micro-batches"
    return Fault("micro_batch_group", asked.group, reason, "Leave it out, or use interleaved.")


def groups_are_filled(asked: Asked) -> Fault | None:
    """Interleaving needs p <= N <= G, and a last group that is whole or no shorter than p."""
    p, g = asked.pp, asked.micro_batches
    if asked.schedule != "interleaved" or p is None or g is None:
        return None
    n = asked.group or p
    if group_allowed(p, g, n):
        return None
    if g < p:
        few = f"interleaving needs at least pp = {p}"
        return Fault("micro_batches", g, few, f"Use {p} micro-batches or more.")
    where = ("micro_batches", g) if asked.group is None else ("micro_batch_group", n)
    reason = (
        f"a group of {n} does not go with pp = {p} and {g} micro-batches: it must be between them, and "
        f"what is left over, {g % n}, none or at least pp"
    )
    fits = [each for each in range(p, min(g, p + TRIED)) if group_allowed(p, g, each)][: SHOWN - 1]
    groups = ", ".join(map(str, [*fits, g]))
    fix = f"Use micro_batch_group of {groups}, or a multiple of {p} micro-batches such as {-(-g // p) * p}."
    return Fault(*where, reason, fix)


def rounds_are_equal(asked: Asked) -> Fault | None:
    """PyTorch's interleaved zero bubble takes G in max(1, floor(G / p)) equal rounds."""
    p, g = asked.pp, asked.micro_batches
    if asked.schedule != "interleaved-zb" or p is None or g is None or g % max(1, g // p) == 0:
        return None
    reason = f"{g} micro-batches do not go into {g // p} equal rounds over {p} stages"
    return Fault(
        "micro_batches", g, reason, f"Use a multiple of {p} micro-batches, such as {-(-g // p) * p}."
    )


def pipe_is_filled(asked: Asked) -> Fault | None:
    """DualPipe, either way, needs twice as many micro-batches as stages; an even number from both ends."""
    g, least = asked.micro_batches, asked.least_micro_batches
    if asked.pp is None or g is None:
        return None
    if g < least:
        reason = f"{asked.schedule} needs at least 2 pp = {least}"
        return Fault("micro_batches", g, reason, f"Use {least} micro-batches or more.")
    if asked.known.both_ways and g % 2:
        reason = "half of the micro-batches enters at each end"
        return Fault("micro_batches", g, f"odd, and {reason}", f"Use {g - 1 or 2} or {g + 1} micro-batches.")
    return None


def pipe_has_halves(asked: Asked) -> Fault | None:
    """Stages that micro-batches enter from both ends come in pairs."""
    p = asked.pp
    if not asked.known.both_ways or p is None or p % 2 == 0:
        return None
    near = " or ".join(str(each) for each in (p - 1, p + 1) if each)
    return Fault("pp", p, "odd, and dualpipe pairs the stages", f"Use pp {near}.")


RULES: tuple[Callable[[Asked], Fault | None], ...] = (
    no_pipeline,
    chunks_fit,
    group_means_something,
    groups_are_filled,
    rounds_are_equal,
    pipe_has_halves,
    pipe_is_filled,
)
