"""Calls that change the learner; they go through the queue of the service."""

from __future__ import annotations

import asyncio
import json
import shutil
from typing import Annotated

from fastapi import APIRouter, Form, Query
from fastapi.concurrency import run_in_threadpool
from pydantic import TypeAdapter, ValidationError

from rebll_avalanche.errors import RebllError
from rebll_avalanche.serve import changes
from rebll_avalanche.serve.guard import Refused
from rebll_avalanche.serve.schemas import (
    ChosenThresholds,
    Corrections,
    Forget,
    JobAnswer,
    KeptThresholds,
    Labels,
    Rename,
)
from rebll_avalanche.serve.service import Change, Job, LearnerService
from rebll_avalanche.serve.uploads import Desk, Uploads, distinct

_labels = TypeAdapter(Labels)


def changing(service: LearnerService, desk: Desk) -> APIRouter:
    """The calls."""
    routes = APIRouter()

    async def made(kind: str, change: Change) -> JobAnswer:
        job = service.submit(kind, change)
        await asyncio.shield(asyncio.wrap_future(job.finished))
        if job.state == "failed":
            raise RebllError(job.error)
        return JobAnswer.of(job)

    @routes.post("/learn", summary="Teach a lesson", status_code=202)
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
        wait: Annotated[bool, Query(description="Wait for the lesson to end.")] = False,
    ) -> JobAnswer:
        given = _parsed(labels)
        files = await desk.contents(pictures)
        names = distinct([name for name, _ in files])

        def prepare() -> Job:
            classes, matrix = changes.label_matrix(given, len(files))
            folder, paths = desk.keep(files)
            change = changes.learn(names, paths, classes, matrix)
            return service.submit(
                "learn", change, lambda: shutil.rmtree(folder, ignore_errors=True)
            )

        job = await run_in_threadpool(prepare)
        if wait:
            await asyncio.shield(asyncio.wrap_future(job.finished))
        return JobAnswer.of(job)

    @routes.get("/jobs", summary="Waiting, running and finished changes, newest first")
    def jobs() -> list[JobAnswer]:
        return [JobAnswer.of(job) for job in service.jobs()]

    @routes.get("/jobs/{number}", summary="State of one change", responses={404: {}})
    def job(number: int) -> JobAnswer:
        found = service.job(number)
        if found is None:
            raise Refused(404, f"there is no job {number}, or it is no longer remembered")
        return JobAnswer.of(found)

    @routes.post("/undo", summary="Undo the last lesson")
    async def undo() -> JobAnswer:
        return await made("undo", changes.undo)

    @routes.post("/forget", summary="Forget pictures, classes or a lesson")
    async def forget(what: Forget) -> JobAnswer:
        return await made("forget", changes.forget(what))

    @routes.post("/rename", summary="Rename a class")
    async def rename(names: Rename) -> JobAnswer:
        return await made("rename", changes.rename(names.old, names.new))

    @routes.post("/correct", summary="Correct labels of learned pictures")
    async def correct(given: Corrections) -> JobAnswer:
        return await made("correct", changes.correct(given.corrections))

    @routes.put("/thresholds", summary="Set thresholds that lessons do not change")
    async def keep_thresholds(given: KeptThresholds) -> JobAnswer:
        return await made("thresholds", changes.keep_thresholds(given))

    @routes.post("/thresholds/choose", summary="Choose all thresholds again")
    async def choose_thresholds(rule: ChosenThresholds) -> JobAnswer:
        return await made("thresholds", changes.choose_thresholds(rule.precision))

    return routes


def _parsed(labels: str) -> Labels:
    try:
        return _labels.validate_python(json.loads(labels))
    except (ValidationError, ValueError, RecursionError) as error:
        raise RebllError(
            'labels is JSON with one entry per picture, such as [["car"], {"dog": false}]'
        ) from error
