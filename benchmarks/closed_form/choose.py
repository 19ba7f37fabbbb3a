"""Compare variants on VOC's train and val images: every choice is made here, none on test images.

    python benchmarks/closed_form/choose.py --data DATA --cache FOLDER

Prints one line per variant: Last mAP, Avg mAP, CF1/OF1 at 0.8 and 0.5, calibration error; percent.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from features import View, load_split
from rows import Row, by_gradient, closed_form, measure, stream

LITE = {size: f"tf_efficientnet_lite{size}" for size in (0, 1, 2)}


def show(row: Row) -> None:
    """Print a row."""
    last = {name: 100 * value for name, value in row.last.items()}
    print(
        f"{row.name:44s} last {last['mAP']:.2f} avg {100 * row.average:.2f} "
        f"| 0.8: {last['CF1@0.8']:.1f}/{last['OF1@0.8']:.1f}/{last['FPR@0.8']:.2f} "
        f"| 0.5: {last['CF1@0.5']:.1f}/{last['OF1@0.5']:.1f}/{last['FPR@0.5']:.2f} "
        f"| ece {100 * row.calibration_error:.2f} | {row.seconds_per_experience:.1f} s",
        flush=True,
    )


def main() -> None:
    """Parse arguments and measure every variant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--name", default="voc", choices=("voc", "coco"))
    parser.add_argument("--scenario", default="B5-C3")
    parser.add_argument(
        "--views",
        default="0:224",
        help="such as 0:224,2:320aw: Lite2 at 320 px, aspect kept, with windows",
    )
    parser.add_argument("--only", default="", help="run variants whose name contains this")
    arguments = parser.parse_args()
    pairs = [part.split(":") for part in arguments.views.split(",")]
    views = [
        View(LITE[int(size)], int(pixels.rstrip("aw")), "a" in pixels, "w" in pixels)
        for size, pixels in pairs
    ]
    train, val = (
        load_split(arguments.name, arguments.data, split, views, arguments.cache)
        for split in ("train", "val")
    )
    benchmark = stream(train, val, arguments.scenario)
    variants = {
        "default": closed_form(),
        "power 1": closed_form(power=1.0),
        "gamma per class": closed_form(per_class_gamma=True),
        "gaussian calibration": closed_form(calibration="gaussian"),
        "repeats not recognised": closed_form(keep="sums"),
        "hard labels": closed_form(unknown="hard", keep="sums"),
        "soft labels": closed_form(unknown="soft", keep="sums"),
        "hard labels, repeats": closed_form(unknown="hard"),
        "soft labels, repeats": closed_form(unknown="soft"),
    }
    for rate in (1e-3, 3e-3, 1e-2):
        variants[f"rebll lr {rate:g}"] = by_gradient("rebll", lr=rate, mem_size=40)
    for name, build in variants.items():
        if arguments.only in name:
            show(measure(name, build, benchmark))
    if arguments.only in "joint":
        everything = stream(train, val, f"B{train.labels.shape[1]}-C0")
        for rate in (1e-3, 3e-3, 1e-2):
            show(measure(f"joint lr {rate:g}", by_gradient("joint", lr=rate), everything))


if __name__ == "__main__":
    main()
