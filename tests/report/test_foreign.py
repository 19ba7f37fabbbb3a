"""Run folders from somebody else: a page of them carries nothing out, and odd names break no figure."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rebll_avalanche.cli import main
from rebll_avalanche.errors import DamagedError
from rebll_avalanche.report import read_run, write_report
from rebll_avalanche.words import printable


@pytest.mark.parametrize("place", ["record", "map"])
@pytest.mark.parametrize(
    "name", ["secret.jpg", "../secret.jpg", "ABSOLUTE", "..", "", 3, None, "cam.json", "a\\b.jpg"]
)
def test_a_page_embeds_pictures_of_its_run_alone(run_folders, tmp_path, name, place, capsys):
    import shutil

    folder = shutil.copytree(run_folders / "rebll_seed0", tmp_path / "run")
    secret = tmp_path / "run" / "secret.jpg"
    secret.write_text("the secret")
    (folder / "cam" / "secret.jpg").write_text("the secret")
    index = folder / "cam" / "cam.json"
    records = json.loads(index.read_text())
    (records[0] if place == "record" else records[0]["maps"][0])["file"] = (
        str(secret) if name == "ABSOLUTE" else name
    )
    index.write_text(json.dumps(records))
    with pytest.raises(DamagedError, match=r"cam\.json is damaged"):
        read_run(folder)
    assert main(["report", str(folder), "-o", str(tmp_path / "page.html")]) == 2


def test_a_page_replaces_a_link_instead_of_following_it(run_folders, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "page.html").symlink_to(victim)
    write_report([read_run(run_folders / "rebll_seed0")], tmp_path / "page.html")
    assert victim.read_text() == "precious"
    assert not (tmp_path / "page.html").is_symlink()


@pytest.mark.parametrize("name", [r"$\frac$", "$x", "a$b$c", r"\$", "$$"])
def test_a_dollar_sign_in_the_name_of_a_class_is_drawn(write_run, tmp_path, name):
    folder = write_run(tmp_path / "run", "lwf")
    path = folder / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        first = next(iter(line["per_class_ap"]))
        line["per_class_ap"][name] = line["per_class_ap"].pop(first)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = write_report([read_run(folder)], tmp_path / "page.html").read_text()
    assert f">{name}<" in page


@pytest.mark.parametrize(
    "change",
    [{"classes_seen": 10**30}, {"experience": -1}, {"relabelling_blocks": [{"images": 0}]}],
)
def test_a_line_that_no_figure_can_show_is_no_result(write_run, tmp_path, change):
    folder = write_run(tmp_path / "run", "lwf")
    path = folder / "metrics.jsonl"
    first, *others = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps(json.loads(first) | change), *others]))
    with pytest.raises(DamagedError, match="line 1 is not a result"):
        read_run(folder)


@pytest.mark.parametrize("place", [{"images": 6}, {"classes": 6}, {"classes": -1}, {"images": 0.5}])
def test_a_block_outside_of_memory_is_no_result(write_run, tmp_path, place):
    folder = write_run(tmp_path / "run", "rebll")
    path = folder / "metrics.jsonl"
    *others, last = path.read_text().splitlines()
    line = json.loads(last)
    line["relabelling_blocks"][0] |= place
    path.write_text("\n".join([*others, json.dumps(line)]))
    with pytest.raises(DamagedError, match=r"memory\.npz has 6 experiences"):
        read_run(folder)


def test_a_block_whose_images_have_left_memory_is_not_drawn(write_run, tmp_path):
    """A run that was stopped between its two files: memory is newer than the last line."""
    folder = write_run(tmp_path / "run", "rebll")
    with np.load(folder / "memory.npz") as stored:
        arrays = dict(stored)
    left = arrays["experience"] != 0
    rows = {name: arrays[name][left] for name in ("labels", "provenance", "experience")}
    np.savez(folder / "memory.npz", **(arrays | rows))
    assert write_report([read_run(folder)], tmp_path / "page.html").is_file()


@pytest.mark.parametrize("ends", [[], [5, 3, 20], [5, 200], [[5, 20]], [5.0, 20.0], ["5", "20"]])
def test_ends_of_classes_that_memory_does_not_have(write_run, tmp_path, ends):
    folder = write_run(tmp_path / "run", "rebll")
    with np.load(folder / "memory.npz") as stored:
        arrays = dict(stored) | {"class_ends": np.array(ends)}
    np.savez(folder / "memory.npz", **arrays)
    with pytest.raises(DamagedError, match=r"memory\.npz does not fit together"):
        read_run(folder)


def test_escapes_do_not_reach_the_terminal():
    assert printable("dog\x1b[2J\x9b\r") == "dog\\x1b[2J\\x9b\\r"
    assert printable("chien à poil\n\t狗") == "chien à poil\n\t狗"
