"""Measured runs against predictions: a file of published runs, read, rebuilt, predicted and compared."""

from service.measured.answer import ValidateAnswer
from service.measured.reader import read_file, read_runs
from service.measured.report import validate

__all__ = ["ValidateAnswer", "read_file", "read_runs", "validate"]
