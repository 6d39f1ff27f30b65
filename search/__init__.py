"""Decide: which layouts of a training run fit, which is best, and what one layout costs."""

from search.evaluate import evaluate
from search.search import search

__all__ = ["evaluate", "search"]
