"""Rows of the committed file of measured runs, as they are and with cells changed."""

import csv
import importlib
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from service.measured import ValidateAnswer, read_runs, validate
from service.measured.run import MeasuredRun
from tests.service.conftest import ROOT

RUNS = ROOT / "bench" / "data" / "runs.csv"


@cache
def rows() -> dict[str, dict[str, str]]:
    with RUNS.open(encoding="utf-8", newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def written(tmp_path: Path, found: list[dict[str, str]], columns: list[str] | None = None) -> Path:
    path = tmp_path / "runs.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns or list(found[0]), extrasaction="ignore")
        writer.writeheader()
        writer.writerows(found)
    return path


def edited(tmp_path: Path, run: str, **cells: str) -> Path:
    return written(tmp_path, [rows()[run] | cells])


def one(tmp_path: Path, run: str, **cells: str) -> MeasuredRun:
    return read_runs(edited(tmp_path, run, **cells))[0]


@cache
def answer() -> ValidateAnswer:
    return validate(read_runs(RUNS), "calibrated")


@cache
def bench() -> ModuleType:
    """`bench/accuracy.py`, as a script beside its own modules."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "bench"))
        return importlib.import_module("accuracy")
