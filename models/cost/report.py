"""Everything one layout costs, in the words of the answer."""

import math

import numpy as np
from numpy.typing import NDArray

from models.cost.flops import model_flops_per_token
from models.cost.kernels.compute import compute_seconds, model_flops_utilisation
from models.cost.memory.stage_bytes import PART_OF_LINE, kept_bytes, memory_lines, stages_in_flight
from models.cost.pipeline.pipeline_run import Run
from models.cost.price import price, price_one
from models.cost.published.flops_megatron import prediction_flops
from models.cost.setting import Setting
from models.cost.stages import Stages, every_stage
from models.cost.step.band import band_warnings, step_band
from models.cost.step.step_time import StepTime, Traffic, micro_batch_parts, micro_batch_work
from models.cost.table import LayoutTable
from models.cost.traffic.tier_report import tier_loads
from models.cost.traffic.traffic_report import dimension_traffic
from models.estimate import Candidate, Memory, Pipeline, StageMemory, Time
from models.layout import Layout

EQUAL = 1e-9
"""Stages busy that little less than the busiest are as busy: sums in another order. [1]"""
PARTS = ("weights", "gradients", "optimizer", "activations", "buffers", "overhead")


def candidate(layout: Layout, setting: Setting, *, run: bool = True) -> Candidate:
    """Return the full report of one layout, its schedule run or, where there is no time, by formulas."""
    table = LayoutTable.of([layout])
    stages, traffic, time = (price_one if run else price)(table, setting)
    parts = {name: float(value[0]) for name, value in time.parts.items()}
    step = float(time.total[0])
    tokens = setting.workload.tokens_per_step / step
    length = setting.workload.sequence_length
    flops = model_flops_per_token(setting.architecture, length, setting.profile.model_flops)
    flops += prediction_flops(setting.architecture, length, setting.mtp_layers)
    rate = flops * tokens / setting.gpus
    low, high = step_band(step, setting, layout) or (None, None)
    sends = dimension_traffic(table, stages, traffic, time, setting)
    return Candidate(
        layout=layout,
        step_time_s=step,
        step_time_low_s=low,
        step_time_high_s=high,
        tokens_per_s=tokens,
        tokens_per_s_per_gpu=tokens / setting.gpus,
        tflops_per_gpu=rate / 1e12,
        mfu=model_flops_utilisation(rate, setting.cluster.gpu, setting.workload.precision),
        time=Time(**parts),
        pipeline=pipeline_report(table, traffic, time, setting) if layout.pp > 1 else None,
        memory=memory_report(layout, setting),
        traffic=sends,
        tiers=tier_loads(sends, step, setting),
        warnings=_warnings(layout, setting),
    )


def pipeline_report(table: LayoutTable, traffic: Traffic, time: StepTime, setting: Setting) -> Pipeline:
    """Return the idle part, the imbalance and the limiting stage of one layout's pipeline."""
    pp, vpp, schedule = int(table.pp[0]), int(table.vpp[0]), int(table.schedule[0])
    stages = every_stage(pp, vpp, setting, table.stage_layers, schedule, table.recomputed)
    compute = compute_seconds(table, setting)
    parts = micro_batch_parts(table, compute, stages, traffic, setting)
    pace = micro_batch_work(table, compute, parts, stages, setting).pace[0]
    passes = float(table.passes(setting.workload.global_batch)[0])
    run, added = time.pipeline.run, time.pipeline
    if run is None:
        busy = passes * pace - float(added.hidden[0])
        waits = 0.0 if setting.profile.pp_hidden else float(added.waits[0])
        run = Run(float(busy.max() + added.idle[0]) + waits, busy)
    busiest = float(run.busy.max())
    return Pipeline(
        bubble_of_total=1 - float(run.busy.mean()) / run.span,
        imbalance=busiest / float(run.busy.mean()) - 1,
        limiting_stage=int(np.argmax(run.busy > busiest * (1 - EQUAL))),
        timed_by="formula" if added.run is None else "simulation",
    )


def memory_report(layout: Layout, setting: Setting) -> Memory:
    """Return the bytes of every stage, its six parts and their lines."""
    table = LayoutTable.of([layout])
    code = int(table.schedule[0])
    stages = every_stage(layout.pp, layout.vpp, setting, layout.stage_layers, code, table.recomputed)
    lines = memory_lines(table, stages, setting)
    held = stages_in_flight(table, stages, setting)
    rows = tuple(_stage(i, lines, stages, float(held[0, i])) for i in range(layout.pp))
    heaviest = max(rows, key=lambda row: (row.total_bytes, -row.stage))
    spare = heaviest.activations_bytes + heaviest.buffers_bytes
    return Memory(
        limit_bytes=setting.memory_limit_bytes,
        peak_bytes=heaviest.total_bytes,
        peak_upper_bytes=heaviest.total_bytes + math.ceil(spare * setting.profile.fragmentation_upper),
        peak_stage=heaviest.stage,
        headroom_bytes=setting.memory_limit_bytes - heaviest.total_bytes,
        stages=rows,
    )


def _stage(index: int, lines: dict[str, NDArray[np.int64]], stages: Stages, held: float) -> StageMemory:
    details = {name: int(value[0, index]) for name, value in lines.items() if value[0, index]}
    parts = {f"{part}_bytes": sum(v for n, v in details.items() if PART_OF_LINE[n] == part) for part in PARTS}
    return StageMemory(
        stage=index,
        layers=float(stages.dense[0, index] + stages.sparse[0, index]),
        in_flight=held,
        **parts,
        total_bytes=sum(parts.values()),
        details=details,
    )


def _warnings(layout: Layout, setting: Setting) -> tuple[str, ...]:
    """What a reader should know about this layout before he trusts or starts it."""
    domain = setting.cluster.tiers[0]
    fast = domain.gpus or setting.gpus
    found = []
    if layout.tp > 1 and (layout.tp > fast or fast % layout.tp):
        found.append(
            f"TP {layout.tp} leaves the {domain.name} domain of {fast} GPUs: its traffic crosses the network."
        )
    if layout.micro_batches < layout.pp:
        found.append(
            f"{layout.micro_batches} micro-batches on {layout.pp} stages: the pipeline is mostly idle."
        )
    if _recomputes_unevenly(layout):
        found.append(UNEVEN)
    return (*found, *_offloaded(layout, setting), *band_warnings(setting, layout))


def _offloaded(layout: Layout, setting: Setting) -> tuple[str, ...]:
    """What the hosts must hold, whose memory no catalogue knows."""
    if not setting.offloaded:
        return ()
    table = LayoutTable.of([layout])
    code = int(table.schedule[0])
    stages = every_stage(layout.pp, layout.vpp, setting, layout.stage_layers, code, table.recomputed)
    waiting = stages_in_flight(table, stages, setting) * kept_bytes(table, stages, setting)
    most = setting.offloaded * float(waiting.max()) / 1e9
    return (f"{most:.1f} GB of activations a GPU wait in the host's memory: its size is not checked.",)


UNEVEN = (
    "recompute_stage_layers differ from chunk to chunk: FlagScale takes them so "
    "(recompute_num_layers_per_stage_micro_batch); Megatron-LM's --recompute-num-layers is one for all."
)
"""Who recomputes another number of layers in every chunk (flagos-ai/FlagScale, TransformerBlock.forward)."""


def _recomputes_unevenly(layout: Layout) -> bool:
    """Whether no one number, at most all of a chunk, says what every chunk recomputes."""
    again = layout.recompute_stage_layers
    if again is None:
        return False
    return any(count < min(max(again), held) for count, held in zip(again, layout.stage_layers, strict=True))
