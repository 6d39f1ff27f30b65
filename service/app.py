"""The application: settings, routes, faults."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline

from service import faults, openapi
from service.routes import ROUTERS
from service.settings import Settings, read_settings
from service.wire import HeadAsGet
from service.work import Workers


def create_app(settings: Settings | None = None) -> FastAPI:
    """Build the service; settings come from the environment unless given."""
    app: FastAPI = FastAPIOffline(
        title="layout-search",
        version=openapi.VERSION,
        description=openapi.DESCRIPTION,
        lifespan=_lifespan,
        generate_unique_id_function=lambda route: route.name,
        redoc_url=None,  # its logo comes from an outside address
        swagger_ui_parameters={"tryItOutEnabled": True, "displayRequestDuration": True},
    )
    app.state.settings = settings or read_settings()
    for router in ROUTERS:
        app.include_router(router)
    app.add_middleware(HeadAsGet)
    faults.install(app)
    openapi.install(app)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Start the worker threads' queue once there is an event loop."""
    app.state.workers = Workers(app.state.settings)
    yield
