"""A profile as a request asks for it: by name, or adapted to the caller's own runs."""

from models.bands import Kind
from models.calibration import AdaptedCoefficient, Calibration
from models.catalogue.loader import gpu as known_gpu
from models.catalogue.own_runs import BASE, own_runs_rules
from models.catalogue.profiles import coefficients, profile, with_values
from models.errors import Fault, InvalidField
from models.estimate import Assumption
from models.hardware import Gpu
from models.profile import Profile
from models.request import EvaluateRequest, SearchRequest

FURTHER = 8
"""A job of more than so many times the GPUs of the largest own run is not what the own runs were: fabric and
stragglers are others. Assumed. [1]"""
AGAIN = "Make it anew: layout-search validate RUNS.csv --fit OUT.json."

Resolution = tuple[Profile, tuple[Assumption, ...], tuple[str, ...]]


def resolve_profile(request: SearchRequest | EvaluateRequest, gpu: Gpu | None) -> Resolution:
    """Return the profile of a request with what is assumed and warned of.

    Runs that were not adapted to yet say nothing here: `service` adapts to them before it asks.

    Raises
    ------
    InvalidField
        When a calibration is of another profile, cost model or GPU, or a coefficient of it is out of range.
    """
    known = profile(request.profile)
    stated = request.calibration
    if stated is not None and request.profile != BASE:
        reason = f"own runs adapt the {BASE} profile, and {request.profile} is asked for"
        raise InvalidField(Fault("/calibration", None, reason, f"Leave it out, or use profile {BASE}."))
    if not isinstance(stated, Calibration):
        return known, (), ()
    faults = _faults(stated, known, gpu)
    if faults:
        raise InvalidField(*faults)
    unlike = _unlike(request, stated)
    values = {one.name: one.adapted for one in stated.coefficients}
    return _adapted(stated, values, banded=not unlike), _told(stated), (*unlike, *_doubtful(stated))


def _adapted(stated: Calibration, values: dict[str, float], *, banded: bool) -> Profile:
    """The profile with its coefficients at the adapted values, and its bands where the runs are alike."""
    found = with_values(BASE, values)
    if found.bands is None or not banded:
        return found
    own = [band for band in stated.bands if band.configurations]
    bands = found.bands.model_copy(
        update={band.kind: band.adapted for band in own} | {"own": tuple(band.kind for band in own)}
    )
    return found.model_copy(update={"bands": bands})


def _faults(stated: Calibration, known: Profile, gpu: Gpu | None) -> list[Fault]:
    """Why a calibration is none of this question's; its figures are judged where its version is right."""
    faults = []
    if gpu is not None and stated.gpu != gpu.name:
        reason = f"made of runs on {stated.gpu}, and the cluster has {gpu.name}"
        fix = f"Leave it out, or fit to runs on {gpu.name}."
        faults.append(Fault("/calibration/gpu", stated.gpu, reason, fix))
    elif gpu is not None and gpu != known_gpu(stated.gpu, "/calibration/gpu"):
        reason = f"made of runs on the catalogue's {stated.gpu}, and the cluster's is stated inline"
        fix = f"Leave it out, or name the GPU in the cluster: {stated.gpu}."
        faults.append(Fault("/calibration/gpu", stated.gpu, reason, fix))
    if stated.cost_model != known.version:
        reason = f"made with cost model {stated.cost_model}, and this is {known.version}"
        return [*faults, Fault("/calibration/cost_model", stated.cost_model, reason, AGAIN)]
    return faults + _misfits(stated)


def _misfits(stated: Calibration) -> list[Fault]:
    """Coefficients and bands that no fit wrote."""
    found: dict[str, str | None] = {}
    seen: set[str] = set()
    for place, one in enumerate(stated.coefficients):
        twice = f"{one.name} stands twice" if one.name in seen else None
        found[f"coefficients/{place}"] = twice or _misfit(one)
        seen.add(one.name)
    least, kinds = own_runs_rules().band.least, set[Kind]()
    for place, band in enumerate(stated.bands):
        narrow = f"{band.adapted} is narrower than repeats of one configuration scatter, {least}"
        twice = f"{band.kind} stands twice" if band.kind in kinds else None
        found[f"bands/{place}"] = twice or (narrow if band.adapted < least else None)
        kinds.add(band.kind)
    return [Fault(f"/calibration/{at}", None, reason, AGAIN) for at, reason in found.items() if reason]


def _misfit(stated: AdaptedCoefficient) -> str | None:
    """Why a coefficient cannot be taken."""
    one = coefficients(BASE).get(stated.name)
    if one is None:
        return f"the cost model has no coefficient {stated.name}"
    if (stated.default, stated.unit) != (one.value, one.unit):
        return f"the profile has {one.value} [{one.unit}] for {stated.name}"
    if not one.low <= stated.adapted <= one.high:
        return f"{stated.name} {stated.adapted} is outside what physics allows, {one.low} to {one.high}"
    return None


def _told(stated: Calibration) -> tuple[Assumption, ...]:
    """How many runs, how the error changed, and what moved from what to what."""
    before, after, out = (getattr(stated.errors, name).mean for name in ("before", "after", "left_one_out"))
    value = {
        "runs": len(stated.used),
        "configurations": stated.configurations,
        "left_out": len(stated.left_out),
        "mean_error_before": before,
        "mean_error_after": after,
        "mean_error_left_one_out": out,
    }
    why = (
        f"{len(stated.used)} own runs: mean error of the step time {before:.1%} before, {after:.1%} after, "
        f"{out:.1%} for each configuration by the others"
    )
    moved = [
        Assumption(
            field=f"/calibration/coefficients/{one.name}",
            value=one.adapted,
            why=f"own runs: from {one.default:g} [{one.unit}]",
        )
        for one in stated.coefficients
    ]
    return (Assumption(field="/calibration", value=value, why=why), *moved)


def _unlike(request: SearchRequest | EvaluateRequest, stated: Calibration) -> tuple[str, ...]:
    """What of the question no own run was like, so that the published band stays."""
    found = []
    precision = request.workload.precision
    if precision not in stated.precisions:
        had = ", ".join(stated.precisions)
        found.append(f"No own run is in {precision} (they are in {had}): the published band stays.")
    if request.gpus > FURTHER * stated.most_gpus:
        found.append(
            f"{request.gpus} GPUs, and the largest own run had {stated.most_gpus}: the published band stays."
        )
    return tuple(found)


def _doubtful(stated: Calibration) -> tuple[str, ...]:
    """Warn where own runs predict each other no better than the profile does."""
    before, out = stated.errors.before.mean, stated.errors.left_one_out.mean
    if out <= before:
        return ()
    return (
        f"Own runs predict each other no better ({out:.1%}) than the profile as it stands ({before:.1%}): "
        "state more of them, or look whether all were made alike.",
    )
