"""HTTP paths, one file a family: a signature, a docstring that /docs shows, and one call."""

from service.routes import catalogues, evaluate, operations, schedule, search, traffic

ROUTERS = (
    search.router,
    evaluate.router,
    schedule.router,
    traffic.router,
    catalogues.router,
    operations.router,
)
