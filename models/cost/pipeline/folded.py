"""Schedules in which each rank holds an early and a late stage: ZB-V, DualPipe-V and DualPipe.

Symbols: p ranks, r the rank from 0, G micro-batches. In the V placement rank r runs stages r and
2 p - 1 - r; in DualPipe micro-batches flow both ways through p stages, so rank r runs stage r of
one direction and stage p - 1 - r of the other, and holds the weights of both.

References
----------
.. [1] P. Qi et al., "Zero bubble pipeline parallelism", ICLR 2024, arXiv:2401.10241, section 6.
.. [2] DeepSeek-AI, "DeepSeek-V3 technical report", 2024, arXiv:2412.19437, section 3.2.1.
"""

from models.cost.pipeline.actions import Action, Kind, Order, Schedule, there_and_back
from models.cost.pipeline.orders import Counted


def zb_v(ranks: int, micro_batches: int) -> Schedule:
    """Two chunks a rank down and up a V, split backwards: no idle inside when F = I = W [1].

    Made for at least 2 p - 1 micro-batches; fewer leave holes where the others would be.
    """
    orders = tuple(_zb_v_order(rank, ranks, micro_batches) for rank in range(ranks))
    return Schedule("zb-v", 2 * ranks, micro_batches, (there_and_back(ranks),), orders)


def dualpipe_v(ranks: int, micro_batches: int) -> Schedule:
    """DualPipe cut in half: the V placement, forwards overlapped with backwards.

    Raises
    ------
    ValueError
        Fewer than 2 p micro-batches.
    """
    _at_least(2 * ranks, micro_batches, ranks)
    stages = 2 * ranks
    orders = tuple(
        _overlapped(rank, ranks, micro_batches, Counted(), (rank, stages - 1 - rank)) for rank in range(ranks)
    )
    return Schedule("dualpipe-v", stages, micro_batches, (there_and_back(ranks),), orders)


def dualpipe(ranks: int, micro_batches: int) -> Schedule:
    """Half of the micro-batches from each end, forwards overlapped with the other way's backwards [2].

    Raises
    ------
    ValueError
        An odd number of ranks or micro-batches, or fewer than 2 p micro-batches.
    """
    if ranks % 2 or micro_batches % 2:
        raise ValueError(f"{ranks} ranks, {micro_batches} micro-batches: both must be even")
    _at_least(2 * ranks, micro_batches, ranks)
    down = tuple(range(ranks))
    orders = tuple(_dualpipe_order(rank, ranks, micro_batches) for rank in range(ranks))
    return Schedule("dualpipe", ranks, micro_batches, (down, down[::-1]), orders)


def _at_least(least: int, micro_batches: int, ranks: int) -> None:
    if micro_batches < least:
        raise ValueError(f"{micro_batches} micro-batches on {ranks} ranks: at least {least} are needed")


def _zb_v_order(rank: int, ranks: int, micro_batches: int) -> Order:
    early, late = rank, 2 * ranks - 1 - rank
    whole = max(2 * ranks - 1, micro_batches)
    work = Counted()
    for _ in range(2 * (ranks - rank) - 1):
        work.forward(early)
    for _ in range(rank):
        work.forward(late)
        work.forward(early)
    for _ in range(ranks - rank):
        work.forward(late)
        _whole_backward(work, late)
    while work.done(Kind.FORWARD, late) < whole:
        if work.done(Kind.FORWARD, early) < whole:
            work.forward(early)
        _whole_backward(work, early)
        work.forward(late)
        _whole_backward(work, late)
    _zb_v_cool_down(work, rank, ranks)
    kept = [slot for slot in work.slots if isinstance(slot, Action) and slot.micro_batch < micro_batches]
    return tuple(kept)


def _whole_backward(work: Counted, stage: int) -> None:
    work.backward(stage, split=True)
    work.weight()


def _zb_v_cool_down(work: Counted, rank: int, ranks: int) -> None:
    """Input gradients first, both ways in turn; the weight gradients they leave fill the end."""
    early, late = rank, 2 * ranks - 1 - rank
    for _ in range(rank):
        work.backward(early, split=True)
        work.backward(late, split=True)
    for _ in range(ranks - rank):
        work.backward(early, split=True)
        work.weight(early)
    for stage in (late, early):
        for _ in range(rank):
            work.weight(stage)


def _dualpipe_order(rank: int, ranks: int, micro_batches: int) -> Order:
    """A rank of the first half starts with the first direction, one of the second with the other."""
    each = micro_batches // 2
    depth = min(rank, ranks - 1 - rank)
    near, far = depth, ranks - 1 - depth
    first = {near: 0, far: each} if rank == depth else {near: each, far: 0}
    return _overlapped(depth, ranks // 2, each, Counted(first), (near, far))


def _overlapped(depth: int, depths: int, each: int, work: Counted, stages: tuple[int, int]) -> Order:
    """DualPipe's eight phases on a rank `depth` places from the end where its own micro-batches start.

    Parameters
    ----------
    depth, depths
        Place of the rank from that end, from 0, and how many such places there are. [1]
    each
        Micro-batches that pass each of the rank's two stages. [1]
    work
        Slots so far: none.
    stages
        Stage nearer that end, and the other.
    """
    near, far = stages
    inner = depths - 1 - depth
    for _ in range(2 * inner):
        work.forward(near)
    for _ in range(depth + 1):
        work.forward(near)
        work.forward(far)
    for _ in range(inner):
        _whole_backward(work, far)
        work.forward(far)
    for turn in range(each - 2 * depths + depth + 1):
        if turn == 0 and inner == 0:
            work.forward(near)
            work.backward(far)
        else:
            work.pair(near, far)
        work.pair(far, near)
    for _ in range(inner):
        work.backward(far)
        work.pair(far, near)
    _drain(work, depth, inner, stages)
    return tuple(work.slots)


def _drain(work: Counted, depth: int, inner: int, stages: tuple[int, int]) -> None:
    """Backwards of both stages, split from half-way on; the weight gradients left fill the end."""
    near, far = stages
    for turn in range(2 * (depth + 1)):
        work.backward(near if turn % 2 else far, split=turn > depth)
    for _ in range(inner):
        work.weight()
        work.backward(near, split=True)
    for _ in range(depth + 1):
        work.weight()
