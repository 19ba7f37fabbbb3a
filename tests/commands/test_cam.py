import json
import shutil

import pytest
from PIL import Image

from rebll_avalanche import cli


@pytest.fixture
def run_folder(trained_run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(trained_run, folder)
    return folder


def test_test_images_come_with_their_labels(run_folder, capsys):
    assert cli.main(["cam", str(run_folder), "--count", "3", "--classes", "2"]) == 0
    assert capsys.readouterr().out.strip() == str(run_folder / "cam")
    records = json.loads((run_folder / "cam" / "cam.json").read_text())
    assert len(records) == 3
    for record in records:
        scores = [entry["score"] for entry in record["maps"]]
        assert scores == sorted(scores, reverse=True)
        assert 1 <= len(scores) <= 2
        assert all(entry["present"] in (True, False) for entry in record["maps"])
        for name in (record["file"], *(entry["file"] for entry in record["maps"])):
            with Image.open(run_folder / "cam" / name) as picture:
                assert picture.size == (48, 48)


def test_maps_replace_older_maps(run_folder):
    assert cli.main(["cam", str(run_folder), "--count", "2"]) == 0
    assert cli.main(["cam", str(run_folder), "--count", "1"]) == 0
    assert len(json.loads((run_folder / "cam" / "cam.json").read_text())) == 1
    assert not list((run_folder / "cam").glob("001*"))
    assert not (run_folder / ".cam.writing").exists()


def test_given_images_have_no_known_labels(run_folder, tmp_path, capsys):
    Image.new("RGB", (90, 60), "teal").save(tmp_path / "teal.png")
    names = [str(tmp_path / "teal.png"), str(tmp_path / "gone.png")]
    out = tmp_path / "maps"
    assert cli.main(["cam", str(run_folder), *names, "-o", str(out)]) == 1
    assert "skipped: there is no file" in capsys.readouterr().err
    (record,) = json.loads((out / "cam.json").read_text())
    assert record["name"] == "teal.png"
    assert record["maps"][0]["present"] is None


def test_a_folder_of_other_files_is_left_alone(run_folder, tmp_path, capsys):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "love.txt").write_text("dear")
    assert cli.main(["cam", str(run_folder), "--count", "1", "-o", str(tmp_path / "letters")]) == 2
    assert "holds other files" in capsys.readouterr().err
    assert (tmp_path / "letters" / "love.txt").read_text() == "dear"
    assert not (tmp_path / ".letters.writing").exists()


def test_counts_are_at_least_one(run_folder, capsys):
    for option in ("--count", "--classes"):
        assert cli.main(["cam", str(run_folder), option, "0"]) == 2
        assert f"{option} must be at least 1, got 0" in capsys.readouterr().err


def test_nothing_to_draw_is_an_error(run_folder, tmp_path, capsys):
    assert cli.main(["cam", str(run_folder), str(tmp_path / "gone.png")]) == 2
    assert "no image to draw maps for" in capsys.readouterr().err
    assert not (run_folder / "cam").exists()
