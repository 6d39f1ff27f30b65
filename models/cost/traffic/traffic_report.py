"""One layout's traffic by dimension and tier, in whole bytes that add up."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from models.cost.apportion import apportion
from models.cost.network.collective_time import ALGORITHMS
from models.cost.network.routes import wire
from models.cost.price import sent_bytes
from models.cost.setting import Setting
from models.cost.stages import Stages
from models.cost.step.step_time import StepTime, Traffic
from models.cost.table import RING, ULYSSES, LayoutTable
from models.cost.traffic.closing_traffic import Closing
from models.cost.traffic.layers import LayerTraffic
from models.cost.traffic.pipeline_traffic import busiest_messages
from models.estimate import DimensionTraffic, TierTraffic
from models.layout import Axis

Array = NDArray[np.float64]

WAITS = {"tp": True, "cp": True, "ep": True, "pp": False, "dp": False}
"""Whether compute waits for a dimension by its nature: each layer needs TP, CP and EP; PP and DP
have other micro-batches or layers to run behind."""

CLOSING: dict[Axis, str] = {
    "pp": "all_reduce of the shared embedding",
    "dp": "all_reduce of the gradient norm",
}
"""Operations that close a step, by the dimension they are told under."""
COPIES = "exchange of the stages' two copies"
"""What closes a step besides under dualpipe, told under dp."""


def dimension_traffic(
    table: LayoutTable, stages: Stages, traffic: Traffic, time: StepTime, setting: Setting
) -> tuple[DimensionTraffic, ...]:
    """Return what each dimension of more than one rank sends, then what closes the step (one layout)."""
    sent = sent_bytes(table, stages, traffic, setting)
    counts = _counts(table, stages, traffic, setting)
    hops = busiest_messages(table, setting)
    seconds = _seconds(table, stages, traffic, setting, hops)
    spent = {"pp": hops * traffic.pp.hops.seconds[0]}
    closing = () if setting.profile.real_valued_stages else _closing(traffic)
    messages = {
        "tp": traffic.tp.message,
        "cp": traffic.cp.message,
        "ep": traffic.ep.message,
        "pp": traffic.pp.message,
        "dp": traffic.dp.message,
    }
    running = tuple(
        DimensionTraffic(
            dimension=name,
            operation=operation(name, table),
            algorithm=_algorithm(name, traffic),
            per_step=counts[name],
            message_bytes=round(float(messages[name][0])),
            **_tiers(
                float(sent[name][0]),
                seconds[name],
                _shares(name, table, stages, traffic, hops),
                setting,
                spent.get(name),
                _forwarded(name, table, stages, traffic, hops),
            ),
            seconds=seconds[name],
            exposed_s=float(time.parts[f"{name}_exposed_s"][0])
            - sum(float(one.seconds[0]) for dimension, _, one in closing if dimension == name),
            waits=WAITS[name],
        )
        for name in ("tp", "cp", "ep", "pp", "dp")
        if sent[name][0] > 0
    )
    return running + _closing_lines(closing, setting)


ClosingLines = tuple[tuple[Axis, str, Closing], ...]
"""Dimension, operation and what it takes."""


def _closing(traffic: Traffic) -> ClosingLines:
    """What closes a step: an embedding two stages hold, the gradient norm, stages that are held twice."""
    return (
        ("pp", CLOSING["pp"], traffic.tied_embedding),
        ("dp", CLOSING["dp"], traffic.gradient_norm),
        ("dp", COPIES, traffic.stage_copies),
    )


def _closing_lines(closing: ClosingLines, setting: Setting) -> tuple[DimensionTraffic, ...]:
    return tuple(
        DimensionTraffic(
            dimension=name,
            operation=operation,
            algorithm=ALGORITHMS[int(one.algorithm[0])],
            per_step=1,
            message_bytes=round(float(one.message[0])),
            **_tiers(float(one.sent[0]), float(one.seconds[0]), one.shares[0], setting),
            seconds=float(one.seconds[0]),
            exposed_s=float(one.seconds[0]),
            waits=True,
        )
        for name, operation, one in closing
        if one.sent[0] > 0
    )


def _tiers(
    sent: float,
    seconds: float,
    shares: Array,
    setting: Setting,
    spent: Array | None = None,
    forwarded: Array | None = None,
) -> dict[str, object]:
    """Split a dimension's bytes and seconds over the tiers so that the parts add up to the whole.

    What is `spent` on each tier may be known; by bytes over bandwidth else, with those `forwarded` besides
    (shares of what is sent).
    """
    whole = apportion(round(sent), map(float, shares))
    passed = np.zeros_like(shares) if forwarded is None else forwarded
    busy = (shares + passed) / wire(setting).bandwidth if spent is None else spent
    part = busy / busy.sum() * seconds if busy.sum() else busy
    tiers = tuple(
        TierTraffic(
            tier=tier.name,
            sent_bytes_per_gpu=count,
            forwarded_bytes_per_gpu=round(sent * float(share)),
            seconds=float(time),
        )
        for tier, count, share, time in zip(setting.cluster.tiers, whole, passed, part, strict=True)
        if count or share
    )
    return {"sent_bytes_per_gpu": round(sent), "tiers": tiers}


def _shares(name: str, table: LayoutTable, stages: Stages, traffic: Traffic, hops: Array) -> Array:
    """Share of a dimension's bytes on each tier; where it has several groups, weighed by their bytes."""
    if name == "pp":
        return np.asarray(hops / hops.sum())
    if name == "dp":
        return _data_shares(table, traffic)
    one: LayerTraffic = getattr(traffic, name)
    weights = [_busiest(one, stages, flow.sent.on(stages)) for flow in one.flows]
    return _weighed(weights, [flow.shares[0] for flow in one.flows])


