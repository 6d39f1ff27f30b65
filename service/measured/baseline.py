"""The least a prediction must beat: one constant MFU for each GPU and precision.

    step = FLOPs / (GPUs u peak)

with u from the other sources' runs on that GPU in that precision, so that no run is predicted from its own.
"""

from collections.abc import Sequence
from statistics import median

from service.measured.cases import Case
from service.measured.throughput import step_flops


def constant_rate_seconds(cases: Sequence[Case]) -> list[float | None]:
    """Step time of each run at the median FLOP rate of other sources' runs on its GPU and precision. [s].

    FLOPs are the model's, attention causal. None where no other source has that GPU and precision.

    Parameters
    ----------
    cases
        With a measured time each, (N,).
    """
    work = [step_flops(case.setting, case.layout, "causal") / case.gpus for case in cases]
    rates: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for case, flops in zip(cases, work, strict=True):
        if case.measured_step_s is not None:
            found = rates.setdefault((case.gpu, case.precision), [])
            found.append((case.source, flops / case.measured_step_s))
    seconds: list[float | None] = []
    for case, flops in zip(cases, work, strict=True):
        others = [rate for source, rate in rates[case.gpu, case.precision] if source != case.source]
        seconds.append(flops / median(others) if others else None)
    return seconds
