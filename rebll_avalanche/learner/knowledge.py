"""The state of a learner as an immutable value: a lesson that fails leaves it unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from rebll_avalanche.errors import DamagedError, RebllError
from rebll_avalanche.learner.lesson import Lesson, picture_id, texts
from rebll_avalanche.learner.quality import EVEN
from rebll_avalanche.picture_store import Budget, PictureStore
from rebll_avalanche.words import brief, nearest


@dataclass(frozen=True, eq=False)
class Knowledge:
    """What was learned.

    Attributes:
        columns: The name of every column of the head, forgotten classes included.
        forgotten: Forgotten classes, never shown; their columns are reused when they are learned again.
        lessons: What was taught, oldest first.
        thresholds: The probability above which a class is present, per column.
        kept_thresholds: Thresholds set by hand, by class; lessons do not change them.
        taught: What the method has learned; see :func:`~rebll_avalanche.learner.teaching.teach`.
        thumbnails: Thumbnails of learned pictures.
    """

    columns: tuple[str, ...] = ()
    forgotten: frozenset[str] = frozenset()
    lessons: tuple[Lesson, ...] = ()
    thresholds: Tensor = field(default_factory=lambda: torch.zeros(0))
    kept_thresholds: Mapping[str, float] = field(default_factory=dict)
    taught: dict[str, Any] | None = None
    thumbnails: PictureStore = field(default_factory=PictureStore)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes it predicts: all but the forgotten ones."""
        return tuple(name for name in self.columns if name not in self.forgotten)

    @property
    def visible(self) -> list[int]:
        """Their columns."""
        return [i for i, name in enumerate(self.columns) if name not in self.forgotten]

    @property
    def visible_thresholds(self) -> Tensor:
        """Their thresholds."""
        return self.thresholds[self.visible]

    @property
    def learned_keys(self) -> set[int]:
        """The keys of all pictures that were learned."""
        return {key for lesson in self.lessons for key in lesson.keys}

    def require_taught(self) -> dict[str, Any]:
        """What the method has learned.

        Raises:
            RebllError: When nothing was taught yet.
        """
        if self.taught is None:
            raise RebllError("this learner has not been taught anything yet: call learn(table)")
        return self.taught

    def columns_of(self, names: Sequence[str]) -> list[int]:
        """The columns of known classes.

        Raises:
            RebllError: When one is not known, with the nearest names.
        """
        known = self.class_names
        for name in names:
            if name not in known:
                near = nearest(name[:100], known, 3) or "none"
                raise RebllError(f"there is no class {brief(name)}; the nearest are {near}")
        return [self.columns.index(name) for name in names]

    def with_classes(self, names: Sequence[str]) -> tuple[Knowledge, list[int]]:
        """Knowledge with columns for all of these classes, and these columns."""
        arriving = tuple(name for name in names if name not in self.columns)
        thresholds = torch.cat([self.thresholds, torch.full((len(arriving),), EVEN)])
        wider = replace(
            self,
            columns=(*self.columns, *arriving),
            forgotten=self.forgotten - set(names),
            thresholds=thresholds,
        )
        return wider, [wider.columns.index(name) for name in names]

    def key_of(self, name: str) -> int | None:
        """The key of the picture of that name, if any; the file name alone will do if it is unique.

        The name may also be an id from :func:`~rebll_avalanche.learner.lesson.picture_id`.

        Raises:
            RebllError: When several pictures have that name.
        """
        short = name.replace("\\", "/").rsplit("/", 1)[-1]
        found: dict[str, set[int]] = {"whole": set(), "short": set(), "id": set()}
        for lesson in self.lessons:
            for picture, key in zip(lesson.pictures, lesson.keys, strict=True):
                if picture == name:
                    found["whole"].add(key)
                if picture.rsplit("/", 1)[-1] == short:
                    found["short"].add(key)
                if picture_id(key) == name:
                    found["id"].add(key)
        keys = found["id"] or found["whole"] or found["short"]
        if len(keys) > 1:
            ids = ", ".join(sorted(map(picture_id, keys))[:4])
            raise RebllError(
                f"{len(keys)} pictures that were learned are called {name!r}; name it with its folder, "
                f"show the file itself, or say which by its id ({ids})"
            )
        return next(iter(keys), None)

    def names_of(self) -> dict[int, str]:
        """Names of the pictures, by key."""
        return {
            key: picture
            for lesson in self.lessons
            for picture, key in zip(lesson.pictures, lesson.keys, strict=True)
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain values and tensors."""
        return {
            "columns": list(self.columns),
            "forgotten": sorted(self.forgotten),
            "lessons": [lesson.to_dict() for lesson in self.lessons],
            "thresholds": self.thresholds,
            "kept_thresholds": dict(self.kept_thresholds),
            "taught": self.taught,
            "thumbnails": self.thumbnails.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Knowledge:
        """The inverse of :meth:`to_dict`.

        Raises:
            DamagedError: When it contradicts itself.
        """
        made = cls(
            columns=texts("columns", values["columns"]),
            forgotten=frozenset(texts("forgotten", values["forgotten"])),
            lessons=tuple(Lesson.from_dict(lesson) for lesson in values["lessons"]),
            thresholds=values["thresholds"].float(),
            # Files of earlier versions have none.
            kept_thresholds={
                str(name): float(threshold)
                for name, threshold in values.get("kept_thresholds", {}).items()
            },
            taught=_taught(values["taught"]),
            thumbnails=_thumbnails(values.get("thumbnails")),
        )
        wide = len(made.columns)
        rows = 0 if made.taught is None else sum(made.taught["sizes"])
        kept = set(made.kept_thresholds) <= set(made.class_names)
        whole = len(set(made.columns)) == wide and made.thresholds.shape == (wide,)
        if not (whole and kept and rows == wide):
            raise DamagedError("its classes, thresholds and lessons do not fit each other")
        if not bool(((made.thresholds >= 0) & (made.thresholds <= 1)).all()):  # also refuses NaN
            raise DamagedError("its thresholds are not probabilities")
        return made


# Files of earlier versions name the contents of memory differently, and lack its labels and thumbnails.


def _taught(values: dict[str, Any] | None) -> dict[str, Any] | None:
    if values is None:
        return None
    if "kept" not in values:
        values = values | {"kept": values["archive"], "input_shape": [values["num_features"]]}
    return values | {"kept_labels": values.get("kept_labels", {})}


def _thumbnails(values: dict[str, Any] | None) -> PictureStore:
    return PictureStore(Budget(pictures=0)) if values is None else PictureStore.from_dict(values)
