"""The published runs of `data/runs.csv`, ready to be priced under one profile after another.

    cases = load()
    seconds = predict(cases, profile)   # (N,), in a fraction of a second

Everything but the pricing is done once, in `load`; `predict` groups what one table can hold.
"""

from pathlib import Path

from models.catalogue.profiles import profile
from service.measured import read_runs
from service.measured.cases import Case, cases_of, predict

RUNS = Path(__file__).parent / "data" / "runs.csv"

__all__ = ["RUNS", "Case", "claimed", "load", "predict"]


def load(csv: Path = RUNS) -> list[Case]:
    """Every run of a file that can be predicted."""
    return cases_of(read_runs(csv), profile("calibrated"))


def claimed(cases: list[Case]) -> list[Case]:
    """The runs figures are made of: confidence high or medium, step time known."""
    return [c for c in cases if c.confidence in ("high", "medium") and c.measured_step_s is not None]
