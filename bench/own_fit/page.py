"""The section of docs/accuracy.md on users' own runs."""

from typing import Any

from models.catalogue.own_runs import own_runs_rules

HEAD = """## Step time after adapting to own runs

`layout-search validate RUNS.csv --fit OUT.json` adapts the profile to the runs of one cluster, and a request
takes the file, or the runs themselves, as its `calibration`. {count} multipliers may move (`own-runs.toml`).
Of the fitted coefficients the others stay, since one cluster's runs do not tell them apart: they act on the
same steps in the same proportion (`wave_loss`, `matmul_shape_loss` beside `matmul`), or only as the job grows
(`straggling`). Each is pulled to 1 by how far published sources lie apart in it, each predicted by
coefficients fitted without it:

{spreads}

A configuration scatters {dense:.1%} (dense) and {moe:.0%} (MoE) around what its cluster's own multipliers
make of it. With one run the shift is small and goes where that run's time goes; with many the runs decide.

What it gives, by `python bench/own_runs.py`: a source's runs on one type of GPU stand for a cluster. The
profile is the one fitted without the source, the spreads are those of the other sources. k configurations are
drawn, one run of each is adapted to, and all runs of the cluster's other configurations are predicted, of
clusters that leave two configurations or more; {draws} draws. Errors are mean absolute ones of a cluster;
`inside` is the part of those runs inside their bands, half-widths are of the logarithm of the time.
"""


def section(found: dict[str, Any]) -> str:
    """Return the section."""
    terms = own_runs_rules().terms
    spreads = ", ".join(f"`{name}` {spread:.0%}" for name, spread in found["spreads"].items())
    head = HEAD.format(count=len(terms), spreads=spreads + ".", draws=found["draws"], **found["scatter"])
    return "\n".join([head, _summary(found), _clusters(found)])


def _summary(found: dict[str, Any]) -> str:
    lines = [
        "| own runs | clusters | mean over clusters: before → after | median over clusters | clusters better "
        "/ worse by 0.5 points | inside the band | half-width |",
        "|---|---|---|---|---|---|---|",
    ]
    for size, one in found["all"].items():
        lines.append(
            f"| {size} | {one['clusters']} | {one['mean']['before']:.1%} → {one['mean']['after']:.1%} "
            f"| {one['median']['before']:.1%} → {one['median']['after']:.1%} "
            f"| {one['better']} / {one['worse']} "
            f"| {one['mean']['inside_before']:.0%} → {one['mean']['inside']:.0%} "
            f"| {one['mean']['width_before']:.2f} → {one['mean']['width']:.2f} |"
        )
    return "\n".join(lines) + "\n"


def _clusters(found: dict[str, Any]) -> str:
    sizes = list(found["all"])
    head = " | ".join(f"{size} run{'' if size == '1' else 's'}: before → after" for size in sizes)
    lines = [f"| source, GPU | configurations | {head} |", "|---|---|" + "---|" * len(sizes)]
    for name, one in found["clusters"].items():
        cells = [_cell(one["drawn"].get(size)) for size in sizes]
        lines.append(f"| {name} | {one['configurations']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(one: dict[str, float] | None) -> str:
    return "" if one is None else f"{one['before']:.1%} → {one['after']:.1%}"
