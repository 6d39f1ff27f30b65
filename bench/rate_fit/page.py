"""The step-time section of docs/accuracy.md."""

from typing import Any

from models.catalogue.profiles import coefficients, profile

HEAD = """## Step time: what the fit claims

`python bench/fit.py` finds {coefficients} coefficients (`calibrated-rates.toml`, each with unit, range,
belief and source) from {runs} runs of `bench/data/runs.csv` (confidence high or medium, step time known).
What counts is how far off a run is that was no part of the fit: fitted again without each source,
without each model of a source, and without each generation of GPUs. Errors are of the step time, row by row.

Structure and beliefs were chosen by people who had seen these runs: on runs nobody has seen, expect
somewhat more. Where a source is the only one with a GPU or a kernel, leaving it out leaves the belief alone.
"""


def section(found: dict[str, Any]) -> str:
    """Return the section."""
    views = {
        "without its source": found["left_out"]["source"],
        "without its model": found["left_out"]["model"],
        "without its GPU generation": found["left_out"]["generation"],
        "fitted to it": found["fitted"],
    }
    parts = [HEAD.format(**found), _summary(views), _sources(views), _worst(found), _bands(found), _values()]
    return "\n".join(parts)


def _summary(views: dict[str, dict[str, Any]]) -> str:
    lines = [
        "| predicted | mean | median | bias | dense | MoE | configurations once | pairs > 8 % apart in order "
        "| chosen over best, mean / most |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, one in views.items():
        every, far = one["all"], one["pairs"]["over_8_percent"]
        once, cost = one["configurations_once"], one["chosen_over_best"]
        lines.append(
            f"| {name} | {every['mean']:.1%} | {every['median']:.1%} | {every['bias']:+.1%} "
            f"| {one['dense']['mean']:.1%} / {one['dense']['median']:.1%} "
            f"| {one['moe']['mean']:.1%} / {one['moe']['median']:.1%} "
            f"| {once['mean']:.1%} / {once['median']:.1%} "
            f"| {far['right']} of {far['pairs']} ({far['share']:.0%}) "
            f"| {cost['mean']:.1%} / {cost['most']:.1%} |"
        )
    return "\n".join(lines) + "\n"


def _sources(views: dict[str, dict[str, Any]]) -> str:
    names = ["without its source", "without its model", "fitted to it"]
    head = "| source | rows | " + " | ".join(f"{name}: mean / median / bias" for name in names) + " |"
    lines = [head, "|---|---|" + "---|" * len(names)]
    for source, one in views["fitted to it"]["by_source"].items():
        cells = [views[name]["by_source"][source] for name in names]
        told = " | ".join(f"{c['mean']:.1%} / {c['median']:.1%} / {c['bias']:+.1%}" for c in cells)
        lines.append(f"| {source} | {one['rows']} | {told} |")
    return "\n".join(lines) + "\n"


def _worst(found: dict[str, Any]) -> str:
    rows = found["left_out"]["model"]["worst"]
    told = ", ".join(f"`{name}` {off:+.0%}" for name, off in rows.items())
    return f"Furthest off without its model, one a configuration: {told}.\n"


def _bands(found: dict[str, Any]) -> str:
    known = profile("calibrated").bands
    assert known is not None
    widths = ", ".join(
        f"{kind} x{width:.2f}" for kind, width in _factors(known.model_dump(exclude={"own"})).items()
    )
    held = ", ".join(
        f"{kind} {one['inside']:.0%} of {one['rows']}" for kind, one in found["band"].items() if one["rows"]
    )
    return (
        f"Bands hold nine in ten runs of sources left out (of GPU generations left out: `unmeasured`). A "
        f"time is divided and multiplied by: {widths}. Runs inside when their source is left out: {held}.\n"
    )


def _factors(widths: dict[str, float]) -> dict[str, float]:
    return {kind: 2.718281828459045**width for kind, width in widths.items()}


def _values() -> str:
    lines = ["| coefficient | value | unit | physics allows | believed | runs |", "|---|---|---|---|---|---|"]
    for name, one in coefficients("calibrated").items():
        if one.prior is not None:
            lines.append(
                f"| `{name}` | {one.value:g} | {one.unit} | {one.low:g} to {one.high:g} "
                f"| {one.prior:g} ± {one.spread:.0%} | {one.runs} |"
            )
    return "\n".join(lines) + "\n"
