"""Measured collectives by machine, as arrays the time model takes."""

import csv
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.cost.network.collective_time import OPERATIONS, collective_time
from models.cost.network.collective_wire import Wire
from models.hardware import Tier
from models.link import LinkClass

DATA = Path(__file__).parents[1] / "data"
MIB = 2.0**20
FORCED = "Ring (NVLS off)"
"""Algorithm of rows measured with the switch's own turned off: told, never fitted."""


@dataclass(frozen=True)
class Rows:
    """One machine's rows; arrays are (N,)."""

    machine: str
    classes: tuple[str, ...]
    """Fabric class of each tier, innermost first."""
    tiers: tuple[Tier, ...]
    operation: NDArray[np.int64]
    gpus: NDArray[np.int64]
    payload: NDArray[np.float64]
    """[B]"""
    seconds: NDArray[np.float64]
    """Measured. [s]"""
    forced: NDArray[np.bool_]

    @property
    def large(self) -> NDArray[np.bool_]:
        """Rows above 1 MiB."""
        return self.payload > MIB

    @property
    def members(self) -> NDArray[np.int64]:
        """Ranks on each tier, (N, K): whole units are filled first."""
        inner = [np.minimum(self.gpus, tier.gpus or 0) for tier in self.tiers[:-1]]
        return np.stack([*inner, self.gpus], axis=1)

    def where(self, mask: NDArray[np.bool_]) -> "Rows":
        """Some of the rows."""
        arrays = ("operation", "gpus", "payload", "seconds", "forced")
        return replace(self, **{name: getattr(self, name)[mask] for name in arrays})

    def decided_by(self, name: str) -> "Rows":
        """Rows whose group crosses a tier of a class and none outside it, forced ones left out."""
        inner = np.concatenate([np.ones((len(self.gpus), 1)), self.members[:, :-1]], axis=1)
        outermost = len(self.tiers) - 1 - (self.members > inner)[:, ::-1].argmax(axis=1)
        return self.where((np.array(self.classes)[outermost] == name) & ~self.forced)

    def predicted(self, links: dict[str, LinkClass]) -> NDArray[np.float64]:
        """Seconds of each row under the constants of its classes; a tier it does not cross needs none."""
        wire = Wire.of(self.tiers, [links.get(name, LinkClass()) for name in self.classes])
        return collective_time(self.operation, self.payload, self.members, wire).seconds


def read_rows() -> list[Rows]:
    """Rows of every machine that is not left out, in the order of collective_machines.toml."""
    with (DATA / "collectives.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    machines = tomllib.loads((DATA / "collective_machines.toml").read_text(encoding="utf-8"))
    assert {row["machine"] for row in table} == set(machines)
    kept = {name: entry["tiers"] for name, entry in machines.items() if "left_out" not in entry}
    return [_machine(name, tiers, table) for name, tiers in kept.items()]


def left_out() -> dict[str, str]:
    """Machines that are left out, and why."""
    machines = tomllib.loads((DATA / "collective_machines.toml").read_text(encoding="utf-8"))
    return {name: entry["left_out"] for name, entry in machines.items() if "left_out" in entry}


def _machine(name: str, tiers: list[tuple[str, int, float]], table: list[dict[str, str]]) -> Rows:
    rows = [row for row in table if row["machine"] == name]
    return Rows(
        machine=name,
        classes=tuple(tier[0] for tier in tiers),
        tiers=tuple(Tier(name=t[0], gpus=t[1] or None, bandwidth_bytes_per_s=t[2]) for t in tiers),
        operation=np.array([OPERATIONS.index(row["op"]) for row in rows]),  # type: ignore[arg-type]
        gpus=np.array([int(row["gpus"]) for row in rows]),
        payload=np.array([float(row["bytes"]) for row in rows]),
        seconds=np.array([float(row["time_s"]) for row in rows]),
        forced=np.array([row["algorithm"] == FORCED for row in rows]),
    )
