"""A drawn figure as a response: the same figure gives the same bytes.

Import it where a picture is asked for: matplotlib takes as long to start as the rest of the service, and
needs a directory it can write to, which a container may not have.
"""

from io import BytesIO
from threading import Lock

import matplotlib
from fastapi import Response
from matplotlib.figure import Figure

from service.accept import VARIES, Form

matplotlib.rcParams["svg.hashsalt"] = "layout-search"  # ids in an SVG are random without one
matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text: searchable, and a tenth of the bytes
FORMATS = {Form.SVG: "svg", Form.PNG: "png"}
PIXELS_PER_INCH = 120
_one_at_a_time = Lock()
"""Matplotlib shares its fonts between figures, and is not safe to draw with in two threads."""


def drawn(figure: Figure, form: Form) -> bytes:
    """Draw a figure as SVG or PNG, without a date or a version that would change its bytes."""
    file = BytesIO()
    nameless = {"Date": None, "Creator": None} if form is Form.SVG else {"Software": None}
    with _one_at_a_time:
        figure.savefig(file, format=FORMATS[form], dpi=PIXELS_PER_INCH, metadata=nameless)
    return file.getvalue()


def as_picture(figure: Figure, form: Form) -> Response:
    """Answer with a picture; called in the worker thread, since drawing takes a while."""
    return Response(drawn(figure, form), media_type=form, headers=VARIES)