def _forwarded(name: str, table: LayoutTable, stages: Stages, traffic: Traffic, hops: Array) -> Array | None:
    """What an all-to-all passes on inside servers, as shares of what it sends, (K,); None for all others."""
    exchanges = name == "ep" or (name == "cp" and int(table.cp_comm[0]) == ULYSSES)
    if not exchanges:
        return None
    shares = _shares(name, table, stages, traffic, hops)
    return np.asarray(traffic.routes.exchanged(shares[None], name)[0] - shares)


def _data_shares(table: LayoutTable, traffic: Traffic) -> Array:
    """DP's shares on the stage that sends the most."""
    stage = int(traffic.dp.sent[0].argmax())
    weights = [float(bytes_[0, stage]) for bytes_ in traffic.dp.over.values()]
    shares = [
        traffic.routes.shares(over, traffic.dp.algorithm[over][:, stage])[0] for over in traffic.dp.over
    ]
    return _weighed(weights, shares)


def _weighed(weights: Sequence[float], shares: Sequence[Array]) -> Array:
    total = sum(weights)
    return np.asarray(np.add.reduce([w / total * share for w, share in zip(weights, shares, strict=True)]))


def _counts(table: LayoutTable, stages: Stages, traffic: Traffic, setting: Setting) -> dict[str, float]:
    runs = float(table.passes(setting.workload.global_batch)[0])
    layered = {"tp": traffic.tp, "cp": traffic.cp, "ep": traffic.ep}
    counts = {name: runs * _busiest(one, stages, one.count.on(stages)) for name, one in layered.items()}
    counts["pp"] = float(traffic.pp.count[0])
    counts["dp"] = float(traffic.dp.passes[0])
    return counts


def _seconds(
    table: LayoutTable, stages: Stages, traffic: Traffic, setting: Setting, hops: Array
) -> dict[str, float]:
    runs = float(table.passes(setting.workload.global_batch)[0])
    layered = {"tp": traffic.tp, "cp": traffic.cp, "ep": traffic.ep}
    seconds = {name: runs * _busiest(one, stages, one.seconds.on(stages)) for name, one in layered.items()}
    seconds["pp"] = float(hops @ traffic.pp.hops.seconds[0])
    stage = int(traffic.dp.sent[0].argmax())
    seconds["dp"] = float((traffic.dp.gradient_seconds + traffic.dp.weight_seconds)[0, stage])
    return seconds


def _busiest(one: LayerTraffic, stages: Stages, values: Array) -> float:
    """Value on the stage that sends the most."""
    return float(values[0, int(one.sent.on(stages)[0].argmax())])


def _algorithm(name: str, traffic: Traffic) -> str:
    """Name of what runs a dimension's collectives; DP's is its heaviest group's, on the busiest stage."""
    if name == "pp":
        return "direct"
    if name != "dp":
        one: LayerTraffic = getattr(traffic, name)
        return ALGORITHMS[int(one.algorithm[0])]
    stage = int(traffic.dp.sent[0].argmax())
    heaviest = max(traffic.dp.over, key=lambda group: float(traffic.dp.over[group][0, stage]))
    return ALGORITHMS[int(traffic.dp.algorithm[heaviest][0, stage])]


def operation(name: str, table: LayoutTable) -> str:
    """Name what a dimension runs, for the first layout of a table."""
    if name == "tp":
        return "reduce_scatter+all_gather" if table.sequence_parallel[0] else "all_reduce"
    if name == "cp":
        how = int(table.cp_comm[0])
        return {RING: "ring send_receive", ULYSSES: "all_to_all"}.get(how, "all_gather+reduce_scatter")
    if name == "dp":
        return "all_reduce" if table.zero[0] == 0 else "reduce_scatter+all_gather"
    return {"ep": "all_to_all", "pp": "send_receive"}[name]
