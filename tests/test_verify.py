"""Caches: every flipped bit is found by whoever reads it, and by ``rebll verify``."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from rebll_avalanche.benchmarks import cache as image_cache
from rebll_avalanche.benchmarks import multilabel_benchmark
from rebll_avalanche.benchmarks.features import FrozenFeatures
from rebll_avalanche.benchmarks.images import ImageArray, ImageFiles
from rebll_avalanche.benchmarks.label_cache import cached_table
from rebll_avalanche.cli import main
from rebll_avalanche.errors import DamagedError
from rebll_avalanche.verify import verify

PICTURES = np.random.default_rng(0).integers(0, 256, (9, 12, 12, 3), dtype=np.uint8)


@pytest.fixture
def files(tmp_path: Path) -> ImageFiles:
    paths = []
    for index, picture in enumerate(PICTURES):
        paths.append(tmp_path / f"{index}.png")
        Image.fromarray(picture).save(paths[-1])
    return ImageFiles(paths)


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)


def features(folder: Path, seed: int = 0) -> FrozenFeatures:
    torch.manual_seed(seed)
    return FrozenFeatures("test_efficientnet", pretrained=None, image_size=32, folder=folder)


def test_a_picture_between_the_spot_checks_is_compared_when_it_is_read(
    files: ImageFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_cache, "SPOT_CHECKS", 2)
    folder = tmp_path / "images"
    built = image_cache.cached_images(files, files.contents(), 12, folder)
    header = (built.folder / "images.npy").stat().st_size - PICTURES.nbytes
    flip(built.folder / "images.npy", header + 4 * PICTURES[0].nbytes + 7)  # of the fifth
    cache = image_cache.cached_images(files, files.contents(), 12, folder)
    assert np.array_equal(cache[3], PICTURES[3])
    with pytest.raises(DamagedError, match=r"image 4 .* delete that folder"):
        cache[4]
    labels = np.ones((9, 1), dtype=np.float32)
    options = {"image_size": 12, "image_cache": folder}
    stream = multilabel_benchmark((files, labels), (files, labels), "B1-C0", **options)
    with pytest.raises(DamagedError, match="image 4"):  # read as a whole batch
        stream.test_stream[0].dataset.__getitems__(range(9))
    (verdict,) = verify(folder)
    assert "image 4" in verdict.problems[0]


def test_a_flipped_bit_in_features_is_computed_again(tmp_path: Path) -> None:
    frozen = features(tmp_path)
    vectors = frozen(ImageArray(PICTURES))
    (kept,) = tmp_path.glob("*.npz")
    good = kept.read_bytes()
    rebuilt = 0
    for place in np.random.default_rng(1).integers(0, len(good), 40):
        flip(kept, int(place))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert torch.equal(frozen(ImageArray(PICTURES)), vectors)
        rebuilt += any("is damaged" in str(warning.message) for warning in said)
        kept.write_bytes(good)
    assert rebuilt > 30, "bits of the archive's dates may flip without harm"


def test_features_of_other_random_weights_are_others(tmp_path: Path) -> None:
    first = features(tmp_path, seed=0)(ImageArray(PICTURES))
    second = features(tmp_path, seed=1)(ImageArray(PICTURES))
    assert not torch.equal(first, second)
    assert torch.equal(features(tmp_path, seed=0)(ImageArray(PICTURES)), first)
    assert len(list(tmp_path.glob("*.npz"))) == 2


def test_verify_walks_through_a_cache(
    files: ImageFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "cache"
    image_cache.cached_images(files, files.contents(), 12, folder / "images")
    features(folder / "features")(files)
    assert main(["verify", str(folder)]) == 0
    assert capsys.readouterr().out.count("sound") == 2
    (kept,) = (folder / "features").glob("*.npz")
    flip(kept, kept.stat().st_size // 2)
    assert main(["verify", str(folder)]) == 1
    shown = capsys.readouterr().out
    assert shown.count("sound") == 1
    assert f"{kept}: arrays, DAMAGED" in shown
    assert main(["verify", str(tmp_path / "nothing")]) == 2


def test_a_damaged_label_table_is_read_again(tmp_path: Path) -> None:
    annotations = tmp_path / "annotations"
    annotations.write_text("all of them")
    labels = np.eye(3, dtype=np.float32)

    def read() -> tuple[list[str], np.ndarray, list[str]]:
        return ["a.jpg", "b.jpg", "c.jpg"], labels, ["x", "y", "z"]

    from rebll_avalanche.benchmarks.contents import cache_folder

    before = set((cache_folder() / "labels").glob("*.npz"))
    cached_table([annotations], "unique settings", tmp_path, read)
    (kept,) = set((cache_folder() / "labels").glob("*.npz")) - before
    content = kept.read_bytes()
    kept.write_bytes(content.replace(labels.tobytes(), (1 - labels).tobytes()))
    with pytest.warns(UserWarning, match="annotations are read again"):
        again = cached_table([annotations], "unique settings", tmp_path, read)
    assert np.array_equal(again.labels, labels)
