"""Which layouts fit, and which of them is best."""

import threading
from typing import Annotated

from fastapi import APIRouter, Body, Request, Response

from models.estimate import SearchAnswer
from models.request import SearchRequest
from search import search
from service.examples import shown_at
from service.openapi import QUESTION_PROBLEMS
from service.resolving import resolved
from service.route import JsonRoute
from service.routes.answers import as_json, workers

router = APIRouter(prefix="/v1", tags=["layouts"], route_class=JsonRoute)


@router.post("/search", response_model=SearchAnswer, responses=QUESTION_PROBLEMS)
async def search_layouts(
    question: Annotated[SearchRequest, Body(openapi_examples=shown_at("/v1/search"))], request: Request
) -> Response:
    """Find the layouts that fit in memory and rank them by their estimated step time.

    Every layout of the space is enumerated and priced; `space` tells how many there were, how many
    fit, and which rule rejected the others. When none fits the answer is still 200: `outcome` is
    `none_fit`, and `conflict` names the rules, the layout that misses by least, and the smallest
    changes that were tried and make one fit (an empty list where none was found in the time given).
    Every default that moved the answer stands under `assumptions`.
    """

    def work(stop: threading.Event) -> Response:
        return as_json(search(question, resolved(question, stop), stop))

    return await workers(request).run(request, work)
