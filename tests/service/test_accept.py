"""The form of an answer follows Accept; a picture's bytes follow its figure alone."""

import subprocess
import sys
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from service.accept import Form, NotAcceptable, wanted
from service.drawing import drawn
from tests.service.conftest import ROOT


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (None, Form.JSON),
        ("", Form.JSON),
        ("*/*", Form.JSON),
        ("application/json", Form.JSON),
        ("application/json; charset=utf-8", Form.JSON),
        ("application/*, image/png;q=0.9", Form.JSON),
        ("image/svg+xml", Form.SVG),
        ("IMAGE/SVG+XML", Form.SVG),
        ("image/*", Form.SVG),
        ("image/*, image/svg+xml;q=0", Form.PNG),
        ("image/png", Form.PNG),
        ("image/png;q=0.3, image/svg+xml;q=0.2, text/html", Form.PNG),
        ("application/json;q=0.1, image/png;Q=0.25", Form.PNG),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Form.JSON),
        ("*/*, application/json;q=0", Form.SVG),
        ("application/json;q=high, image/png;q=0.001", Form.PNG),
    ],
)
def test_the_form_wanted_most_is_chosen(accept, form):
    assert wanted(accept) is form


@pytest.mark.parametrize(
    "accept", ["text/html", "image/gif", "application/json;q=0", "*/*;q=0.0", "json", ";", ","]
)
def test_a_caller_who_takes_none_of_our_forms_is_told_them(accept):
    with pytest.raises(NotAcceptable) as told:
        wanted(accept)
    assert told.value.fault.value == accept
    assert all(form in told.value.fault.fix for form in Form)


@given(st.text())
def test_any_header_is_answered_or_refused(accept):
    with suppress(NotAcceptable):
        assert wanted(accept) in Form


def figure() -> Figure:
    made = Figure(figsize=(4, 3))
    axes = made.add_subplot()
    axes.plot([0, 1], [1, 0], label="a")
    axes.legend()
    axes.set_title("a title")
    return made


@pytest.mark.parametrize(("form", "start"), [(Form.SVG, b"<?xml"), (Form.PNG, b"\x89PNG")])
def test_the_same_figure_gives_the_same_bytes(form, start):
    first, second = drawn(figure(), form), drawn(figure(), form)
    assert first == second
    assert first.startswith(start)


def test_text_stays_text_in_an_svg():
    assert b"a title" in drawn(figure(), Form.SVG)


def test_the_service_starts_without_what_draws():
    """It takes as long to load as all the rest, and does not load where nothing can be written."""
    loads = "import sys, service.app; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", loads], cwd=ROOT, check=False).returncode == 0
