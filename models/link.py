"""How a kind of link carries collectives: the few constants their time model reads, by fabric class.

Values and sources stand in `models/catalogue/collectives/<class>.toml`; the equations in
`models/cost/network/collective_algorithms.py`.
"""

from typing import Annotated

from pydantic import Field

from models.base import Schema, Seconds

Part = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Length = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False, json_schema_extra={"unit": "B"})]
Blocks = Annotated[float, Field(gt=-0.9, le=4, allow_inf_nan=False)]

FRACTIONS = ("fraction", "exchange_fraction", "multicast_fraction")
"""Constants that are parts of a tier's bandwidth."""


class LinkClass(Schema):
    """Constants of one fabric class; the defaults are an ideal link's."""

    start_s: Seconds = 0.0
    """Start of a collective of GPUs that meet on this tier first: launch, barrier, first post."""
    step_s: Seconds = 0.0
    """One step over this tier, in the protocol for short messages."""
    fraction: Part = 1.0
    """Part of the tier's bandwidth that a ring or a tree reaches on long messages. [1]"""
    block_bytes: Length = 0.0
    """Block S/n at which a ring needs twice the time its bytes would take."""
    extra_blocks: Blocks = 0.0
    """Blocks of S/n a ring waits for beyond those it sends; below 0 where a pair shares no switch. [1]"""
    exchange_fraction: Part = 1.0
    """Part of the tier's bandwidth that all-to-alls and messages reach. [1]"""
    exchange_bytes: Length = 0.0
    """Payload S at which an all-to-all or a message needs twice the time its bytes would take."""
    exchange_blocks: Blocks = 0.0
    """Blocks of S/n an all-to-all waits for beyond n - 1: the copy of a rank's own block. [1]"""
    multicast_fraction: Part | None = None
    """Part of the bandwidth reached where the switch reduces and multicasts; null where it does not. [1]"""
    multicast_block_bytes: Length = 0.0
    """As `block_bytes`, for the switch's own reductions."""
    network: bool = False
    """Joins servers; the protocols that long messages change to are those inside them."""
    mesh: bool = False
    """GPUs are joined in pairs: a group of m in a unit of U has (m - 1)/(U - 1) of the bandwidth."""

    def scaled(self, network: float) -> "LinkClass":
        """Return the class at another rate between servers, where it joins them; never above its bandwidth.

        >>> LinkClass(fraction=0.8, network=True).scaled(0.5).fraction
        0.4
        >>> LinkClass(fraction=0.8).scaled(0.5).fraction
        0.8
        """
        if network == 1.0 or not self.network:
            return self
        rates = {name: getattr(self, name) for name in FRACTIONS}
        return self.model_copy(
            update={name: min(1.0, rate * network) for name, rate in rates.items() if rate is not None}
        )
