"""Calls about uploaded pictures; they do not change the learner."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from io import BytesIO
from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Query, UploadFile
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from rebll_avalanche.errors import RebllError
from rebll_avalanche.learner import Learner
from rebll_avalanche.serve.batching import Answer, Batcher
from rebll_avalanche.serve.schemas import (
    Health,
    Limit,
    PicturePrediction,
    Prediction,
    SuggestionAnswer,
)
from rebll_avalanche.serve.service import LearnerService, OncePerState
from rebll_avalanche.serve.uploads import Desk, Uploads


def asking(service: LearnerService, batcher: Batcher, desk: Desk) -> APIRouter:
    """The calls."""
    routes = APIRouter()
    maps = _Maps()

    @routes.get("/health", summary="Whether the server is up")
    def health() -> Health:
        return Health()

    @routes.get("/limits", summary="Limits of a request")
    def limits() -> Limit:
        most = desk.limits
        return Limit(body=most.body, pictures=most.pictures, pixels=most.pixels)

    @routes.post("/predict", summary="Predict labels of pictures")
    async def predict(pictures: Uploads) -> Prediction:
        files = await desk.contents(pictures)

        def ask() -> Answer:
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

    @routes.post("/suggest", summary="Choose the pictures to label next")
    async def suggest(
        pictures: Uploads, count: Annotated[int, Query(ge=1, le=1000)] = 20
    ) -> list[SuggestionAnswer]:
        files = await desk.contents(pictures)

        def ask() -> Any:
            with desk.one_by_one(files) as numbered:
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

    @routes.post(
        "/map",
        summary="Class activation map of a picture",
        response_class=Response,
        responses={200: {"content": {"image/png": {}}}},
    )
    async def class_map(
        picture: Annotated[UploadFile, File()], name: Annotated[str, Form(max_length=100)]
    ) -> Response:
        files = await desk.contents([picture])

        def draw() -> bytes:
            with desk.decoded(files) as [decoded]:
                return maps.overlay(service.learner, decoded, name)

        return Response(await run_in_threadpool(draw), media_type="image/png")

    return routes


class _Maps:
    """Draws class activation maps; the network is built once per state of the learner."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._models = OncePerState(Learner.trained_model)

    def overlay(self, learner: Learner, picture: Any, name: str) -> bytes:
        """A PNG file."""
        from rebll_avalanche.inference.predictor import overlay

        if name not in learner.class_names:
            raise RebllError(f"there is no class {name!r}")
        with self._lock:
            model = self._models.of(learner)
            maps = model.activation_maps(model.prepare([picture]))[0]
        stream = BytesIO()
        overlay(picture, maps[learner.class_names.index(name)]).save(stream, "PNG")
        return stream.getvalue()


def _prediction(name: str, row: Sequence[float], thresholds: dict[str, float]) -> PicturePrediction:
    scores = {label: round(score, 6) for label, score in zip(thresholds, row, strict=True)}
    # Compared before rounding, as in the learner.
    above = [
        (label, round(score, 6))
        for (label, threshold), score in zip(thresholds.items(), row, strict=True)
        if score > threshold
    ]
    return PicturePrediction(
        name=name, labels=dict(sorted(above, key=lambda pair: -pair[1])), scores=scores
    )
