"""Compare RebLL with Fine-Tuning, LwF, ER and Joint on VOC's B5-C3: a table and a page of figures.

Without arguments it uses the built-in scenes (20 synthetic classes with VOC's class frequencies), a
few minutes on two cores. With ``--data-root`` it uses the real PASCAL VOC 2007:

    python examples/voc_b5c3.py
    python examples/voc_b5c3.py --data-root data --backbone tf_efficientnet_lite0 --pretrained pypi \
        --image-size 96 --epochs 3 --lr 3e-4 --backbone-lr-scale 0.1

The settings are in voc_b5c3.yaml; this script only gives short names to options of
``rebll table`` and accepts all others as well. After an interruption, the same command continues.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

RECIPE = Path(__file__).with_suffix(".yaml")
SHORT_NAMES = {
    "--data-root": "benchmark.root",
    "--train-size": "benchmark.train_size",
    "--test-size": "benchmark.test_size",
    "--image-size": "benchmark.image_size",
    "--backbone": "model.backbone",
    "--pretrained": "model.pretrained",
    "--epochs": "training.epochs",
    "--batch-size": "training.batch_size",
    "--lr": "training.lr",
    "--backbone-lr-scale": "training.backbone_lr_scale",
    "--mem-size": "method.mem_size",
    "--seed": "seed",
}


def main() -> int:
    """Translate the options and run ``rebll table``."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for name, setting in SHORT_NAMES.items():
        parser.add_argument(name, dest=setting, metavar="VALUE", help=setting)
    parser.add_argument(
        "--jobs", help="methods that learn side by side; all cores, or 1 with a GPU"
    )
    parser.add_argument("--output", default="outputs/voc_b5c3", help="the folder")
    known, others = parser.parse_known_args()
    given = vars(known)
    output, jobs = given.pop("output"), given.pop("jobs")
    settings = [f"--{name}={value}" for name, value in given.items() if value is not None]
    profile = "voc" if given["benchmark.root"] else "scenes"

    import torch

    from rebll_avalanche.cli import main as rebll

    jobs = jobs or str(1 if torch.cuda.is_available() else os.cpu_count() or 1)
    # One thread per run: bit-identical results with any number of jobs.
    fixed = ["--profile", profile, "--folder", output, "--jobs", jobs, "--threads", "1"]
    return rebll(["table", str(RECIPE), *fixed, *settings, *others])


if __name__ == "__main__":
    sys.exit(main())
