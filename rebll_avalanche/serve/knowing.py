"""Calls about the learner's state; they do not change it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from rebll_avalanche.learner import Learner
from rebll_avalanche.learner.audit import Suspect
from rebll_avalanche.learner.methods import is_exact
from rebll_avalanche.learner.quality import ClassQuality
from rebll_avalanche.serve.guard import Refused
from rebll_avalanche.serve.schemas import (
    About,
    ClassAnswer,
    LessonAnswer,
    PictureName,
    Quality,
    SuspectAnswer,
)
from rebll_avalanche.serve.service import LearnerService, OncePerState

Count = Annotated[int, Query(ge=1, le=10_000)]


def knowing(service: LearnerService) -> APIRouter:
    """The calls."""
    routes = APIRouter()
    qualities = OncePerState(_qualities)
    doubts = OncePerState(_doubts)

    def doubtful(count: int, name: str | None = None) -> list[SuspectAnswer]:
        learner = service.learner
        found = [each for each in doubts.of(learner) if name in (None, each.name)]
        return [SuspectAnswer.of(each, learner) for each in found[:count]]

    @routes.get("/about", summary="Settings and size of the learner")
    def about() -> About:
        return About.of(service.learner)

    @routes.get("/lessons", summary="All lessons, oldest first")
    def lessons() -> list[LessonAnswer]:
        learner = service.learner
        return [LessonAnswer.of(lesson, learner) for lesson in learner.lessons]

    @routes.get("/classes", summary="All classes, with their quality")
    def classes() -> list[ClassAnswer]:
        learner = service.learner
        return _classes(learner, qualities.of(learner))

    @routes.get("/thresholds", summary="Threshold of each class")
    def thresholds() -> dict[str, float]:
        return service.learner.thresholds

    @routes.get("/audit", summary="Labels that are probably wrong, worst first")
    def audit(count: Count = 100) -> list[SuspectAnswer]:
        return doubtful(count)

    @routes.get("/worst", summary="Labels of one class that are probably wrong, worst first")
    def worst(
        name: Annotated[str, Query(max_length=100)], count: Count = 12
    ) -> list[SuspectAnswer]:
        return doubtful(count, name)

    @routes.get(
        "/thumbnail",
        summary="Thumbnail of a learned picture",
        response_class=Response,
        responses={200: {"content": {"image/jpeg": {}}}, 404: {}},
    )
    def thumbnail(picture: PictureName) -> Response:
        found = service.learner.thumbnail(picture)
        if found is None:
            raise Refused(404, "no thumbnail of this picture is kept")
        return Response(found, media_type="image/jpeg")

    @routes.get(
        "/file",
        summary="Download the learner's file",
        response_class=Response,
        responses={200: {"content": {"application/octet-stream": {}}}, 404: {}},
    )
    def file() -> Response:
        try:  # read at once: the file may be replaced at any moment
            content = service.path.read_bytes()
        except FileNotFoundError:
            raise Refused(404, "there is no file before the first lesson") from None
        headers = {"content-disposition": 'attachment; filename="learner.rebll"'}
        return Response(content, media_type="application/octet-stream", headers=headers)

    return routes


def _qualities(learner: Learner) -> dict[str, ClassQuality]:
    if not is_exact(learner.config):  # only the qualities recorded in its lessons, if any
        return {each.name: each for lesson in learner.lessons for each in lesson.qualities}
    return {each.name: each for each in learner.qualities()}


def _doubts(learner: Learner) -> list[Suspect]:
    return learner.audit(None) if learner.class_names else []


def _classes(learner: Learner, qualities: dict[str, ClassQuality]) -> list[ClassAnswer]:
    spoken: dict[str, list[int]] = {name: [] for name in learner.class_names}
    for lesson in learner.lessons:
        for name in (*lesson.new_classes, *lesson.known_classes):
            if name in spoken:
                spoken[name].append(lesson.number)
    return [
        ClassAnswer(
            name=name,
            threshold=threshold,
            kept=name in learner.kept_thresholds,
            lessons=spoken[name],
            quality=Quality.of(qualities[name]) if name in qualities else None,
        )
        for name, threshold in learner.thresholds.items()
    ]
