"""What own runs make of the profile, as tables for people."""

from rich.console import Console

from models.calibration import Calibration
from service.tables import Column, line, print_columns


def print_calibration(console: Console, found: Calibration) -> None:
    """Print what moved, how the error changed, how wide the bands are, and which runs were left out."""
    console.print()
    head = f"Adapted to {len(found.used)} runs ({found.configurations} configurations) on {found.gpu}, "
    line(console, head + f"{', '.join(found.precisions)}, up to {found.most_gpus} GPUs", "bold")
    print_columns(console, _terms(found))
    if found.coefficients:
        print_columns(console, _coefficients(found))
    print_columns(console, _errors(found))
    print_columns(console, _bands(found))
    for one in found.left_out:
        line(console, f"Left out: {one.id}: {one.reason}", "yellow")


def _terms(found: Calibration) -> list[Column]:
    rows = found.terms
    return [
        Column("term", [one.name for one in rows], left=True),
        Column("times", [f"{one.adapted:.3f}" for one in rows]),
        Column("spread before", [f"{one.prior_spread:.0%}" for one in rows]),
        Column("after", [f"{one.posterior_spread:.0%}" for one in rows]),
        Column("what it is", [one.meaning for one in rows], left=True),
    ]


def _coefficients(found: Calibration) -> list[Column]:
    rows = found.coefficients
    return [
        Column("coefficient", [one.name for one in rows], left=True),
        Column("unit", [one.unit for one in rows], left=True),
        Column("profile", [f"{one.default:.4g}" for one in rows]),
        Column("adapted", [f"{one.adapted:.4g}" for one in rows]),
    ]


def _errors(found: Calibration) -> list[Column]:
    views = {
        "as the profile stands": found.errors.before,
        "as adapted, to these very runs": found.errors.after,
        "each configuration by the others": found.errors.left_one_out,
    }
    return [
        Column("error of the step time", list(views), left=True),
        Column("mean", [f"{one.mean:.1%}" for one in views.values()]),
        Column("median", [f"{one.median:.1%}" for one in views.values()]),
        Column("bias", [f"{one.bias:+.1%}" for one in views.values()]),
    ]


def _bands(found: Calibration) -> list[Column]:
    rows = [one for one in found.bands if one.configurations]
    return [
        Column("band, half-width", [one.kind for one in rows], left=True),
        Column("configurations", [str(one.configurations) for one in rows]),
        Column("profile", [f"{one.default:.1%}" for one in rows]),
        Column("adapted", [f"{one.adapted:.1%}" for one in rows]),
    ]
