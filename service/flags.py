"""From the flags of the command line to the JSON the API takes."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from models.errors import Fault, InvalidField
from service.body import BadBody, read_json

LISTS_IN_A_VALUE = ("rank_order", "stage_layers")
"""Knobs whose single value is a list, written with dashes: tp-cp-ep-dp-pp."""


def read_file(name: str, flag: str) -> Any:
    """Parse a JSON file, or standard input where the name is "-"."""
    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return read_json(content)
    except OSError as error:
        fault = Fault(flag, name, f"the file cannot be read: {error.strerror}", "Name a readable file.")
        raise InvalidField(fault) from error
    except BadBody as error:
        reason = error.fault.reason.replace("the body", "the file")
        raise InvalidField(Fault(flag, name, reason, error.fault.fix)) from error


def name_or_file(text: str, flag: str, key: str | None = None) -> Any:
    """Take a catalogue name as it is; read a path to a JSON file, and put it under `key`.

    >>> name_or_file("llama-3-8b", "--model", "hf_config")
    'llama-3-8b'
    """
    if not (text.endswith(".json") or "/" in text):
        return text
    content = read_file(text, flag)
    return content if key is None or (isinstance(content, dict) and key in content) else {key: content}


def knob(text: str) -> tuple[str, Any]:
    """Read one --set KNOB=VALUE, KNOB=a,b or KNOB=a..b.

    >>> knob("tp=8"), knob("zero=1,2"), knob("pp=4..16"), knob("cp=..2")
    (('tp', 8), ('zero', [1, 2]), ('pp', {'min': 4, 'max': 16}), ('cp', {'max': 2}))
    """
    name, value = _pair(text, "--set")
    if ".." in value:
        ends = zip(("min", "max"), value.split("..", 1), strict=True)
        return name, {end: _scalar(number) for end, number in ends if number}
    if "," in value:
        return name, [_one(name, item) for item in value.split(",")]
    return name, _one(name, value)


def layout(texts: Sequence[str]) -> dict[str, Any]:
    """Read --layout tp=8,pp=16,rank_order=tp-cp-ep-dp-pp.

    >>> layout(["tp=8,pp=2", "stage_layers=16-16"])
    {'tp': 8, 'pp': 2, 'stage_layers': [16, 16]}
    """
    pairs = [_pair(part, "--layout") for text in texts for part in text.split(",")]
    return {name: _one(name, value) for name, value in pairs}


def _pair(text: str, flag: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name.strip() and equals and value.strip()):
        raise InvalidField(Fault(flag, text, "not of the form KNOB=VALUE", f"Write {flag} tp=8."))
    return name.strip().replace("-", "_"), value.strip()


def _one(name: str, value: str) -> Any:
    if name in LISTS_IN_A_VALUE:
        return [_scalar(item) for item in value.split("-")]
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
            if isinstance(value, dict) and key not in ("model", "cluster"):
                if value := {k: v for k, v in value.items() if v is not None}:
                    merged[key] = merge(merged.get(key, {}), value)
            elif value is not None:
                merged[key] = value
    return merged
