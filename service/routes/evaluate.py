"""What one layout costs, and what it breaks."""

import threading
from typing import Annotated

from fastapi import APIRouter, Body, Request, Response

from models.estimate import EvaluateAnswer
from models.request import EvaluateRequest
from search import evaluate
from service.examples import shown_at
from service.openapi import QUESTION_PROBLEMS
from service.resolving import resolved
from service.route import JsonRoute
from service.routes.answers import as_json, workers

router = APIRouter(prefix="/v1", tags=["layouts"], route_class=JsonRoute)


@router.post("/evaluate", response_model=EvaluateAnswer, responses=QUESTION_PROBLEMS)
async def evaluate_layout(
    question: Annotated[EvaluateRequest, Body(openapi_examples=shown_at("/v1/evaluate"))], request: Request
) -> Response:
    """Price one layout: step time, memory of every stage, traffic of every dimension.

    Knobs left out take their default, told under `assumptions`. All rules the layout breaks are
    listed, each with a fix; the figures are given even so, as long as they mean something. A `layout`
    of an answer may be sent as it stands: `edp`, `gpus` and `micro_batches` must agree with the rest.
    """

    def work(stop: threading.Event) -> Response:
        return as_json(evaluate(question, resolved(question, stop)))

    return await workers(request).run(request, work)
