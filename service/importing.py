"""From the `config.json` of a caller to the architecture it became, with what was assumed and left out."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from models.base import Schema
from models.catalogue import length_warnings
from models.cost.parameters import count_parameters
from models.errors import Fault, InvalidField, LayoutError
from models.estimate import Assumption
from models.huggingface import Reading, read_config
from service.architectures import ModelEntry, flops_per_token, read_length
from service.sentences import explain
from service.unmodelled import unmodelled

Part = TypeVar("Part")

SOURCE = "the hf_config of the request"


class ImportRequest(Schema):
    """A `config.json` to read."""

    hf_config: dict[str, Any]
    """The content of a Hugging Face `config.json`, whole; or a decoder's widths under their usual names."""


class ImportedModel(ModelEntry):
    """The architecture a configuration became."""

    warnings: tuple[str, ...]
    """What the configuration says and we do not model, and a sequence longer than it was made for."""


def import_architecture(body: Any, parameters: Mapping[str, Any]) -> ImportedModel:
    """Read a request to import, or raise InvalidField with every fault of it and of its parameters."""
    faults: list[Fault] = []
    length = _attempt(faults, lambda: read_length(parameters))
    reading = _attempt(faults, lambda: _read(body))
    if faults or reading is None or length is None:
        raise InvalidField(*faults)
    architecture = reading.architecture
    counts = count_parameters(architecture)
    stated = tuple(Assumption(field=field, value=value, why=why) for field, value, why in reading.defaults)
    return ImportedModel(
        name=architecture.name,
        architecture=architecture,
        parameters=counts,
        flops_per_token=flops_per_token(architecture, length[0]),
        sources={"all": SOURCE},
        assumptions=stated + length[1],
        warnings=(
            *reading.warnings,
            *unmodelled(body["hf_config"], counts),
            *length_warnings(architecture, length[0]),
        ),
    )


def _read(body: Any) -> Reading:
    """What the configuration says; the faults of the request around it are told beside its own."""
    faults: list[Fault] = []
    try:
        ImportRequest.model_validate(body)
    except ValidationError as error:
        faults += explain(error.errors(), body, ImportRequest)
    config = body.get("hf_config") if isinstance(body, Mapping) else None
    reading = (
        _attempt(faults, lambda: read_config(config, "/hf_config")) if isinstance(config, dict) else None
    )
    if faults or reading is None:
        raise InvalidField(*faults)
    return reading


def _attempt(faults: list[Fault], part: Callable[[], Part]) -> Part | None:
    try:
        return part()
    except LayoutError as error:
        faults += error.faults
        return None
