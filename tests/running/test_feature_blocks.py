"""Features computed on a cluster have the bytes of those from a single process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from rebll_avalanche.benchmarks import feature_batches
from rebll_avalanche.benchmarks.features import FrozenFeatures
from rebll_avalanche.benchmarks.images import ImageArray, ImageFiles
from rebll_avalanche.cli import main
from rebll_avalanche.files import file_hash
from rebll_avalanche.running.cluster import connected
from rebll_avalanche.running.feature_blocks import on_ray


@pytest.mark.filterwarnings("ignore")  # Ray's own, about its versions to come
def test_the_same_bytes_as_from_one_process(
    tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature_batches, "BATCHES_PER_BLOCK", 1)
    generator = np.random.RandomState(0)
    pictures = generator.randint(0, 256, (40, 32, 40, 3), dtype=np.uint8)
    paths = [tmp_path / f"{number}.png" for number in range(len(pictures))]
    for path, picture in zip(paths, pictures, strict=True):
        Image.fromarray(picture).save(path)
    paths[7].write_bytes(b"not a picture")

    def made(name: str, spread: Any) -> dict[str, str]:
        torch.manual_seed(0)
        options = {"pretrained": None, "image_size": 224, "folder": tmp_path / name}
        square = FrozenFeatures("test_efficientnet", **options, spread=spread)
        square(ImageFiles(paths))
        square(ImageArray(pictures))
        torch.manual_seed(0)
        options |= {"keep_aspect": True, "windows": True}
        FrozenFeatures("test_efficientnet", **options, spread=spread)(ImageFiles(paths))
        return {file.name: file_hash(file) for file in (tmp_path / name).iterdir()}

    alone = made("alone", None)
    with connected(cluster.address) as ray:
        seen: list[int] = []

        def spread(maker: Any, blocks: Any) -> Any:
            seen.extend(map(len, blocks))
            return on_ray(ray)(maker, blocks)

        assert made("cluster", spread) == alone
    assert len(alone) == 3
    assert seen == [32, 7, 32, 8, 32, 7]


def test_the_command_keeps_what_a_run_will_ask_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["features", "--benchmark.train_size", "12", "--benchmark.test_size", "12"]
    assert main(command) == 2
    assert "asks for no features" in capsys.readouterr().err
    command += [
        "--benchmark.features",
        "test_efficientnet",
        "--benchmark.features_pretrained",
        "null",
    ]
    command += ["--model.backbone", "vector", "--benchmark.image_size", "32"]
    assert main([*command, "--benchmark.image_cache", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    files = list(tmp_path.glob("*.npz"))
    assert len(files) == 2
    assert all(f"{file}  sha256 {file_hash(file)}" in said for file in files)
