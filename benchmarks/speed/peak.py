"""Peak memory of a run beside the same passes written by hand, and beside a sum of what must be held.

Each contestant runs in a process of its own.
"""

from __future__ import annotations

import copy
import statistics
import subprocess
import sys

from comparison import Row, peak_memory

BACKBONE, SIDE, BATCH, STEPS = "tf_efficientnet_lite0", 96, 32, 3


def _run(contestant: str) -> None:
    """Train, and print how far memory rose above what the imports took."""
    import torch
    from training import MEMORY, RATE, bare_epochs, random_streams

    from rebll_avalanche import RebLL, build_model

    torch.set_num_threads(1)
    # A forward pass of one image loads what libraries load late.
    build_model(BACKBONE).features(torch.rand(1, 3, SIDE, SIDE))
    before = peak_memory()
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
    print(peak_memory() - before)


def _computed() -> None:
    """Print what a step of RebLL cannot do without, in MB, from the sizes of tensors alone."""
    import torch
    from training import CLASSES, MEMORY

    from rebll_avalanche import build_model

    model = build_model(BACKBONE)
    model.head.grow(CLASSES)
    held: dict[int, int] = {}  # bytes by address: several operations keep one and the same tensor
    alive: list[torch.Tensor] = []  # or another tensor would get the address of a freed one

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        held[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        alive.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        alive += [model(torch.rand(images, 3, SIDE, SIDE)) for images in (BATCH, MEMORY)]
    for parameter in model.parameters():
        held.pop(parameter.untyped_storage().data_ptr(), None)
    activations = sum(held.values())
    # The backward pass has the gradients of a map before and after a layer at once.
    passing = 2 * max(held.values())
    parameters = sum(parameter.nbytes for parameter in model.parameters())
    # Network, its gradients, teacher, and the two averages of Adam.
    networks = 5 * parameters + 2 * sum(buffer.nbytes for buffer in model.buffers())
    # All that the experience has, and those of a batch and of memory once more, drawn from them.
    images = (STEPS * BATCH + BATCH + MEMORY) * 3 * SIDE * SIDE * 4
    print((networks + activations + passing + images) / 2**20)


def _peak(contestant: str) -> float:
    """The median of three processes: the allocator does not always lay things out alike."""
    command = [sys.executable, "-W", "ignore", __file__, contestant]
    outputs = [
        subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(3)
    ]
    return statistics.median(float(output.stdout.splitlines()[-1]) for output in outputs)


def rows() -> list[Row]:
    """Network, teacher, optimizer, activations of batch and memory, and the images."""
    what = f"peak memory of a run ({BACKBONE}, {SIDE} px, batch {BATCH} + 40)"
    ours = _peak("ours")
    return [
        Row(f"{what} / by hand", ours, _peak("bare"), "MB", times=1.1),
        Row(f"{what} / computed", ours, _peak("computed"), "MB", times=1.1),
    ]


if __name__ == "__main__":
    if sys.argv[1] == "computed":
        _computed()
    else:
        _run(sys.argv[1])
