"""When every stage of a pipeline runs what, and when it waits."""

import threading
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request, Response

from models.request import EvaluateRequest
from models.timeline import BareSchedule, ScheduleAnswer
from search import Told, schedule_answer
from service.accept import PICTURES, VARIES, Form, wanted
from service.examples import shown_at
from service.openapi import QUESTION_PROBLEMS, problems
from service.route import JsonRoute
from service.routes.answers import UNREAD, as_json, workers
from service.scheduling import read_timeline

router = APIRouter(prefix="/v1", tags=["layouts"], route_class=JsonRoute)

ANSWERS: dict[int | str, dict[str, Any]] = {200: {"content": PICTURES}, **QUESTION_PROBLEMS, **problems(406)}


@router.post("/schedule", response_model=ScheduleAnswer, responses=ANSWERS)
async def time_schedule(
    question: Annotated[
        BareSchedule | EvaluateRequest, UNREAD, Body(openapi_examples=shown_at("/v1/schedule"))
    ],
    request: Request,
) -> Response:
    """Run a pipeline schedule: each stage's slots, idle time, micro-batches in flight; the bubble.

    A bare schedule is counted in slots, exact where lengths are whole numbers. A whole question as
    `/v1/evaluate` takes it is timed in seconds: each chunk's forward, input and weight gradient as the
    cost model prices them, and the message between stages as placed. Long timelines are told as the
    patterns their slots repeat. With `Accept: image/svg+xml` or `image/png` the timeline is drawn.
    """
    form = wanted(", ".join(request.headers.getlist("accept")))

    def work(stop: threading.Event) -> Response:
        told = read_timeline(question, stop)
        if form is not Form.JSON:
            return _drawn(told, form)
        answer = as_json(schedule_answer(told))
        answer.headers.update(VARIES)
        return answer

    return await workers(request).run(request, work)


def _drawn(told: Told, form: Form) -> Response:
    from service.drawing import as_picture
    from service.gantt import gantt

    return as_picture(gantt(told), form)
