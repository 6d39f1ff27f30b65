"""Bytes each parameter and each activation costs under a precision and an optimizer."""

from typing import Annotated

from pydantic import Field

from models.base import Schema

Size = Annotated[float, Field(ge=0, le=64, allow_inf_nan=False, json_schema_extra={"unit": "B"})]


class Recipe(Schema):
    """Bytes by what they are; values and sources stand in `models/catalogue/recipes.toml`."""

    weight: Size
    """The weight the matrix products read, with its copies. [B]"""
    gradient: Size
    """The gradient kept over the micro-batches. [B]"""
    gradient_sent: Size
    """The gradient on the wire. [B]"""
    weight_sent: Size
    """The weight on the wire after an optimizer step. [B]"""
    master: Size
    """The copy the optimizer steps; 0 where the weight itself is stepped. [B]"""
    moments: Size
    """The optimizer's moments of a matrix in the layers. [B]"""
    end_moments: Size
    """Those of the embedding and the head, which some optimizers treat apart. [B]"""
    activation: Size
    """One stored activation. [B]"""
    product_input: Size
    """One stored input of a matrix product. [B]"""

    @property
    def optimizer(self) -> float:
        """Master weight and moments of a layer's parameter. [B]."""
        return self.master + self.moments

    @property
    def end_optimizer(self) -> float:
        """Master weight and moments of an embedding's or head's parameter. [B]."""
        return self.master + self.end_moments
