"""What the contract names and this version does not do yet: refused by name, never ignored."""

VALUES: dict[str, tuple[str, ...]] = {
    "framework": ("megatron", "megatron-bridge", "torchtitan", "deepspeed", "nanotron"),
    "gradient_dtype": ("fp8",),
    "gradient_reduce_dtype": ("fp8",),
}
"""Field name to the values that are known to the contract but not built yet."""

PATHS: tuple[str, ...] = (
    "/v1/review", "/v1/sweeps", "/v1/jobs", "/v1/launch", "/metrics",
)  # fmt: skip
"""Paths of the contract that do not answer yet."""


def value_reason(name: str, value: object) -> str | None:
    """Why a value of the contract is refused, or None for one it does not know.

    >>> value_reason("gradient_dtype", "fp8")
    "'fp8' is known to the contract, but not built yet"
    """
    if value in VALUES.get(name, ()):
        return f"{value!r} is known to the contract, but not built yet"
    return None
