"""What the environment decides: LAYOUT_SEARCH_HOST, LAYOUT_SEARCH_PORT and kin."""

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from models.errors import InvalidField
from service.sentences import explain

PREFIX = "LAYOUT_SEARCH_"


class Settings(BaseSettings):
    """Settings of one server; the environment's prefix is LAYOUT_SEARCH_."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, use_attribute_docstrings=True)

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """Port to listen on; 0 lets the system choose."""
    max_concurrent_searches: Annotated[int, Field(ge=1, le=1024)] = 2
    """Searches computed at once, each in a thread; more of them wait."""
    max_waiting_searches: Annotated[int, Field(ge=0, le=100_000)] = 32
    """Searches that may wait; past it the answer is 503 with Retry-After."""
    retry_after_s: Annotated[int, Field(ge=1, le=3600)] = 5
    """What Retry-After says when the queue is full. [s]"""
    max_body_bytes: Annotated[int, Field(ge=1024, le=2**30)] = 4_000_000
    """Largest request body read, and largest file of a question on the command line. [B]"""
    body_timeout_s: Annotated[float, Field(gt=0, le=3600)] = 30.0
    """Longest wait for a request's body to arrive whole; past it the answer is 408. [s]"""
    log_level: Literal["critical", "error", "warning", "info", "debug"] = "info"
    """Least severe message logged."""


def read_settings(**given: Any) -> Settings:
    """Read the environment, what is given before it; or raise InvalidField by the variables' names."""
    try:
        return Settings(**given)
    except ValidationError as error:
        root = {name: given.get(name) for name in Settings.model_fields}
        faults = explain(error.errors(), root, Settings)
        names = [PREFIX + fault.field.removeprefix("/").upper() for fault in faults]
        raise InvalidField(*(replace(f, field=n) for f, n in zip(faults, names, strict=True))) from error
