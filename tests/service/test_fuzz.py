"""Schemathesis asks what the description allows, and what it forbids: no answer is a surprise."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import CHECKS

from tests.service.conftest import ROOT

description = schemathesis.openapi.from_path(ROOT / "openapi" / "openapi.json")
questions = description.include(method="POST")
lookups = description.include(method="GET")

# The description's own examples are sent, one by one, in test_examples.py.
BOUNDED = {
    "deadline": None,
    "derandomize": True,
    "phases": (Phase.generate,),
    "suppress_health_check": list(HealthCheck),
}
NOT_OURS = [CHECKS.get_one("positive_data_acceptance")]
"""A question of the right shape may still name a model nobody knows: 422 is its answer."""


@lookups.parametrize()
@settings(max_examples=20, **BOUNDED)
def test_a_lookup_is_answered_as_described(case, address):
    case.call_and_validate(base_url=address, excluded_checks=NOT_OURS, timeout=60)


@questions.parametrize()
@settings(max_examples=200, **BOUNDED)
def test_a_question_is_answered_as_described(case, address):
    case.call_and_validate(base_url=address, excluded_checks=NOT_OURS, timeout=60)


@pytest.mark.long
@questions.parametrize()
@settings(max_examples=1000, **BOUNDED)
def test_a_thousand_questions_are_answered_as_described(case, address):
    case.call_and_validate(base_url=address, excluded_checks=NOT_OURS, timeout=60)
