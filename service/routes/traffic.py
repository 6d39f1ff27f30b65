"""Who sends how much to whom in a step of one layout."""

import threading
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request, Response

from models.request import TrafficRequest
from models.traffic_matrix import TrafficAnswer
from search import traffic
from service.accept import PICTURES, VARIES, Form, wanted
from service.examples import shown_at
from service.openapi import QUESTION_PROBLEMS, problems
from service.resolving import resolved
from service.route import JsonRoute
from service.routes.answers import as_json, workers

router = APIRouter(prefix="/v1", tags=["layouts"], route_class=JsonRoute)

ANSWERS: dict[int | str, dict[str, Any]] = {200: {"content": PICTURES}, **QUESTION_PROBLEMS, **problems(406)}


@router.post("/traffic", response_model=TrafficAnswer, responses=ANSWERS)
async def traffic_matrix(
    question: Annotated[TrafficRequest, Body(openapi_examples=shown_at("/v1/traffic"))], request: Request
) -> Response:
    """Show who sends how much to whom in a step of one layout, each dimension apart and summed.

    Matrices between GPUs or between nodes (`level`), sparse; large jobs in blocks of ranks, told under
    `unit` and `aggregated`. A row sums to what its GPUs send, to the byte: what `/v1/evaluate` tells of
    the GPU that sends the most. The question is that of `/v1/evaluate` besides. `Accept: image/svg+xml`
    or `image/png` gives heat maps instead of JSON.
    """
    form = wanted(", ".join(request.headers.getlist("accept")))

    def work(stop: threading.Event) -> Response:
        told = traffic(question, resolved(question, stop))
        if form is not Form.JSON:
            return _drawn(told, form)
        answer = as_json(told)
        answer.headers.update(VARIES)
        return answer

    return await workers(request).run(request, work)


def _drawn(told: TrafficAnswer, form: Form) -> Response:
    from service.drawing import as_picture
    from service.heat_map import heat_map

    return as_picture(heat_map(told), form)
