"""An architecture as it is told: dimensions, exact counts by part, FLOPs of a token."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from models import catalogue
from models.architecture import Architecture
from models.base import Schema, SequenceLength
from models.cost.flops import token_flops
from models.cost.parameters import ParameterCounts, count_parameters
from models.errors import InvalidField
from models.estimate import Assumption
from service.sentences import explain

DEFAULT_LENGTH = 4096
"""Tokens of the sequence FLOPs are told for, unless stated: what the DeepSeek-V3 figures are given for."""
DIGITS = re.compile("[0-9]{1,400}")


class FlopsQuestion(Schema):
    """The sequence that the FLOPs of a token are told for."""

    sequence_length: SequenceLength = DEFAULT_LENGTH
    """Tokens of one sequence; its length moves the attention's FLOPs."""


class FlopsPerToken(Schema):
    """FLOPs of one token, on average over its sequence; recompute is never among them."""

    sequence_length: int
    """Tokens of the sequence."""
    matmul_forward_flops: float
    """Projections, feed-forward, router, the experts a token visits, and the output head."""
    attention_causal_forward_flops: float
    """Scores and weighted sum over the tokens before."""
    attention_whole_forward_flops: float
    """The same over the whole sequence or window, which some texts count."""
    training_causal_flops: float
    """Forward and backward, attention causal: 3 (matrix products + attention)."""
    training_whole_flops: float
    """Forward and backward, attention whole."""


class ModelEntry(Schema):
    """An architecture: its dimensions, what it holds and what a token costs."""

    name: str
    architecture: Architecture
    parameters: ParameterCounts
    """Exact counts, by part."""
    flops_per_token: FlopsPerToken
    """What a token costs in a sequence of the length asked for."""
    sources: dict[str, str]
    """Where each number comes from; `all` speaks for the fields not named."""
    assumptions: tuple[Assumption, ...]
    """What was taken without being stated."""


class Models(Schema):
    """Every architecture the catalogue holds."""

    models: tuple[ModelEntry, ...]


def read_length(parameters: Mapping[str, Any]) -> tuple[int, tuple[Assumption, ...]]:
    """Tokens of the sequence asked for, as a number or as text; or InvalidField by the parameter's name.

    >>> read_length({"sequence_length": "8192"})
    (8192, ())
    >>> read_length({})[0]
    4096
    """
    given = {name: _number(value) for name, value in parameters.items()}
    try:
        length = FlopsQuestion.model_validate(given).sequence_length
    except ValidationError as error:
        faults = explain(error.errors(), given, FlopsQuestion)
        raise InvalidField(*(replace(f, field=f.field.removeprefix("/")) for f in faults)) from error
    return length, () if given else (Assumption(field="sequence_length", value=length, why="default"),)


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and DIGITS.fullmatch(value) else value


def model_entry(name: str, parameters: Mapping[str, Any]) -> ModelEntry:
    """Look an architecture up, count its parameters and its FLOPs."""
    found = catalogue.architecture(name, "name")
    length, assumptions = read_length(parameters)
    return ModelEntry(
        name=name,
        architecture=found,
        parameters=count_parameters(found),
        flops_per_token=flops_per_token(found, length),
        sources=catalogue.sources("architectures", name),
        assumptions=assumptions,
    )


def model_entries(parameters: Mapping[str, Any]) -> Models:
    """Look every architecture up."""
    return Models(models=tuple(model_entry(name, parameters) for name in catalogue.architecture_names()))


def flops_per_token(architecture: Architecture, length: int) -> FlopsPerToken:
    """FLOPs of a token of a sequence.

    >>> shape = dict(hidden=8, layers=1, heads=2, kv_heads=1, head_size=4, ffn=32, vocabulary=16)
    >>> flops_per_token(Architecture(name="t", **shape), 100).training_causal_flops
    11328.0
    """
    told = token_flops(architecture, length)
    return FlopsPerToken(
        sequence_length=length,
        matmul_forward_flops=told.matmul_forward,
        attention_causal_forward_flops=told.attention_causal_forward,
        attention_whole_forward_flops=told.attention_whole_forward,
        training_causal_flops=told.training_causal,
        training_whole_flops=told.training_whole,
    )
