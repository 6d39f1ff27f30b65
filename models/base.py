"""What every schema shares, and the field types that carry a unit and a sane range.

Ranges are wide enough for any machine or architecture that is planned and narrow enough
that no product of them overflows a 64-bit integer.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

LARGEST_COUNT = 1_048_576
"""The largest count anyone may state."""
Count = Annotated[int, Field(strict=True, ge=1, le=LARGEST_COUNT)]
"""A positive whole number: a degree, a number of layers, heads, experts."""

Flag = Annotated[bool, Field(strict=True)]
"""True or false, and nothing that only looks like it."""
SequenceLength = Annotated[int, Field(strict=True, ge=1, le=2**24, json_schema_extra={"unit": "tokens"})]
"""Past any context trained; its square times a width still fits 64 bits."""

Tokens = Annotated[int, Field(strict=True, ge=1, le=2**31, json_schema_extra={"unit": "tokens"})]
Bytes = Annotated[int, Field(strict=True, ge=0, le=2**53, json_schema_extra={"unit": "B"})]
SomeBytes = Annotated[int, Field(strict=True, ge=1, le=2**53, json_schema_extra={"unit": "B"})]
"""Bytes of what is of no use when it has none: a memory, a limit."""

Seconds = Annotated[
    float, Field(strict=True, ge=0, le=1000, allow_inf_nan=False, json_schema_extra={"unit": "s"})
]
BytesPerSecond = Annotated[
    float, Field(strict=True, ge=1, le=1e18, allow_inf_nan=False, json_schema_extra={"unit": "B/s"})
]
Flops = Annotated[
    float, Field(strict=True, ge=1, le=1e21, allow_inf_nan=False, json_schema_extra={"unit": "FLOP/s"})
]


class Schema(BaseModel):
    """Frozen, strict about names, described by the text under each field."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
