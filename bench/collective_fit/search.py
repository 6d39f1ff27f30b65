"""The fit itself: which constants of which class, on which rows, by a pattern search."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from collective_fit.rows import Rows
from numpy.typing import NDArray

from models.cost.network import collective_algorithms as algorithms
from models.link import LinkClass

Links = dict[str, LinkClass]
RING = ("fraction", "block_bytes", "extra_blocks")
EXCHANGE = ("exchange_fraction", "exchange_bytes", "exchange_blocks")
MULTICAST = ("multicast_fraction", "multicast_block_bytes")
NETWORK = ("step_s", "fraction", "block_bytes")
SIGNED = ("extra_blocks", "exchange_blocks")
DIGITS = 4
LEAST_OF_A_GROUP = 2
"""A group of fewer rows weighs less than one of this many."""
MOST = 0.96
"""Largest fraction of a link tried: what headers leave of it."""
ENOUGH = 8
"""Rows the other machines need on a side of 1 MiB for a machine to be left out."""
SHARED = {
    "GROWTH": (0.5, 0.55, 0.6, 0.65, 0.7, 0.75),
    "SWITCH_BLOCK": (2.0**20, 2.0**21, 2.0**22),
    "SWITCH_STEPS": (0.0, 7.0, 9.5, 12.0),
    "MULTICAST_STEPS": (7.0, 14.0, 21.0),
    "TREE_BLOCKS": (1.0, 4.0, 8.0, 12.0, 16.0),
    "LANES": (8.0, 8.5, 9.0, 9.5, 10.0),
}
"""Constants all classes share and the values `scan` tries."""


@dataclass(frozen=True)
class Plan:
    """How a class gets its constants."""

    fitted: tuple[str, ...]
    start: dict[str, float]
    """Where the search begins, and the class's flags."""
    lent: dict[str, str] = field(default_factory=dict)
    """Constants taken over from another class, for want of rows."""
    twins: dict[str, str] = field(default_factory=dict)
    """Constants taken over from another of the same class, for want of rows."""


INSIDE = {
    "start_s": 5e-6, "step_s": 1e-6, "fraction": 0.8, "block_bytes": 5e5, "extra_blocks": 0.5,
    "exchange_fraction": 0.8, "exchange_bytes": 7e6, "exchange_blocks": 0.5,
}  # fmt: skip
SWITCH = INSIDE | {"multicast_fraction": 0.6, "multicast_block_bytes": 2e6}
WITHOUT = INSIDE | {"fraction": 0.4, "extra_blocks": 0.0, "exchange_fraction": 0.3, "exchange_blocks": 0.0}
BETWEEN = {"step_s": 2e-5, "fraction": 0.9, "block_bytes": 5e6, "network": True}
LATENCY = ("start_s", "step_s")
TWINS = {"exchange_fraction": "fraction", "exchange_bytes": "block_bytes"}
CLASSES: dict[str, Plan] = {
    "nvswitch-h100": Plan((*LATENCY, *RING, *EXCHANGE, *MULTICAST), SWITCH),
    "nvswitch-b200": Plan((*LATENCY, *RING, *EXCHANGE, *MULTICAST), SWITCH),
    "nvl72": Plan((*LATENCY, *RING, *EXCHANGE, *MULTICAST), SWITCH),
    "pcie": Plan((*LATENCY, *RING, *EXCHANGE), WITHOUT),
    "nvswitch-a100": Plan((*LATENCY, *EXCHANGE), INSIDE, dict.fromkeys(RING, "nvswitch-h100")),
    "xgmi": Plan(("fraction",), {"fraction": 0.7, "extra_blocks": 0.0, "mesh": True},
                 dict.fromkeys((*LATENCY, "block_bytes", "exchange_bytes"), "nvswitch-h100"),
                 {"exchange_fraction": "fraction"}),
    "tcpx": Plan(("step_s", "fraction"), BETWEEN | {"block_bytes": 0.0}, {"start_s": "nvswitch-h100"},
                 {"exchange_fraction": "fraction"}),
} | {
    name: Plan(NETWORK, BETWEEN, {"start_s": "nvswitch-h100"}, TWINS)
    for name in ("infiniband", "roce", "efa-v1", "tcpxo")
} | {
    name: Plan(("step_s", "block_bytes"), BETWEEN,
               {"start_s": "nvswitch-h100", "fraction": "infiniband"}, TWINS)
    for name in ("efa", "roce-rccl", "pollara")
}  # fmt: skip
"""Classes in the order they are fitted. Two nodes are held up by their inside, not by the network: rows of
no more, or of NVSwitch-less nodes, cannot tell a network's fraction, which is then InfiniBand's."""


def fit_all(rows: Sequence[Rows]) -> Links:
    """Constants of every class."""
    links: Links = {}
    for name in CLASSES:
        links[name] = fit(name, rows, links)
    return links


def rows_of(name: str, rows: Sequence[Rows]) -> list[Rows]:
    """Rows a class is fitted to, by machine: those whose outermost tier crossed is of the class."""
    found = [one.decided_by(name) for one in rows]
    return [one for one in found if len(one.seconds)]


