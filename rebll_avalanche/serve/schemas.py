"""Requests and answers of the API, as in its OpenAPI description."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from rebll_avalanche.learner import Learner, Lesson
from rebll_avalanche.learner.audit import Suspect
from rebll_avalanche.learner.lesson import picture_id
from rebll_avalanche.learner.methods import is_exact
from rebll_avalanche.learner.quality import ClassQuality
from rebll_avalanche.serve.service import Job


def _number(value: float | None) -> float | None:
    """A rounded number; NaN, which JSON lacks, becomes null."""
    return None if value is None or math.isnan(value) else round(value, 6)


Number = Annotated[float | None, BeforeValidator(_number)]
ClassName = Annotated[str, Field(min_length=1, max_length=100)]
# A picture is identified by its name, or by its id if the name is ambiguous.
PictureName = Annotated[str, Field(min_length=1, max_length=300)]


class Given(BaseModel):
    """A request; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class Health(BaseModel):
    """Answer of a running server; needs no token, so it holds nothing else."""

    status: Literal["ok"] = "ok"


class Limit(BaseModel):
    """Limits of a request."""

    body: int
    pictures: int
    pixels: int


class PicturePrediction(BaseModel):
    """Prediction for one picture."""

    name: str
    labels: dict[str, float] = Field(
        description="Classes above their thresholds, most probable first."
    )
    scores: dict[str, float] = Field(description="Probability of every class.")


class Prediction(BaseModel):
    """Predictions for all pictures of a request, by one state of the learner."""

    thresholds: dict[str, float]
    pictures: list[PicturePrediction]


class Quality(BaseModel):
    """Quality of one class, as fractions."""

    name: str
    positives: int
    negatives: int
    average_precision: Number
    precision: Number
    recall: Number
    threshold: float

    @classmethod
    def of(cls, quality: ClassQuality) -> Quality:
        """Convert to JSON values."""
        return cls(**{name: getattr(quality, name) for name in cls.model_fields})


class LearnedPicture(BaseModel):
    """A learned picture; its file may no longer exist."""

    name: str
    id: str = Field(description="Unique identifier.")
    thumbnail: bool = Field(description="Whether a thumbnail is kept: /api/thumbnail?picture=ID.")

    @classmethod
    def of(cls, name: str, key: int, learner: Learner) -> LearnedPicture:
        """Convert to JSON values."""
        return cls(name=name, id=picture_id(key), thumbnail=learner.thumbnail(key) is not None)


class LessonAnswer(BaseModel):
    """One lesson."""

    number: int
    source: str
    taught_at: str
    pictures: list[LearnedPicture]
    new_classes: list[str]
    known_classes: list[str]
    qualities: list[Quality] = Field(
        description="Leave-one-out: by a model that was not trained on the picture."
    )
    seconds: float

    @classmethod
    def of(cls, lesson: Lesson, learner: Learner) -> LessonAnswer:
        """Convert to JSON values."""
        return cls(
            number=lesson.number,
            source=lesson.source,
            taught_at=lesson.taught_at,
            pictures=[
                LearnedPicture.of(name, key, learner)
                for name, key in zip(lesson.pictures, lesson.keys, strict=True)
            ],
            new_classes=list(lesson.new_classes),
            known_classes=list(lesson.known_classes),
            qualities=[Quality.of(each) for each in lesson.qualities],
            seconds=round(lesson.seconds, 3),
        )


class Taught(BaseModel):
    """Result of a lesson."""

    lesson: LessonAnswer
    before: list[Quality] = Field(
        description="Quality on the same pictures before the lesson, for known classes."
    )
    known_pictures: int = Field(
        description="Number of these pictures learned before, for which `before` is too optimistic."
    )


class Done(BaseModel):
    """Result of another change."""

    message: str


class JobAnswer(BaseModel):
    """A waiting, running or finished change."""

    number: int
    kind: str
    state: Literal["waiting", "running", "done", "failed"]
    progress: float
    result: Taught | Done | None
    error: str | None

    @classmethod
    def of(cls, job: Job) -> JobAnswer:
        """Convert the current state to JSON values."""
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
    kept: bool = Field(
        description="Whether the threshold was set by hand; lessons do not change it."
    )
    lessons: list[int] = Field(description="Numbers of the lessons that annotate it.")
    quality: Quality | None = Field(
        description="Leave-one-out quality on all pictures annotated for it; null for methods "
        "without leave-one-out scores."
    )


class SuggestionAnswer(BaseModel):
    """A picture worth labelling."""

    index: int = Field(description="Position of the picture in the request.")
    name: str
    classes: list[str]
    uncertainty: float


class SuspectAnswer(BaseModel):
    """A label that is probably wrong."""

    picture: LearnedPicture
    name: str = Field(description="Name of the class.")
    present: bool = Field(description="The current label.")
    probability: float = Field(description="Leave-one-out probability of the class.")

    @classmethod
    def of(cls, suspect: Suspect, learner: Learner) -> SuspectAnswer:
        """Convert to JSON values."""
        return cls(
            picture=LearnedPicture.of(suspect.picture, suspect.key, learner),
            name=suspect.name,
            present=suspect.present,
            probability=suspect.probability,
        )


class About(BaseModel):
    """Settings and size of the learner."""

    method: str
    backbone: str
    exact: bool = Field(description="Whether it supports correcting, forgetting and auditing.")
    classes: int
    lessons: int
    pictures: int
    precision: float | None = Field(
        description="Precision that chosen thresholds keep; null for the best F1."
    )

    @classmethod
    def of(cls, learner: Learner) -> About:
        """Convert the current state to JSON values."""
        return cls(
            method=learner.config.method_name,
            backbone=learner.backbone,
            exact=is_exact(learner.config),
            classes=len(learner.class_names),
            lessons=len(learner.lessons),
            pictures=len({key for lesson in learner.lessons for key in lesson.keys}),
            precision=learner.precision,
        )


class Rename(Given):
    """A class and its new name."""

    old: ClassName
    new: ClassName


class Forget(Given):
    """What to forget: pictures, classes, or a lesson."""

    pictures: list[PictureName] | None = Field(None, min_length=1, max_length=10_000)
    classes: list[ClassName] | None = Field(None, min_length=1, max_length=1000)
    lesson: int | None = Field(None, ge=0, lt=2**31)

    @model_validator(mode="after")
    def _one(self) -> Forget:
        if sum(given is not None for given in (self.pictures, self.classes, self.lesson)) != 1:
            raise ValueError("say what to forget: pictures, classes or lesson, one of them")
        return self


class Correction(Given):
    """The correct label of a learned picture."""

    picture: PictureName
    name: ClassName
    present: bool


class Corrections(Given):
    """Corrected labels."""

    corrections: list[Correction] = Field(min_length=1, max_length=10_000)


# Per picture: its classes, or a label per class, where null is not annotated.
Labels = list[list[ClassName] | dict[ClassName, bool | None]]
KeptThresholds = Annotated[
    dict[ClassName, Annotated[float, Field(ge=0, le=1)]], Field(min_length=1, max_length=10_000)
]


class ChosenThresholds(Given):
    """How thresholds are chosen."""

    precision: float | None = Field(
        None, gt=0, le=1, description="Keep this precision instead of the best F1."
    )
