"""Recipes: bytes a parameter costs, read from one data file."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from models.recipe import Recipe
from models.workload import BYTES, GradientType, MasterType, Optimizer, Precision


@cache
def recipe(
    precision: Precision,
    gradient: GradientType,
    gradient_sent: GradientType,
    optimizer: Optimizer = "adam",
    master: MasterType = "fp32",
    hidden: int = 1,
) -> Recipe:
    """Return the bytes of a precision and an optimizer.

    `hidden` is what a factored optimizer's rows and columns are reckoned by.

    >>> adam = recipe("bf16", "bf16", "bf16")
    >>> adam.weight + adam.gradient + adam.optimizer
    16.0
    """
    data = _data()
    types, state = data["precision"][precision], data["optimizer"][optimizer]
    moments = 8 / hidden if state.get("factored") else state["moments"]
    return Recipe(
        weight=types["weight"],
        weight_sent=types["weight_sent"],
        gradient=BYTES[gradient],
        gradient_sent=BYTES[gradient_sent],
        master=data["master"][master]["bytes"] if types["master"] else 0,
        moments=moments,
        end_moments=state.get("end_moments", moments),
        activation=types["activation"],
        product_input=types["product_input"],
    )


@cache
def _data() -> dict[str, dict[str, dict[str, Any]]]:
    return tomllib.loads((files("models.catalogue") / "recipes.toml").read_text("utf-8"))
