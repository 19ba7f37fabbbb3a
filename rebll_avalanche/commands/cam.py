"""``rebll cam``: class activation maps of a run's model."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rebll_avalanche.commands.options import check_counts
from rebll_avalanche.commands.predict import Problems, image_files, plain_name
from rebll_avalanche.files import replacing_folder
from rebll_avalanche.run_files import CAM_INDEX, CAMS

if TYPE_CHECKING:
    from torch import Tensor

    from rebll_avalanche.inference.predictor import TrainedModel

HELP = """Draw class activation maps of a run's model. Without images, some of the run's own test images
with several labels are used, evenly spaced; the report shows the maps in RUN/cam."""
MAPS = 4  # per image


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run", type=Path, help="a run folder")
    parser.add_argument("images", nargs="*", help="images, folders, or -; test images if not given")
    parser.add_argument("-o", "--output", type=Path, help="folder; RUN/cam if not given")
    parser.add_argument("--count", type=int, default=8, help="number of test images (default: 8)")
    parser.add_argument(
        "--classes", type=int, default=MAPS, help=f"maps per image (default: {MAPS})"
    )
    parser.add_argument(
        "--grad-cam",
        action="store_true",
        help="use Grad-CAM even if the head provides its own maps",
    )


def run(arguments: argparse.Namespace) -> int:
    """Write images, overlays and ``cam.json``; return 1 if an image could not be read."""
    from rebll_avalanche.inference.predictor import load_run

    check_counts(arguments, "count", "classes")
    trained = load_run(arguments.run)
    problems = Problems()
    if arguments.images:
        shown = _given(trained, arguments.images, problems)
    else:
        shown = _tested(trained, arguments.count)
    final = arguments.output or arguments.run / CAMS
    _draw(trained, shown, final, arguments.classes, grad_cam=arguments.grad_cam)
    return 1 if problems.count else 0


def draw_tested(run: Path, count: int) -> None:
    """Draw maps for some test images of a run into its folder."""
    from rebll_avalanche.inference.predictor import load_run

    trained = load_run(run)
    _draw(trained, _tested(trained, count), run / CAMS, MAPS)


def _draw(
    trained: TrainedModel,
    shown: Iterator[Shown],
    final: Path,
    classes: int,
    *,
    grad_cam: bool = False,
) -> None:
    from rebll_avalanche.inference.predictor import overlay, reduced

    _check_free(final)
    records = []
    with replacing_folder(final) as aside:
        for number, image in enumerate(shown):
            scores = trained.scores(image.inputs)[0]
            maps = trained.activation_maps(image.inputs, grad_cam=grad_cam)[0]
            file = f"{number:03d}.jpg"
            reduced(image.picture).save(aside / file, quality=88)
            entries = []
            for column in _chosen(scores, image.truth, trained.threshold, classes):
                label, truth = trained.class_names[column], float(image.truth[column])
                drawn = f"{number:03d}-{column:03d}-{plain_name(label)[:80]}.jpg"
                overlay(image.picture, maps[column]).save(aside / drawn, quality=88)
                present = None if math.isnan(truth) else truth == 1
                score = float(scores[column])
                entries.append({"label": label, "score": score, "present": present, "file": drawn})
            records.append({"name": image.name, "file": file, "maps": entries})
        if not records:
            raise ValueError("no image to draw maps for; give image files or folders")
        text = json.dumps(records, ensure_ascii=False, indent=1)
        (aside / CAM_INDEX).write_text(text, encoding="utf-8")
    print(final)


@dataclass(frozen=True)
class Shown:
    """An image to draw maps for: the picture, the model input, and its labels, NaN where unknown."""

    name: str
    picture: Any
    inputs: Tensor
    truth: Tensor


def _given(trained: TrainedModel, names: list[str], problems: Problems) -> Iterator[Shown]:
    import torch

    unknown = torch.full((len(trained.class_names),), torch.nan)
    for path in image_files(names, sys.stdin, problems):
        for _, picture in problems.read([path]):
            yield Shown(path.name, picture, trained.prepare([picture]), unknown)


def _tested(trained: TrainedModel, count: int) -> Iterator[Shown]:
    """Test images with their labels, chosen by position and never by score."""
    import torch

    from rebll_avalanche.benchmarks.transforms import as_pillow
    from rebll_avalanche.labels import label_matrix
    from rebll_avalanche.running.build import build_benchmark

    config = replace(trained.config, benchmark=trained.config.benchmark.of_pictures())
    dataset = build_benchmark(config).test_stream[-1].dataset
    labels = label_matrix(dataset)[:, : len(trained.class_names)]
    several = (labels.nan_to_num(0).sum(dim=1) >= 2).nonzero().flatten()
    pool = several if len(several) >= count else torch.arange(len(labels))
    places = torch.linspace(0, len(pool) - 1, min(count, len(pool))).round().long()
    pictures = dataset.replace_current_transform_group((None, None))
    for index in pool[places].tolist():
        picture = as_pillow(pictures[index][0])
        yield Shown(f"test image {index}", picture, trained.prepare([picture]), labels[index])


def _chosen(scores: Tensor, truth: Tensor, threshold: float, most: int) -> list[int]:
    """Classes to show, highest score first: those present or predicted, at least the highest."""
    interesting = (scores > threshold) | (truth == 1)
    interesting[scores.argmax()] = True
    order = scores.argsort(descending=True).tolist()
    return [column for column in order if interesting[column]][:most]


def _check_free(final: Path) -> None:
    """Refuse to replace a folder that does not hold maps of an earlier call."""
    if final.is_dir() and any(final.iterdir()) and not (final / CAM_INDEX).is_file():
        raise ValueError(f"{final} holds other files; choose another folder with --output")
    final.parent.mkdir(parents=True, exist_ok=True)
