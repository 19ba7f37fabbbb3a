"""What the API takes and gives, as OpenAPI describes it."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from rebll_avalanche.learner import Lesson
from rebll_avalanche.learner.quality import ClassQuality
from rebll_avalanche.serve.service import Job


def _number(value: float | None) -> float | None:
    """JSON knows no NaN."""
    return None if value is None or math.isnan(value) else round(value, 6)


Number = Annotated[float | None, BeforeValidator(_number)]
ClassName = Annotated[str, Field(min_length=1, max_length=100)]
PictureName = Annotated[str, Field(min_length=1, max_length=300)]


class Given(BaseModel):
    """What comes from outside has no other fields than these."""

    model_config = ConfigDict(extra="forbid")


class Health(BaseModel):
    """Whether it answers."""

    status: Literal["ok"] = "ok"
    classes: int
    lessons: int
    waiting: int = Field(description="Changes that are under way or wait.")


class Limit(BaseModel):
    """What a request may hold."""

    body: int
    pictures: int
    pixels: int


class PicturePrediction(BaseModel):
    """One picture."""

    name: str
    labels: dict[str, float] = Field(description="Above their thresholds, most probable first.")
    scores: dict[str, float] = Field(description="Of every class.")


class Prediction(BaseModel):
    """All pictures of a request, by the learner as it was at one moment."""

    thresholds: dict[str, float]
    pictures: list[PicturePrediction]


class Quality(BaseModel):
    """One class; fractions."""

    name: str
    positives: int
    negatives: int
    average_precision: Number
    precision: Number
    recall: Number
    threshold: float

    @classmethod
    def of(cls, quality: ClassQuality) -> Quality:
        """The same for JSON."""
        return cls(**{name: getattr(quality, name) for name in cls.model_fields})


class LessonAnswer(BaseModel):
    """One lesson."""

    number: int
    source: str
    taught_at: str
    pictures: list[str]
    new_classes: list[str]
    known_classes: list[str]
    qualities: list[Quality] = Field(
        description="By a model that had not learned from the picture (leave-one-out)."
    )
    seconds: float

    @classmethod
    def of(cls, lesson: Lesson) -> LessonAnswer:
        """The same for JSON."""
        return cls(
            number=lesson.number,
            source=lesson.source,
            taught_at=lesson.taught_at,
            pictures=list(lesson.pictures),
            new_classes=list(lesson.new_classes),
            known_classes=list(lesson.known_classes),
            qualities=[Quality.of(each) for each in lesson.qualities],
            seconds=round(lesson.seconds, 3),
        )


class Taught(BaseModel):
    """What came of a lesson."""

    lesson: LessonAnswer
    before: list[Quality] = Field(
        description="Of the same pictures, by the learner before the lesson, for classes that it knew."
    )


class Done(BaseModel):
    """What came of another change, in a sentence."""

    message: str


class JobAnswer(BaseModel):
    """A change that waits, is made, or was."""

    number: int
    kind: str
    state: Literal["waiting", "running", "done", "failed"]
    progress: float
    result: Taught | Done | None
    error: str | None

    @classmethod
    def of(cls, job: Job) -> JobAnswer:
        """As it is now."""
        return cls(
            number=job.number,
            kind=job.kind,
            state=job.state,
            progress=round(job.progress, 3),
            result=job.result,
            error=job.error,
        )


class ClassAnswer(BaseModel):
    """One class."""

    name: str
    threshold: float
    lessons: list[int] = Field(description="That spoke about it.")
    quality: Quality | None = Field(description="In the last lesson that spoke about it.")


class SuggestionAnswer(BaseModel):
    """A picture worth labelling."""

    index: int = Field(description="Of the pictures in the request.")
    name: str
    classes: list[str]
    uncertainty: float


class SuspectAnswer(BaseModel):
    """A label that is probably wrong."""

    picture: str
    name: str
    present: bool
    probability: float


class Rename(Given):
    """Another name for a class."""

    old: ClassName
    new: ClassName


class Forget(Given):
    """One kind of thing at a time."""

    pictures: list[PictureName] | None = Field(None, min_length=1, max_length=10_000)
    classes: list[ClassName] | None = Field(None, min_length=1, max_length=1000)
    lesson: int | None = Field(None, ge=0, lt=2**31)

    @model_validator(mode="after")
    def _one(self) -> Forget:
        if sum(given is not None for given in (self.pictures, self.classes, self.lesson)) != 1:
            raise ValueError("say what to forget: pictures, classes or lesson, one of them")
        return self


class Correction(Given):
    """The right label of a picture that was learned."""

    picture: PictureName
    name: ClassName
    present: bool


class Corrections(Given):
    """Some of them."""

    corrections: list[Correction] = Field(min_length=1, max_length=10_000)


# For each picture the classes that it has, or what is known of which class; null is not annotated.
Labels = list[list[ClassName] | dict[ClassName, bool | None]]