def fit(name: str, rows: Sequence[Rows], known: Links) -> LinkClass:
    """Constants of one class, those of the classes inside it being known."""
    plan, mine = CLASSES[name], rows_of(name, rows)
    fixed = {**plan.start} | {key: getattr(known[lender], key) for key, lender in plan.lent.items()}
    weights = _weights(mine)

    def link(values: NDArray[np.float64]) -> LinkClass:
        found = fixed | dict(zip(plan.fitted, values.tolist(), strict=True))
        return LinkClass(**found | {key: found[of] for key, of in plan.twins.items()})

    def loss(values: NDArray[np.float64]) -> float:
        if any(not _sane(key, value) for key, value in zip(plan.fitted, values, strict=True)):
            return np.inf
        links = known | {name: link(values)}
        errors = [np.abs(np.log(one.predicted(links) / one.seconds)) for one in mine]
        return float(weights @ np.concatenate(errors))

    start = np.array([plan.start[key] for key in plan.fitted])
    found = pattern_search(loss, start, [key in SIGNED for key in plan.fitted])
    return link(np.array([float(f"{value:.{DIGITS}g}") for value in found]))


def pattern_search(
    loss: Callable[[NDArray[np.float64]], float], start: NDArray[np.float64], signed: Sequence[bool]
) -> NDArray[np.float64]:
    """Least loss by trying each value up and down, by ratio or (signed) by difference, in shrinking steps."""
    best, least = start.copy(), loss(start)
    step = np.full(len(start), 0.3)
    while step.max() > 2e-3:
        for i in range(len(start)):
            for way in (step[i], -step[i]):
                tried = best.copy()
                tried[i] = tried[i] + way if signed[i] else tried[i] * np.exp(way)
                got = loss(tried)
                if got < least - 1e-7:
                    best, least, step[i] = tried, got, step[i] * 1.2
                    break
            else:
                step[i] *= 0.7
    return best


def leave_one_out(rows: Sequence[Rows], links: Links) -> dict[str, dict[str, dict[str, float | None]]]:
    """Median errors of each machine under constants of its class fitted without it, by class.

    Only where the other machines tell enough to fit: ENOUGH rows on each side of 1 MiB the machine has.
    """
    found: dict[str, dict[str, dict[str, float | None]]] = {}
    for name in CLASSES:
        mine = rows_of(name, rows)
        for out in mine:
            others = np.concatenate(
                [one.large for one in mine if one is not out] or [np.zeros(0, dtype=bool)]
            )
            if any((others == side).sum() < ENOUGH for side in set(out.large.tolist())):
                continue
            alone = links | {name: fit(name, [one for one in rows if one.machine != out.machine], links)}
            error = np.abs(out.predicted(alone) / out.seconds - 1)
            found.setdefault(name, {})[out.machine] = {
                "above": _median(error[out.large]),
                "below": _median(error[~out.large]),
            }
    return found


def scan(rows: Sequence[Rows]) -> str:
    """Loss over each constant all classes share, every class fitted anew at each value."""
    lines, free = [], [one.where(~one.forced) for one in rows]
    for name, values in SHARED.items():
        kept = getattr(algorithms, name)
        for value in values:
            setattr(algorithms, name, value)
            links = fit_all(rows)
            errors = np.concatenate([np.abs(np.log(one.predicted(links) / one.seconds)) for one in free])
            lines.append(f"{name} = {value:g}: {_weights(free) @ errors:.4f}")
        setattr(algorithms, name, kept)
    return "\n".join(lines)


def text(name: str, link: LinkClass, rows: Sequence[Rows]) -> str:
    """Return the class's file: each constant and where it comes from."""
    plan, mine = CLASSES[name], rows_of(name, rows)
    machines = ", ".join(f"{one.machine} ({len(one.seconds)})" for one in mine)
    fitted = "fitted: bench/fit_collectives.py on collectives.csv"
    values = link.model_dump(exclude_none=True, exclude_unset=True)
    sources = dict.fromkeys(plan.fitted, fitted)
    sources |= {key: f"as {lender}: no rows tell it here" for key, lender in plan.lent.items()}
    sources |= {key: f"as {of} of this class: no rows tell it here" for key, of in plan.twins.items()}
    sources |= {key: "assumed: no row tells it" for key in values if key not in sources}
    if link.network:
        sources["network"] = "joins servers"
    if link.mesh:
        sources["mesh"] = "rocm.blogs.amd.com, MI300X xGMI: one link between each pair of GPUs"
    lines = [f"# Rows fitted to: {machines}", *(f"{key} = {_toml(value)}" for key, value in values.items())]
    lines += ["", "[sources]", *(f'{key} = "{sources[key]}"' for key in values)]
    return "\n".join(lines) + "\n"


def _toml(value: float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:.{DIGITS}g}"


def _sane(key: str, value: float) -> bool:
    if key in SIGNED:
        return -0.6 < value < 2
    return value > 0 and (not key.endswith("fraction") or value <= MOST)


def _weights(rows: Sequence[Rows]) -> NDArray[np.float64]:
    """Weight of each row: its group's share over its group's rows."""
    keys = [
        (one.machine, *key) for one in rows for key in zip(one.operation, one.gpus, one.large, strict=True)
    ]
    count = Counter(keys)
    weights = np.array([1 / max(count[key], LEAST_OF_A_GROUP) for key in keys])
    return np.asarray(weights / weights.sum())


def _median(errors: NDArray[np.float64]) -> float | None:
    return round(float(np.median(errors)), DIGITS) if len(errors) else None
