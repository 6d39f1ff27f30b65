"""What the pipeline adds to a step on the search's path: idle time, waits for messages, hidden exchanges.

A stage here is a rank of the pipeline with all its chunks. Formulas, N layouts at once; for one
layout `pipeline_run` simulates the schedule.

Symbols: N layouts, S kinds of stages, p stages, G micro-batches; f, i, w the forward, input and weight
half of a micro-batch on a stage, f + i + w its pace.

References
----------
.. [1] DeepSeek-AI, "DeepSeek-V3 technical report", 2024, arXiv:2412.19437, sections 3.2.1 and 3.2.2.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.cost.distinct import distinct
from models.cost.kernels.compute import Compute
from models.cost.pipeline.closed_forms import Shape, estimated_span, stages_a_rank
from models.cost.pipeline.interleaved_waves import Turns, interleaved_spans
from models.cost.pipeline.messages import Hops, message_wait
from models.cost.pipeline.pipeline_run import Run, simulated
from models.cost.pipeline.unequal import gpipe_runs, one_f_one_b_runs
from models.cost.setting import Setting
from models.cost.stages import Chunks, Stages
from models.cost.table import DUALPIPE, DUALPIPE_V, GPIPE, INTERLEAVED, NONE, ONE_F_ONE_B, LayoutTable

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

FORWARD_OF = {"tp_exposed_s": 1 / 2, "cp_exposed_s": 1 / 3, "ep_exposed_s": 1 / 2}
"""The forward's part of what a micro-batch waits for: 2 of 4 collectives a layer, 1 of 3, 2 of 4. [1]"""
SENDING = 20 / 132
"""Multiprocessors that serve the exchanges while a pair computes, 20 of an H800's 132 [1]. [1]"""


@dataclass(frozen=True)
class Work:
    """A micro-batch on each stage, (N, S) each. [s]."""

    forward: Array
    """f, with what it waits for."""
    input_gradient: Array
    """i, with what recompute adds and the backward waits for."""
    weight_gradient: Array
    """w."""
    exchanged: Array
    """Expert exchanges among f + i, both ways."""

    @property
    def pace(self) -> Array:
        """F + i + w, (N, S). [s]."""
        return self.forward + self.input_gradient + self.weight_gradient

    @property
    def pair(self) -> Array:
        """A forward overlapped with the backward of another micro-batch, (N, S). [s]."""
        return overlapped_pair(self.pace, self.exchanged)


def overlapped_pair(pace: Array, exchanged: Array) -> Array:
    """A forward and a backward of two micro-batches run together. [s].

    The exchanges x of one run behind the compute c of the other, which gives up some multiprocessors
    to them: max(c / (1 - 20/132), x), never longer than c + x, one after the other.

    >>> overlapped_pair(np.array([3.0, 4.0, 12.0]), np.array([0.0, 1.0, 9.0])).round(3).tolist()
    [3.0, 3.536, 9.0]
    """
    computed = (pace - exchanged) / (1 - SENDING)
    return np.asarray(np.minimum(np.maximum(computed, exchanged), pace))


def work(
    compute: Compute, parts: dict[str, Array], worked: Array, paced: Array, stages: Stages, whole: Mask
) -> Work:
    """Take a micro-batch's time on each stage apart.

    Parameters
    ----------
    compute
        Of a layer.
    parts
        What a micro-batch takes on each stage, by cause, (N, S). [s]
    worked
        The same in all, (N, S). [s]
    paced
        No less than that, and than the host takes to launch it, (N, S). [s]
    whole
        Whether a schedule that leaves weight halves for later does not, (N,): they are the input's then.
    """
    waited = np.add.reduce([share * parts[name] for name, share in FORWARD_OF.items()])
    forward = compute.forward.on(stages) + waited
    weight = np.where(whole[:, None], 0.0, compute.weight.on(stages))
    slower = paced / np.maximum(worked, 1e-300)
    rest = worked - forward - weight
    return Work(forward * slower, rest * slower, weight * slower, parts["ep_exposed_s"])


@dataclass(frozen=True)
class Added:
    """What the pipeline adds to G micro-batches on the limiting stage; each (N,). [s]."""

    idle: Array
    """Time the limiting stage has nothing to do."""
    waits: Array
    """Time it waits for messages."""
    hidden: Array
    """Expert exchanges that run behind compute, to be taken off."""
    run: Run | None = None
    """The schedule as it ran; nothing where formulas stand for it."""


