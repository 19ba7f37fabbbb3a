"""Compare RebLL with Fine-Tuning, LwF, ER and Joint on VOC's B5-C3: a table and a page of figures.

Without arguments it uses the built-in scenes (20 synthetic classes with VOC's class frequencies), a
few minutes on two cores. With ``--data-root`` it uses the real PASCAL VOC 2007:

    python examples/voc_b5c3.py
    python examples/voc_b5c3.py --data-root data --backbone tf_efficientnet_lite0 --pretrained pypi \
        --image-size 96 --epochs 3 --lr 3e-4 --backbone-lr-scale 0.1

The settings are in voc_b5c3.yaml. This is ``rebll table voc_b5c3.yaml`` with four options set; it accepts
all others, and ``--help`` lists them. After an interruption, the same command continues.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rebll_avalanche.cli import main


def demo(options: list[str]) -> int:
    """Compare the methods; options given twice count as given last."""
    real = any(option.split("=")[0] == "--data-root" for option in options)
    profile = ["--profile", "voc" if real else "scenes"]
    # One thread per run: bit-identical results with any number of jobs.
    parallel = ["--jobs", "auto", "--threads", "1"]
    folder = ["--folder", "outputs/voc_b5c3"]
    recipe = Path(__file__).with_suffix(".yaml")
    return main(["table", str(recipe), *profile, *parallel, *folder, *options])


if __name__ == "__main__":
    sys.exit(demo(sys.argv[1:]))
