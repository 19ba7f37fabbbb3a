"""Peak memory of a run beside that of the same passes written by hand, each in a process of its own."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from pathlib import Path

from comparison import Row

BACKBONE, SIDE, BATCH, STEPS = "tf_efficientnet_lite0", 96, 32, 3


def _resident() -> float:
    """The most memory this process has had so far, in MB.

    Linux counts it anew for a new program in ``VmHWM``; ``ru_maxrss`` would start at the parent's.
    """
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024  # type: ignore[index]


def _run(contestant: str) -> None:
    """Train, and print how far memory rose above what the imports took."""
    import torch
    from training import MEMORY, RATE, bare_epochs, random_streams

    from rebll_avalanche import RebLL, build_model

    torch.set_num_threads(1)
    # A forward pass of one image loads what libraries load late.
    build_model(BACKBONE).features(torch.rand(1, 3, SIDE, SIDE))
    before = _resident()
    benchmark = random_streams(STEPS * BATCH, SIDE)
    model = build_model(BACKBONE)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    strategy = RebLL(model=model, optimizer=optimizer, train_mb_size=BATCH, mem_size=MEMORY)
    if contestant == "ours":
        for experience in benchmark.train_stream:
            strategy.train(experience)
            strategy.eval([benchmark.test_stream[experience.current_experience]])
    else:
        model.head.grow(20)
        teacher = copy.deepcopy(model).eval().requires_grad_(False)
        images = benchmark.train_stream[1]._source.data
        labels = benchmark.train_stream[1].full_targets
        bare_epochs(model, teacher, images, labels, BATCH)()
    print(_resident() - before)


def _peak(contestant: str) -> float:
    command = [sys.executable, "-W", "ignore", __file__, contestant]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(output.splitlines()[-1])


def rows() -> list[Row]:
    """Network, teacher, optimizer, activations of batch and memory, and the images."""
    setting = f"{BACKBONE}, {SIDE} px, batch {BATCH} + 40"
    what = f"peak memory of a run ({setting})"
    return [Row(what, _peak("ours"), _peak("bare"), "MB", times=1.1)]


if __name__ == "__main__":
    _run(sys.argv[1])
