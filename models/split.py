"""How a training framework is told which layers go to which pipeline stage."""

from typing import Literal

from models.base import Schema

Way = Literal["even", "ends_counted", "ends_given", "layout", "lighter_ends", "modules"]


class SplitWay(Schema):
    """One way to say a split of layers to one framework."""

    framework: Literal["megatron", "torchtitan"]
    """Who understands it; DeepSpeed and nanotron weigh the layers and split them themselves."""
    way: Way
    """`even` needs nothing said; `ends_counted` counts the embedding, the loss or both as a layer;
    `ends_given` states the first or the last rank's layers; `layout` and `modules` list every chunk;
    `lighter_ends` states how many layers less the first and the last chunk have."""
    settings: dict[str, int | bool | str]
    """Flags or configuration fields with their values; what is not there stays unset."""


class SplitReport(Schema):
    """How a layout's `stage_layers` is told to the frameworks that run its schedule."""

    how: tuple[SplitWay, ...]
    """Every way, each framework's plainest first; none where no stock framework runs the schedule."""
