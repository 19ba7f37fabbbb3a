"""What the API takes and gives, as OpenAPI describes it."""

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
    """JSON knows no NaN."""
    return None if value is None or math.isnan(value) else round(value, 6)


Number = Annotated[float | None, BeforeValidator(_number)]
ClassName = Annotated[str, Field(min_length=1, max_length=100)]
# A picture is meant by its name, or by its id where two have one name.
PictureName = Annotated[str, Field(min_length=1, max_length=300)]


class Given(BaseModel):
    """What comes from outside has no other fields than these."""

    model_config = ConfigDict(extra="forbid")


class Health(BaseModel):
    """Whether it answers; says nothing else, because everybody may ask."""

    status: Literal["ok"] = "ok"


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


class LearnedPicture(BaseModel):
    """A picture that was learned; its file may be gone."""

    name: str
    id: str = Field(description="What tells it from others of the same name.")
    thumbnail: bool = Field(description="Whether a small copy is kept: /api/thumbnail?picture=ID.")

    @classmethod
    def of(cls, name: str, key: int, learner: Learner) -> LearnedPicture:
        """The same for JSON."""
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
        description="By a model that had not learned from the picture (leave-one-out)."
    )
    seconds: float

    @classmethod
    def of(cls, lesson: Lesson, learner: Learner) -> LessonAnswer:
        """The same for JSON."""
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
    """What came of a lesson."""

    lesson: LessonAnswer
    before: list[Quality] = Field(
        description="Of the same pictures, by the learner before the lesson, for classes that it knew."
    )
    known_pictures: int = Field(
        description="How many of them it had learned already, so that `before` proves little."
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
    kept: bool = Field(description="Whether a person has set the threshold; no lesson moves it.")
    lessons: list[int] = Field(description="That spoke about it.")
    quality: Quality | None = Field(
        description="On all pictures that were annotated for it, by a model that had not learned "
        "from the picture (leave-one-out); none for methods that have no such scores."
    )


class SuggestionAnswer(BaseModel):
    """A picture worth labelling."""

    index: int = Field(description="Of the pictures in the request.")
    name: str
    classes: list[str]
    uncertainty: float


class SuspectAnswer(BaseModel):
    """A label that is probably wrong."""

    picture: LearnedPicture
    name: str = Field(description="Of the class.")
    present: bool = Field(description="What the label says.")
    probability: float = Field(description="By a model that had not learned from the picture.")

    @classmethod
    def of(cls, suspect: Suspect, learner: Learner) -> SuspectAnswer:
        """The same for JSON."""
        return cls(
            picture=LearnedPicture.of(suspect.picture, suspect.key, learner),
            name=suspect.name,
            present=suspect.present,
            probability=suspect.probability,
        )


class About(BaseModel):
    """What the learner is."""

    method: str
    backbone: str
    exact: bool = Field(description="Whether it can correct, forget and audit what it learned.")
    classes: int
    lessons: int
    pictures: int
    precision: float | None = Field(description="That chosen thresholds keep; else the best F1.")

    @classmethod
    def of(cls, learner: Learner) -> About:
        """As it is now."""
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
KeptThresholds = Annotated[
    dict[ClassName, Annotated[float, Field(ge=0, le=1)]], Field(min_length=1, max_length=10_000)
]


class ChosenThresholds(Given):
    """How thresholds are chosen."""

    precision: float | None = Field(
        None, gt=0, le=1, description="Keep this precision instead of the best F1."
    )
