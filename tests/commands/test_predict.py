import io
import json

import pytest
from PIL import Image

from rebll_avalanche import cli
from rebll_avalanche.commands.predict import Problems, free_name, image_files


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    (folder / "deeper").mkdir(parents=True)
    Image.new("RGB", (40, 60), "red").save(folder / "red.png")
    Image.new("L", (48, 48), 128).save(folder / "deeper" / "grey.JPG", format="jpeg")
    (folder / "notes.txt").write_text("not a picture")
    return folder


def test_names_stand_for_files_folders_and_lines(pictures):
    problems = Problems()
    lines = io.StringIO("a.jpg\n\n b.jpg \n")
    found = list(image_files(["x.png", str(pictures), "-"], lines, problems))
    names = [path.name for path in found]
    assert names == ["x.png", "grey.JPG", "red.png", "a.jpg", "b.jpg"]
    assert problems.count == 0


def test_a_folder_without_images_is_a_problem(tmp_path, capsys):
    problems = Problems()
    assert list(image_files([str(tmp_path)], [], problems)) == []
    assert problems.count == 1
    assert f"there are no images in {tmp_path}" in capsys.readouterr().err


def test_text_shows_labels_scores_and_threshold(trained_run, pictures, capsys):
    assert cli.main(["predict", str(trained_run), str(pictures), "--threshold", "0"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert "grey.JPG: " in first
    assert second.startswith(f"{pictures / 'red.png'}: ")
    assert second.endswith("(above 0)")
    assert second.count(", ") == 19
    assert (
        cli.main(["predict", str(trained_run), str(pictures / "red.png"), "--threshold", "1"]) == 0
    )
    assert "nothing above 1; highest is " in capsys.readouterr().out


def test_the_table_is_whole_although_nobody_reads_the_lines(
    trained_run, pictures, tmp_path, monkeypatch
):
    def closed(*_, **__) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("rebll_avalanche.commands.predict.print", closed, raising=False)
    table = tmp_path / "out.csv"
    assert cli.main(["predict", str(trained_run), str(pictures), "--csv", str(table)]) == 0
    assert len(table.read_text().splitlines()) == 3


def test_json_has_one_object_per_image_even_if_named_twice(
    trained_run, pictures, monkeypatch, capsys
):
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{pictures / 'red.png'}\n"))
    red = str(pictures / "red.png")
    assert cli.main(["predict", str(trained_run), red, "-", "--json"]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answer["image"] for answer in answers] == [red, red]
    assert answers[0]["threshold"] == 0.8
    assert len(answers[0]["scores"]) == 20
    assert answers[0]["labels"] == [n for n, score in answers[0]["scores"].items() if score > 0.8]
    assert answers[0]["scores"] == answers[1]["scores"]


def test_unreadable_files_are_skipped_and_the_exit_code_says_so(trained_run, pictures, capsys):
    names = [str(pictures / name) for name in ("notes.txt", "red.png", "gone.png")]
    assert cli.main(["predict", str(trained_run), *names]) == 1
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 1
    assert "red.png" in said.out
    assert "skipped: cannot read" in said.err
    assert f"skipped: there is no file {pictures / 'gone.png'}" in said.err


def test_maps_are_written_for_every_label(trained_run, pictures, tmp_path, capsys):
    maps = tmp_path / "maps"
    red = str(pictures / "red.png")
    arguments = [
        "predict",
        str(trained_run),
        red,
        red,
        "--json",
        "--threshold",
        "0.01",
        "--cam",
        str(maps),
    ]
    assert cli.main(arguments) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    files = [entry["file"] for answer in answers for entry in answer["maps"]]
    assert len(files) == len(set(files)) == 2 * len(answers[0]["labels"]) > 0
    with Image.open(files[0]) as picture:
        assert picture.size == (40, 60)


def test_existing_files_are_not_overwritten(tmp_path):
    (tmp_path / "a.jpg").touch()
    (tmp_path / "a-2.jpg").touch()
    assert free_name(tmp_path, "a") == tmp_path / "a-3.jpg"


def test_wrong_arguments_are_refused(tmp_path, capsys):
    assert cli.main(["predict", str(tmp_path), "x.png"]) == 2
    assert "is not a run" in capsys.readouterr().err
    assert cli.main(["predict", str(tmp_path), "x.png", "--threshold", "1.5"]) == 2
    assert "between 0 and 1, got 1.5" in capsys.readouterr().err
