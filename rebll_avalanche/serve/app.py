"""The HTTP API of a learner, and the page that uses it."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, File, Form, Query, Request, UploadFile
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import TypeAdapter, ValidationError

from rebll_avalanche.errors import RebllError
from rebll_avalanche.learner import Learner
from rebll_avalanche.learner.pictures import Pictures
from rebll_avalanche.serve import changes
from rebll_avalanche.serve.batching import Batcher
from rebll_avalanche.serve.guard import Guard, Limits, Refused
from rebll_avalanche.serve.schemas import (
    ClassAnswer,
    Corrections,
    Forget,
    Health,
    JobAnswer,
    Labels,
    LessonAnswer,
    Limit,
    PicturePrediction,
    Prediction,
    Quality,
    Rename,
    SuggestionAnswer,
    SuspectAnswer,
)
from rebll_avalanche.serve.service import BusyError, Job, LearnerService
from rebll_avalanche.serve.uploads import Desk, distinct, shown_name

STATIC = Path(__file__).parent / "static"
Uploads = Annotated[list[UploadFile], File(description="Picture files.")]
_labels = TypeAdapter(Labels)


def make_app(
    learner: Learner, path: Path, *, token: str | None = None, limits: Limits | None = None
) -> Guard:
    """An ASGI application that owns a learner.

    Args:
        learner: As it is in the file, or a new one.
        path: The file that every change is written to.
        token: What requests must carry; without one only requests to a loopback name are answered.
        limits: On sizes and numbers of requests.
    """
    limits = limits or Limits()
    service = LearnerService(learner, path, limits.lessons)
    batcher = Batcher(lambda: service.learner)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(batcher.close)
        await run_in_threadpool(service.close)

    app = FastAPI(
        title="rebll",
        description="A learner: ask it about pictures, teach it, take lessons back.",
        version="1",
        docs_url=None,  # FastAPI's pages load scripts from another host; ours is static/docs.html
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=lifespan,
    )
    app.add_exception_handler(RebllError, _refuse)
    app.add_exception_handler(BusyError, _busy)
    _add_questions(app, service, batcher, limits)
    _add_changes(app, service, limits)

    @app.get("/docs", include_in_schema=False)
    def docs() -> FileResponse:
        return FileResponse(STATIC / "docs.html")

    app.mount("/", StaticFiles(directory=STATIC, html=True))
    return Guard(app, limits, token)


async def _refuse(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 422)


async def _busy(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 429, {"retry-after": "1"})


async def _contents(uploads: Sequence[UploadFile], limits: Limits) -> list[tuple[str, bytes]]:
    """Names for people, and bytes."""
    if len(uploads) > limits.pictures:
        raise Refused(413, f"a request has at most {limits.pictures} pictures")
    return [
        (shown_name(each.filename, number), await each.read())
        for number, each in enumerate(uploads)
    ]


def _add_questions(app: FastAPI, service: LearnerService, batcher: Batcher, limits: Limits) -> None:
    """What changes nothing."""
    desk = Desk(limits)
    maps = _Maps()

    @app.get("/api/health", summary="Whether it answers")
    def health() -> Health:
        learner = service.learner
        waiting = sum(job.state in ("waiting", "running") for job in service.jobs())
        return Health(
            classes=len(learner.class_names), lessons=len(learner.lessons), waiting=waiting
        )

    @app.get("/api/limits", summary="What a request may hold")
    def limit() -> Limit:
        return Limit(body=limits.body, pictures=limits.pictures, pixels=limits.pixels)

    @app.post("/api/predict", summary="Labels of pictures, with scores")
    async def predict(pictures: Uploads) -> Prediction:
        files = await _contents(pictures, limits)

        def ask() -> Any:
            with desk.decoded(files) as decoded:
                return batcher.ask(decoded).result()

        answer = await run_in_threadpool(ask)
        return Prediction(
            thresholds=answer.thresholds,
            pictures=[
                _prediction(name, row, answer.thresholds)
                for (name, _), row in zip(files, answer.scores, strict=True)
            ],
        )

    @app.post("/api/suggest", summary="Which of these pictures to label next")
    async def suggest(
        pictures: Uploads, count: Annotated[int, Query(ge=1, le=1000)] = 20
    ) -> list[SuggestionAnswer]:
        files = await _contents(pictures, limits)

        def ask() -> Any:
            with desk.decoded(files) as decoded:
                numbered = Pictures([str(number) for number in range(len(files))], decoded)
                return service.learner.suggest(numbered, count)

        return [
            SuggestionAnswer(
                index=int(each.picture),
                name=files[int(each.picture)][0],
                classes=list(each.classes),
                uncertainty=each.uncertainty,
            )
            for each in await run_in_threadpool(ask)
        ]

    @app.post(
        "/api/map",
        summary="Where in a picture a class is seen",
        response_class=Response,
        responses={200: {"content": {"image/png": {}}}},
    )
    async def class_map(
        picture: Annotated[UploadFile, File()], name: Annotated[str, Form(max_length=100)]
    ) -> Response:
        files = await _contents([picture], limits)

        def draw() -> bytes:
            with desk.decoded(files) as [decoded]:
                return maps.overlay(service.learner, decoded, name)

        return Response(await run_in_threadpool(draw), media_type="image/png")

    @app.get("/api/lessons", summary="What it was taught, oldest first")
    def lessons() -> list[LessonAnswer]:
        return [LessonAnswer.of(lesson) for lesson in service.learner.lessons]

    @app.get("/api/classes", summary="What it can name")
    def classes() -> list[ClassAnswer]:
        return _classes(service.learner)

    @app.get("/api/thresholds", summary="The probability above which a class is called present")
    def thresholds() -> dict[str, float]:
        return service.learner.thresholds

    @app.get("/api/audit", summary="Labels that are probably wrong, worst first")
    def audit(count: Annotated[int, Query(ge=1, le=10_000)] = 100) -> list[SuspectAnswer]:
        learner = service.learner
        if not learner.class_names:
            return []
        return [
            SuspectAnswer(
                picture=each.picture,
                name=each.name,
                present=each.present,
                probability=each.probability,
            )
            for each in learner.audit(count)
        ]

    @app.get(
        "/api/file",
        summary="The learner itself, to copy it elsewhere",
        response_class=Response,
        responses={200: {"content": {"application/octet-stream": {}}}, 404: {}},
    )
    def file() -> Response:
        try:  # read as one: the file may be replaced at any moment
            content = service.path.read_bytes()
        except FileNotFoundError:
            raise Refused(404, "nothing was taught yet, so there is no file") from None
        headers = {"content-disposition": 'attachment; filename="learner.rebll"'}
        return Response(content, media_type="application/octet-stream", headers=headers)


def _add_changes(app: FastAPI, service: LearnerService, limits: Limits) -> None:
    """What goes through the queue."""
    desk = Desk(limits)

    @app.post("/api/learn", summary="A lesson", status_code=202)
    async def learn(
        pictures: Uploads,
        labels: Annotated[
            str,
            Form(
                description="JSON, one entry per picture: the names of the classes that it has "
                '(["car", "person"]; other classes of the lesson are absent), or what is known of '
                'each class ({"car": true, "dog": false, "person": null}; null and what is not '
                "named are not annotated)."
            ),
        ],
        wait: Annotated[bool, Query(description="Answer when the lesson is over.")] = False,
    ) -> JobAnswer:
        try:
            given = _labels.validate_python(json.loads(labels))
        except (ValidationError, ValueError, RecursionError) as error:
            raise RebllError(
                'labels is JSON with one entry per picture, such as [["car"], {"dog": false}]'
            ) from error
        files = await _contents(pictures, limits)
        names = distinct([name for name, _ in files])

        def prepare() -> Job:
            changes.label_matrix(given, len(files))
            folder, paths = desk.keep(files)
            change = changes.learn(names, paths, given)
            return service.submit(
                "learn", change, lambda: shutil.rmtree(folder, ignore_errors=True)
            )

        job = await run_in_threadpool(prepare)
        if wait:
            await asyncio.shield(asyncio.wrap_future(job.finished))
        return JobAnswer.of(job)

    @app.get("/api/jobs", summary="Changes that wait, are made, or were; newest first")
    def jobs() -> list[JobAnswer]:
        return [JobAnswer.of(job) for job in service.jobs()]

    @app.get("/api/jobs/{number}", summary="One change", responses={404: {}})
    def job(number: int) -> JobAnswer:
        found = service.job(number)
        if found is None:
            raise Refused(404, f"there is no job {number}, or it is long over")
        return JobAnswer.of(found)

    async def made(kind: str, change: Any) -> JobAnswer:
        job = service.submit(kind, change)
        await asyncio.shield(asyncio.wrap_future(job.finished))
        if job.state == "failed":
            raise RebllError(job.error)
        return JobAnswer.of(job)

    @app.post("/api/undo", summary="Take the last lesson back")
    async def undo() -> JobAnswer:
        return await made("undo", changes.undo)

    @app.post("/api/forget", summary="Be as if pictures, classes or a lesson had never come")
    async def forget(what: Forget) -> JobAnswer:
        return await made("forget", changes.forget(what))

    @app.post("/api/rename", summary="Another name for a class")
    async def rename(names: Rename) -> JobAnswer:
        return await made("rename", changes.rename(names.old, names.new))

    @app.post("/api/correct", summary="Other labels for pictures that were learned")
    async def correct(given: Corrections) -> JobAnswer:
        return await made("correct", changes.correct(given.corrections))


class _Maps:
    """Draws maps of classes; the network for that is built once per state of the learner."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._learner: Learner | None = None
        self._model: Any = None

    def overlay(self, learner: Learner, picture: Any, name: str) -> bytes:
        """A PNG file."""
        from rebll_avalanche.inference.predictor import overlay

        if name not in learner.class_names:
            raise RebllError(f"there is no class {name!r}")
        with self._lock:
            if self._learner is not learner:
                self._learner, self._model = learner, learner.trained_model()
            maps = self._model.activation_maps(self._model.prepare([picture]))[0]
        stream = BytesIO()
        overlay(picture, maps[learner.class_names.index(name)]).save(stream, "PNG")
        return stream.getvalue()


def _prediction(name: str, row: Sequence[float], thresholds: dict[str, float]) -> PicturePrediction:
    scores = {label: round(score, 6) for label, score in zip(thresholds, row, strict=True)}
    # Compared before they are rounded, as the learner itself does.
    above = [
        (label, round(score, 6))
        for (label, threshold), score in zip(thresholds.items(), row, strict=True)
        if score > threshold
    ]
    return PicturePrediction(
        name=name, labels=dict(sorted(above, key=lambda pair: -pair[1])), scores=scores
    )


def _classes(learner: Learner) -> list[ClassAnswer]:
    spoken: dict[str, list[int]] = {name: [] for name in learner.class_names}
    quality: dict[str, Quality] = {}
    for lesson in learner.lessons:
        for name in (*lesson.new_classes, *lesson.known_classes):
            if name in spoken:
                spoken[name].append(lesson.number)
        quality |= {each.name: Quality.of(each) for each in lesson.qualities}
    return [
        ClassAnswer(name=name, threshold=threshold, lessons=spoken[name], quality=quality.get(name))
        for name, threshold in learner.thresholds.items()
    ]
