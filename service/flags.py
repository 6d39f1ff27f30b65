"""From the flags of the command line to the JSON the API takes."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from models.errors import Fault, InvalidField
from service.body import BadBody, read_json
from service.files import read_bounded
from service.measured.reader import stated_runs
from service.settings import PREFIX, read_settings

LISTS_IN_A_VALUE = ("rank_order", "stage_layers", "recompute_stage_layers", "recompute_modules")
"""Knobs whose single value is a list, written with dashes: tp-cp-ep-dp-pp."""
ALL_OF_THEM = "recompute_modules"
"""The one of them that takes no alternatives: after --set, commas join its list too."""
WORKLOAD = {"sequence": "sequence_length"} | {
    name: name
    for name in ("global_batch", "precision", "optimizer", "gradient_dtype", "gradient_reduce_dtype")
}
"""Flag to the field of the workload it sets."""


def read_file(name: str, flag: str) -> Any:
    """Parse a JSON file no larger than a body of the API; standard input where the name is "-"."""
    content = read_bounded(name, flag, read_settings().max_body_bytes, f"{PREFIX}MAX_BODY_BYTES")
    try:
        return read_json(content)
    except BadBody as error:
        raise InvalidField(*(_of_file(name, flag, fault) for fault in error.faults)) from error


def _of_file(name: str, flag: str, fault: Fault) -> Fault:
    place = f"at {fault.field}, " if fault.field else ""
    return Fault(flag, name, place + fault.reason.replace("the body", "the file"), fault.fix)


def name_or_file(text: str, flag: str, key: str | None = None) -> Any:
    """Take a catalogue name as it is; read a path to a JSON file, and put it under `key`.

    >>> name_or_file("llama-3-8b", "--model", "hf_config")
    'llama-3-8b'
    """
    if not (text.endswith(".json") or "/" in text):
        return text
    content = read_file(text, flag)
    return content if key is None or (isinstance(content, dict) and key in content) else {key: content}


def question(flags: Mapping[str, Any]) -> Any:
    """Lay the flags that every question has over the request file, by the fields they set."""
    base = read_file(flags["request"], "--request") if flags["request"] else {}
    model, cluster = flags["model"], flags["cluster"]
    return merge(base, {
        "model": name_or_file(model, "--model", "hf_config") if model else None,
        "cluster": name_or_file(cluster, "--cluster") if cluster else None,
        "workload": {field: flags[name] for name, field in WORKLOAD.items()},
        "stack": values(flags["stack"] or (), "--stack"),
        "calibration": own_runs(flags["calibration"]) if flags["calibration"] else None,
        **{name: flags[name] for name in ("gpus", "framework", "profile")},
    })  # fmt: skip


def own_runs(name: str) -> Any:
    """Read what a fit wrote, or a CSV file of runs as the request states them."""
    flag = "--calibration"
    return stated_runs(Path(name), flag) if name.endswith(".csv") else read_file(name, flag)


def constraints(texts: Sequence[str], limit: int | None) -> dict[str, Any]:
    """Read every --set KNOB=VALUE, KNOB=a,b or KNOB=a..b, and what --memory-limit-bytes says.

    >>> constraints(["tp=8", "zero=1,2", "pp=4..16", "cp=..2"], None)
    {'tp': 8, 'zero': [1, 2], 'pp': {'min': 4, 'max': 16}, 'cp': {'max': 2}}
    """
    stated = [("--set", text) for text in texts]
    stated += [] if limit is None else [("--memory-limit-bytes", f"memory_limit_bytes={limit}")]
    return _once(stated, _choice)


def layout(texts: Sequence[str]) -> dict[str, Any]:
    """Read --layout tp=8,pp=16,rank_order=tp-cp-ep-dp-pp.

    >>> layout(["tp=8,pp=2", "stage_layers=16-16"])
    {'tp': 8, 'pp': 2, 'stage_layers': [16, 16]}
    """
    return _once([("--layout", part) for text in texts for part in _parts(text)], _one)


def values(texts: Sequence[str], flag: str) -> dict[str, Any]:
    """Read every FLAG KNOB=VALUE.

    >>> values(["fused_loss=true", "attention-kernel=flash3"], "--stack")
    {'fused_loss': True, 'attention_kernel': 'flash3'}
    """
    return _once([(flag, text) for text in texts], _one)


def _once(stated: Sequence[tuple[str, str]], read: Callable[[str, str], Any]) -> dict[str, Any]:
    """Read KNOB=VALUE texts, each with its flag; or raise InvalidField with all that is wrong of them."""
    found: dict[str, Any] = {}
    first: dict[str, str] = {}
    faults: list[Fault] = []
    for flag, text in stated:
        try:
            name, value = _pair(text, flag)
            if name in found:
                reason = f"{name} is said already, by {first[name]}"
                raise InvalidField(Fault(flag, text, reason, "Keep one."))
            found[name], first[name] = read(name, value), f"{flag} {text}"
        except InvalidField as error:
            faults += error.faults
    if faults:
        raise InvalidField(*faults)
    return found


def _pair(text: str, flag: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    name, value = name.strip().replace("-", "_"), value.strip()
    if not (name and equals and value.strip(".")):
        fix = f"Write {flag} {name or 'KNOB'}=VALUE."
        raise InvalidField(Fault(flag, text, "not of the form KNOB=VALUE", fix))
    if _parted_wrongly(name, value, flag):
        fix = f"Write {flag} {name}={'-'.join(item.strip() for item in value.split(','))}."
        raise InvalidField(Fault(flag, text, "the items of one list are joined by dashes", fix))
    return name, value


def _parted_wrongly(name: str, value: str, flag: str) -> bool:
    """Whether commas part the items of one list, where they part knobs or alternatives."""
    if name not in LISTS_IN_A_VALUE or "," not in value:
        return False
    return flag != "--set" or (name != ALL_OF_THEM and "-" not in value)


def _parts(text: str) -> list[str]:
    """The KNOB=VALUE texts between commas; items of a list that commas were put between stay together.

    >>> _parts("tp=8,stage_layers=7,8,8,pp=3")
    ['tp=8', 'stage_layers=7,8,8', 'pp=3']
    """
    parts: list[str] = []
    for part in text.split(","):
        if parts and "=" not in part and parts[-1].partition("=")[0] in LISTS_IN_A_VALUE:
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    return parts


def _choice(name: str, value: str) -> Any:
    """A value, some to choose among, or a range."""
    if ".." in value:
        ends = zip(("min", "max"), value.split("..", 1), strict=True)
        return {end: _scalar(number) for end, number in ends if number}
    if "," in value and name != ALL_OF_THEM:
        return [_one(name, item) for item in value.split(",")]
    return _one(name, value)


def _one(name: str, value: str) -> Any:
    if name in LISTS_IN_A_VALUE:
        return [_scalar(item) for item in value.replace(",", "-").split("-")]
    return _scalar(value)


def _scalar(text: str) -> Any:
    """A number or a truth value where it reads as one, else the text."""
    try:
        value = json.loads(text.strip())
    except (ValueError, RecursionError):
        return text.strip()
    return value if isinstance(value, (int, float, bool)) else text.strip()


def merge(base: Any, *overlays: dict[str, Any]) -> Any:
    """Lay flags over a request: objects are merged, what a flag leaves out is kept.

    >>> merge({"gpus": 8, "workload": {"precision": "bf16"}}, {"gpus": None, "workload": {"global_batch": 4}})
    {'gpus': 8, 'workload': {'precision': 'bf16', 'global_batch': 4}}
    """
    if not isinstance(base, dict):
        return base
    merged = dict(base)
    for overlay in overlays:
        for key, value in overlay.items():
            if isinstance(value, dict) and key not in ("model", "cluster", "calibration"):
                if value := {k: v for k, v in value.items() if v is not None}:
                    merged[key] = merge(merged.get(key, {}), value)
            elif value is not None:
                merged[key] = value
    return merged
