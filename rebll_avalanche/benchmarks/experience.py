"""One experience of a multi-label stream, and its data set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from avalanche.benchmarks.scenarios.dataset_scenario import DatasetExperience
from avalanche.benchmarks.utils.data import AvalancheDataset
from avalanche.benchmarks.utils.transform_groups import TransformGroups
from PIL import Image
from torch import Tensor

from rebll_avalanche.benchmarks.dataset import MultiLabelDataset, Samples
from rebll_avalanche.benchmarks.images import ImageFiles, Source
from rebll_avalanche.benchmarks.kept import KeptPictures
from rebll_avalanche.benchmarks.targets import LabelView, MultiLabelTargets
from rebll_avalanche.benchmarks.transforms import Transform, as_pillow, for_pictures
from rebll_avalanche.errors import MissingFileError, PictureError
from rebll_avalanche.scenario import Scenario


class MultiLabelExperience(DatasetExperience):
    """An Avalanche experience with its new and its annotated classes.

    Its labels are 1, 0 or NaN in any columns: an experience may annotate its new classes, earlier
    classes, or none at all.

    Attributes:
        new_classes: Columns of its new classes; Avalanche calls them ``classes_in_this_experience``.
        annotated_classes: Columns with annotations, new or not.
        previous_classes: Columns of earlier experiences.
        classes_seen_so_far: ``previous_classes`` and ``new_classes``.
        future_classes: Columns of later experiences.
        image_indices: For each sample, the index of its image among those given for the split.
    """

    def __init__(
        self,
        *,
        dataset: AvalancheDataset,
        current_experience: int,
        scenario: Scenario,
        annotated_classes: Iterable[int],
        image_indices: Tensor,
        labels: Tensor,
        source: Source,
    ) -> None:
        super().__init__(dataset=dataset, current_experience=current_experience)
        lo, hi = scenario.ranges[current_experience]
        self.classes_in_this_experience = self.new_classes = set(range(lo, hi))
        self.annotated_classes = set(annotated_classes)
        self.previous_classes = set(range(lo))
        self.classes_seen_so_far = set(range(hi))
        self.future_classes = set(range(hi, scenario.num_classes))
        self.image_indices = image_indices
        self._labels = labels
        self._source = source

    def keep_decoded(self, samples: Tensor) -> None:
        """Keep the decoded images of these samples in memory, because they are read repeatedly."""
        if isinstance(self._source, KeptPictures):
            self._source.keep(self.current_experience, self.image_indices[samples].tolist())

    def raw_input(self, sample: int) -> tuple[Source, int]:
        """The source of a sample and its index there; what it gives is before any transform."""
        return self._source, int(self.image_indices[sample])

    @property
    def image_names(self) -> list[str] | None:
        """File names of the samples, without folders; None where these are no files."""
        files = getattr(self._source, "files", self._source)
        if not isinstance(files, ImageFiles):
            return None
        return [files.path(index).name for index in self.image_indices.tolist()]

    def picture(self, sample: int) -> Image.Image | None:
        """The picture of a sample, also where the model gets its features; None if there is none."""
        source = getattr(self._source, "files", None) or self._source
        try:
            return as_pillow(source[int(self.image_indices[sample])]) if source.pictures else None
        except (PictureError, MissingFileError):  # the features of a file may outlive it
            return None

    @property
    def full_targets(self) -> Tensor:
        """Ground truth of these samples for all classes: to evaluate relabelling, never to train on."""
        return self._labels[self.image_indices]


def labelled_dataset(
    source: Source,
    indices: Tensor,
    targets: Tensor | LabelView,
    transforms: Mapping[str, Transform | None],
) -> MultiLabelDataset:
    """The data set of an experience; transforms of its inputs are for ``"train"`` and ``"eval"``."""
    groups = dict(transforms)  # a copy: Avalanche modifies it
    if source.pictures:
        groups = {group: for_pictures(own) for group, own in groups.items() if own is not None}
    return MultiLabelDataset(
        [Samples(source, indices, targets)],
        data_attributes=[MultiLabelTargets(targets)],
        transform_groups=TransformGroups(groups),
    )
