"""Price layouts: memory, traffic and time of N at once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.cost.memory.stage_bytes import peak_bytes
from models.cost.setting import Setting
from models.cost.stages import Stages, every_chunk, stage_kinds
from models.cost.step.step_time import StepTime, Traffic, all_traffic, step_time
from models.cost.table import IntVector, LayoutTable

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Estimates:
    """What a search ranks by; each (N,)."""

    peak_bytes: IntVector
    """Heaviest stage. [B]"""
    step_time_s: Array
    """One optimizer step. [s]"""
    sent_bytes_per_gpu: Array
    """Sent in a step over all dimensions. [B]"""


def estimate(table: LayoutTable, setting: Setting) -> Estimates:
    """Price every layout of a table."""
    stages, traffic, time = price(table, setting)
    return Estimates(peak_bytes(table, setting), time.total, all_sent(table, stages, traffic, setting))


def price_one(table: LayoutTable, setting: Setting) -> tuple[Stages, Traffic, StepTime]:
    """Return the same as `price` of one layout, its schedule run chunk by chunk."""
    stages = stage_kinds(table, setting)
    traffic = all_traffic(table, stages, setting)
    pp, vpp, schedule = int(table.pp[0]), int(table.vpp[0]), int(table.schedule[0])
    chunks = every_chunk(pp, vpp, setting, table.stage_layers, schedule, table.recomputed)
    return stages, traffic, step_time(table, stages, traffic, setting, chunks)


def price(
    table: LayoutTable, setting: Setting, stages: Stages | None = None
) -> tuple[Stages, Traffic, StepTime]:
    """Return the kinds of stages, unless they are given, what they send and how long a step takes."""
    stages = stage_kinds(table, setting) if stages is None else stages
    traffic = all_traffic(table, stages, setting)
    return stages, traffic, step_time(table, stages, traffic, setting)


def all_sent(table: LayoutTable, stages: Stages, traffic: Traffic, setting: Setting) -> Array:
    """Bytes sent in a step over all dimensions, what closes it included, (N,). [B]."""
    closing = traffic.tied_embedding.sent + traffic.stage_copies.sent
    running = np.add.reduce(list(sent_bytes(table, stages, traffic, setting).values()))
    return np.asarray(closing + running)


def sent_bytes(table: LayoutTable, stages: Stages, traffic: Traffic, setting: Setting) -> dict[str, Array]:
    """Bytes the GPU that sends the most sends in a step, by dimension, (N,). [B]."""
    runs = table.passes(setting.workload.global_batch)
    layered = {"tp": traffic.tp, "cp": traffic.cp, "ep": traffic.ep}
    sent = {name: runs * one.sent.on(stages).max(axis=1) for name, one in layered.items()}
    sent["pp"] = traffic.pp.sent
    sent["dp"] = traffic.dp.sent.max(axis=1)
    return sent
