"""Every schedule by its name: how many chunks a rank runs, whether backwards are split, how it is laid out.

Symbols: p ranks, G micro-batches, v chunks a rank, N the interleaving's group.
"""

from collections.abc import Callable
from dataclasses import dataclass

from models.cost.pipeline import looped
from models.cost.pipeline.actions import Schedule, round_robin, there_and_back
from models.cost.pipeline.controllable import v_half, v_min
from models.cost.pipeline.folded import dualpipe, dualpipe_v, zb_v
from models.cost.pipeline.simulate import Durations
from models.cost.pipeline.zero_bubble_greedy import zero_bubble_greedy


@dataclass(frozen=True)
class Size:
    """How large a pipeline is."""

    pp: int
    """p."""
    micro_batches: int
    """G."""
    vpp: int = 1
    """v."""
    group: int = 1
    """N; read under `interleaved` only."""


@dataclass(frozen=True)
class Known:
    """One schedule."""

    make: Callable[[Size, Durations], Schedule]
    """Lays it out; durations decide an order only where it is searched greedily."""
    least_chunks: int = 1
    """Fewest chunks a rank may run. [1]"""
    most_chunks: int | None = 1
    """Most chunks a rank may run; None for any. [1]"""
    folded: bool = False
    """Chunks go down the ranks and up again: always two."""
    both_ways: bool = False
    """Micro-batches enter at both ends: a rank runs a stage of each direction."""
    splits: bool = False
    """Backwards run in halves, at least some of them."""
    pairs: bool = False
    """Forwards run together with backwards."""
    cut_down: bool = False
    """Laid out for at least 2 p - 1 micro-batches, those there are not left out again."""
    searched: bool = False
    """Its order is searched for, not written down, which takes longer."""

    @property
    def most_passes(self) -> int:
        """Most passes laid out: they are timed in about two seconds. [1]."""
        return 8_192 if self.searched else 131_072

    @property
    def most_stages(self) -> int:
        """Most parts the model is cut into: what is told of each stays readable. [1]."""
        return 256 if self.searched else 1_024

    @property
    def usual_chunks(self) -> int:
        """Chunks a rank runs unless told: two where several are the point of it."""
        return 2 if self.folded or self.most_chunks is None else 1

    def stages(self, size: Size) -> int:
        """Parts the model is cut into, S: p v, or p where both directions run the same p."""
        return size.pp * size.vpp

    def placements(self, size: Size) -> tuple[tuple[int, ...], ...]:
        """Rank of each stage, once for each direction micro-batches flow in."""
        down = there_and_back(size.pp) if self.folded else round_robin(size.pp, size.vpp)
        return (down, down[::-1]) if self.both_ways else (down,)

    def passes(self, size: Size) -> int:
        """Forwards that are laid out: S G."""
        laid_out = max(size.micro_batches, 2 * size.pp - 1) if self.cut_down else size.micro_batches
        return self.stages(size) * laid_out


KNOWN: dict[str, Known] = {
    "none": Known(lambda s, _: looped.naive(s.pp, s.micro_batches)),
    "naive": Known(lambda s, _: looped.naive(s.pp, s.micro_batches)),
    "gpipe": Known(lambda s, _: looped.gpipe(s.pp, s.micro_batches)),
    "1f1b": Known(lambda s, _: looped.one_f_one_b(s.pp, s.micro_batches)),
    "interleaved": Known(
        lambda s, _: looped.interleaved(s.pp, s.micro_batches, s.vpp, s.group), most_chunks=None
    ),
    "looped-bfs": Known(
        lambda s, _: looped.looped_breadth_first(s.pp, s.micro_batches, s.vpp), most_chunks=None
    ),
    "zb-h1": Known(lambda s, _: looped.zb_h1(s.pp, s.micro_batches), splits=True),
    "zb-h2": Known(lambda s, _: looped.zb_h2(s.pp, s.micro_batches), splits=True),
    "zb1p": Known(
        lambda s, times: zero_bubble_greedy(s.pp, s.micro_batches, times, s.pp), splits=True, searched=True
    ),
    "zb2p": Known(
        lambda s, times: zero_bubble_greedy(s.pp, s.micro_batches, times, 2 * s.pp),
        splits=True,
        searched=True,
    ),
    "interleaved-zb": Known(
        lambda s, _: looped.interleaved_zero_bubble(s.pp, s.micro_batches, s.vpp),
        most_chunks=None,
        splits=True,
    ),
    "zb-v": Known(
        lambda s, _: zb_v(s.pp, s.micro_batches), most_chunks=2, folded=True, splits=True, cut_down=True
    ),
    "v-half": Known(
        lambda s, _: v_half(s.pp, s.micro_batches), most_chunks=2, folded=True, splits=True, searched=True
    ),
    "v-min": Known(
        lambda s, _: v_min(s.pp, s.micro_batches), most_chunks=2, folded=True, splits=True, searched=True
    ),
    "dualpipe-v": Known(
        lambda s, _: dualpipe_v(s.pp, s.micro_batches), most_chunks=2, folded=True, splits=True, pairs=True
    ),
    "dualpipe": Known(lambda s, _: dualpipe(s.pp, s.micro_batches), both_ways=True, splits=True, pairs=True),
}
"""Name to schedule; the names of `models.timeline.ScheduleName`."""