def added(
    table: LayoutTable,
    stages: Stages,
    one: Work,
    message: Array | Hops,
    setting: Setting,
    chunks: tuple[Chunks, Work] | None = None,
) -> Added:
    """Idle time, waits and hidden exchanges of N layouts.

    GPipe and none exact; 1F1B exact where stages are equal or only the ends differ, else up to 6 %
    short; interleaving as its chunks run (`interleaved_spans`); the others as `estimated_span` and
    `message_wait` say. Of Llama 3.1 405B's 126 layers, split evenly, steps are within 0.7 % of simulated
    ones.

    Parameters
    ----------
    message : (N,) or Hops
        Time of a message between neighbouring stages, or of each. [s]
    chunks
        What interleaved layouts run, and a micro-batch on each kind of it; `estimated_span` where there is
        none.
    """
    runs = table.micro_batches(setting.workload.global_batch)
    shape = shapes(table, runs)
    held = stages_a_rank(table.schedule, table.vpp)
    f, i, w, q = (_mean(part, stages, table.pp * held) for part in _columns(one))
    longest = one.pace.max(axis=1)
    span = estimated_span(shape, f, i, w, _busiest(table, one, held * (f + i + w - q)), q)
    hides = one.exchanged.max(axis=1) > 0
    hidden = np.where(hides, pairs_a_rank(shape) * (f + i + w - q), 0.0)
    span = np.where(table.schedule == NONE, runs * longest, span)
    for code, exact in ((GPIPE, gpipe_runs), (ONE_F_ONE_B, one_f_one_b_runs)):
        rows = np.flatnonzero(table.schedule == code)
        if len(rows):
            backward = (one.input_gradient + one.weight_gradient)[rows]
            span[rows] = exact(one.forward[rows], backward, stages.count[rows], runs[rows])
    turns = turns_of(table, runs)
    rows = np.flatnonzero((table.schedule == INTERLEAVED) & turns.allowed)
    if chunks is not None and len(rows):
        span[rows] = _interleaved(turns.take(rows), chunks[0].of[rows], chunks[1], rows)
    worked = table.passes(setting.workload.global_batch) * longest - hidden
    waits = np.where(table.pp > 1, message_wait(shape, message, f, i + w), 0.0)
    return Added(np.maximum(span - worked, 0.0), waits, hidden)


def ran(table: LayoutTable, chunks: Work, one: Work, message: Array, told: Added, setting: Setting) -> Added:
    """The same of one layout as its schedule runs; what is told where it has none or cannot run.

    What is idle beyond the limiting stage's work is told as waits as far as `message_wait` goes.

    Parameters
    ----------
    chunks : (1, C)
        A micro-batch on each chunk in execution order.
    one : (1, p)
        A micro-batch on each stage.
    message : (C - 1,)
        Time of a message over each boundary between chunks. [s]
    told : (1,)
        What the formulas say.
    """
    runs = int(table.micro_batches(setting.workload.global_batch)[0])
    shape = (table.pp, table.vpp, table.micro_batch_group)
    p, v, group = (int(column[0]) for column in shape)
    if table.schedule[0] == NONE:
        return told
    run = simulated(
        (int(table.schedule[0]), p, runs, v, group),
        chunks.forward[0],
        chunks.input_gradient[0],
        chunks.weight_gradient[0],
        message,
        float(chunks.pair.sum() / chunks.pace.sum()),
    )
    if run is None:
        return told
    pace, passes = one.pace, table.passes(setting.workload.global_batch)
    worked = passes * pace.max(axis=1)
    busy = np.where(told.hidden > 0, run.busy[int(pace[0].argmax())], worked)
    rest = np.maximum(run.span - busy, 0.0)
    waits = np.minimum(told.waits, rest)
    return Added(rest - waits, waits, worked - busy, run)


def shapes(table: LayoutTable, micro_batches: NDArray[np.int64]) -> Shape:
    """Return the schedules of N layouts."""
    return Shape(table.schedule, table.pp, micro_batches, table.vpp, table.micro_batch_group)


def turns_of(table: LayoutTable, micro_batches: NDArray[np.int64]) -> Turns:
    """Return the interleaved schedules of N layouts."""
    return Turns(table.pp, table.vpp, micro_batches, table.micro_batch_group)


def _interleaved(turns: Turns, of: NDArray[np.int64], one: Work, rows: NDArray[np.int64]) -> Array:
    """Spans of some rows, those that are alike run once."""
    kinds = [part[rows] for part in (one.forward, one.input_gradient + one.weight_gradient)]
    columns = [column for part in kinds for column in part.T]
    first, kind = distinct(*vars(turns).values(), *columns)
    forward, backward = (np.take_along_axis(part[first], of[first], axis=1) for part in kinds)
    return interleaved_spans(turns.take(first), forward, backward)[kind]


def pairs_a_rank(shape: Shape) -> Array:
    """Overlapped pairs the first rank runs in a step, the fewest of all. [1].

    2 G - 3 p + 1 under dualpipe-v, G - 3 p / 2 + 1 under dualpipe, none under the other schedules.

    >>> pairs_a_rank(Shape([DUALPIPE_V, DUALPIPE, GPIPE], 4, 16)).tolist()
    [21.0, 11.0, 0.0]
    """
    code, p, g, _, _ = shape.columns()
    pairs = np.select([code == DUALPIPE_V, code == DUALPIPE], [2 * g - 3 * p + 1, g - 1.5 * p + 1], 0.0)
    return np.asarray(np.maximum(pairs, 0.0))


def _busiest(table: LayoutTable, one: Work, hidden: Array) -> Array:
    """What `estimated_span` takes for the longest, (N,): overlapped pairs, where they make the run."""
    overlapped = np.isin(table.schedule, (DUALPIPE_V, DUALPIPE))
    most = np.where(overlapped, one.pair.max(axis=1) + hidden, one.pace.max(axis=1))
    return np.asarray(most / np.where(table.schedule == DUALPIPE, 2, 1))


def _columns(one: Work) -> tuple[Array, Array, Array, Array]:
    return one.forward, one.input_gradient, one.weight_gradient, one.pair


def _mean(part: Array, stages: Stages, chunks: Array) -> Array:
    """Mean over the chunks of all stages, (N,)."""
    return np.asarray((part * stages.count).sum(axis=1) / chunks)
