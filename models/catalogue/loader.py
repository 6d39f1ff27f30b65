"""The catalogue's files: one thing a file, every number with its source.

A file holds the fields of its schema and a table `sources`, keyed by field; the key `all` speaks
for every field that has no key of its own. A file that holds only `same_as` is a second name.
"""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from models.architecture import Architecture
from models.errors import UnknownEntry
from models.hardware import Cluster, Gpu

Kind = Literal["architectures", "gpus", "clusters"]


def architecture_names() -> tuple[str, ...]:
    """Names of the architectures, sorted."""
    return names("architectures")


def gpu_names() -> tuple[str, ...]:
    """Names of the GPUs, sorted."""
    return names("gpus")


def cluster_names() -> tuple[str, ...]:
    """Names of the clusters, sorted."""
    return names("clusters")


@cache
def names(kind: Kind) -> tuple[str, ...]:
    """Names of one kind, sorted: the files' names without their ending.

    >>> "h100-sxm" in names("gpus")
    True
    """
    folder = files("models.catalogue") / kind
    return tuple(sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml")))


def architecture(name: str, field: str = "/model") -> Architecture:
    """Return an architecture by its name, or raise UnknownEntry at `field`."""
    _check("architectures", name, field)
    return _architecture(name)


def gpu(name: str, field: str = "/cluster/gpu") -> Gpu:
    """Return a GPU by its name, or raise UnknownEntry at `field`."""
    _check("gpus", name, field)
    return _gpu(name)


def cluster(name: str, field: str = "/cluster") -> Cluster:
    """Return a cluster by its name, or raise UnknownEntry at `field`."""
    _check("clusters", name, field)
    return _cluster(name)


def sources(kind: Kind, name: str) -> dict[str, str]:
    """Where each number of an entry comes from, by field.

    >>> sources("gpus", "h100-sxm")["usable_memory_bytes"].startswith("deviceQuery")
    True
    """
    _check(kind, name, f"/{kind}")
    return dict(_read(kind, name)["sources"])


def _check(kind: Kind, name: str, field: str) -> None:
    """Only names that were listed are ever opened, so no name can reach outside the folder."""
    if name not in names(kind):
        raise UnknownEntry.among(field, name, names(kind))


@cache
def _architecture(name: str) -> Architecture:
    return Architecture.model_validate(_fields("architectures", name))


@cache
def _gpu(name: str) -> Gpu:
    return Gpu.model_validate(_fields("gpus", name))


@cache
def _cluster(name: str) -> Cluster:
    fields = _fields("clusters", name)
    return Cluster.model_validate({**fields, "gpu": gpu(fields["gpu"])})


def _fields(kind: Kind, name: str) -> dict[str, Any]:
    return {"name": name} | {key: value for key, value in _read(kind, name).items() if key != "sources"}


@cache
def _read(kind: Kind, name: str) -> dict[str, Any]:
    entry = tomllib.loads((files("models.catalogue") / kind / f"{name}.toml").read_text(encoding="utf-8"))
    return _read(kind, entry["same_as"]) if "same_as" in entry else entry
