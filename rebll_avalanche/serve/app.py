"""The HTTP API of a learner, and the page that uses it, put together.

``asking.py`` has the calls about uploaded pictures, ``knowing.py`` those about the learner's state,
``changing.py`` those that change it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles

from rebll_avalanche.errors import RebllError
from rebll_avalanche.learner import Learner
from rebll_avalanche.serve.asking import asking
from rebll_avalanche.serve.batching import Batcher
from rebll_avalanche.serve.changing import changing
from rebll_avalanche.serve.guard import Guard, Limits
from rebll_avalanche.serve.knowing import knowing
from rebll_avalanche.serve.service import BusyError, LearnerService
from rebll_avalanche.serve.uploads import Desk

STATIC = Path(__file__).parent / "static"


def make_app(
    learner: Learner, path: Path, *, token: str | None = None, limits: Limits | None = None
) -> Guard:
    """An ASGI application that owns a learner.

    Args:
        learner: Loaded from the file, or a new one.
        path: The file that every change is written to; no other process may change it.
        token: Token that requests must send; without one, only requests to a loopback name are answered.
        limits: Limits on sizes and numbers of requests.
    """
    limits = limits or Limits()
    service = LearnerService(learner, path, limits.lessons)
    batcher = Batcher(lambda: service.learner)
    desk = Desk(limits, service.path)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(batcher.close)
        await run_in_threadpool(service.close)

    app = FastAPI(
        title="rebll",
        description="A learner: predict labels of pictures, teach it lessons, and undo them.",
        version="1",
        docs_url=None,  # FastAPI's pages load scripts from another host; ours is static/docs.html
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=lifespan,
    )
    app.add_exception_handler(RebllError, _refuse)
    app.add_exception_handler(BusyError, _busy)
    for routes in (asking(service, batcher, desk), knowing(service), changing(service, desk)):
        app.include_router(routes, prefix="/api")

    @app.get("/docs", include_in_schema=False)
    def docs() -> FileResponse:
        return FileResponse(STATIC / "docs.html")

    app.mount("/", StaticFiles(directory=STATIC, html=True))
    return Guard(app, limits, token)


async def _refuse(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 422)


async def _busy(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 429, {"retry-after": "1"})
