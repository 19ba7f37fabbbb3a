"""The commands around a learner's file."""

from __future__ import annotations

import csv
import json
import shutil
import threading

import pytest

from rebll_avalanche import Learner
from rebll_avalanche.cli import main
from rebll_avalanche.learner.held import changing
from rebll_avalanche.pictures import read_picture

KIND = ("--image-size", "64")


@pytest.fixture
def city(month, small, tmp_path):
    """A learner's file that knows two classes."""
    learner = small()
    learner.learn(month("march", ["red", "green"], count=40))
    return learner.save(tmp_path / "city.rebll")


def test_learn_makes_the_file_and_goes_on(month, tmp_path, capsys):
    file = tmp_path / "city.rebll"
    march, april = month("march", ["red", "green"]), month("april", ["blue"], seed=1)
    assert main(["learn", str(file), str(march), *KIND]) == 0
    assert "new classes: green, red" in capsys.readouterr().out
    shutil.rmtree(march.parent)
    moved = tmp_path / "april.csv"
    april.rename(moved)
    assert main(["learn", str(file), str(moved), "--images", str(april.parent)]) == 0
    assert Learner.load(file).class_names == ("green", "red", "blue")
    capsys.readouterr()
    assert main(["learn", str(file), str(moved), *KIND]) == 2
    assert "--image-size" in capsys.readouterr().err
    assert main(["show", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "1: " in shown
    assert "new: blue" in shown


def test_a_stopped_lesson_leaves_the_file(city, month, monkeypatch, capsys):
    content = city.read_bytes()
    table = month("april", ["blue"], seed=1)

    def stopped(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("rebll_avalanche.learner.teaching.teach", stopped)
        assert main(["learn", str(city), str(table)]) == 130
    assert capsys.readouterr().err.endswith("rebll learn: stopped; nothing was changed\n")
    assert city.read_bytes() == content
    assert main(["learn", str(city), str(table)]) == 0
    capsys.readouterr()


def test_predict(city, tmp_path, capsys):
    folder, table = tmp_path / "march", tmp_path / "out.csv"
    (folder / "broken.png").write_bytes(b"no picture")
    assert main(["predict", str(city), str(folder), "--csv", str(table), "--json"]) == 1
    captured = capsys.readouterr()
    assert "broken.png" in captured.err
    answers = [json.loads(line) for line in captured.out.splitlines()]
    rows = list(csv.DictReader(table.read_text().splitlines()))
    expected = Learner.load(city).predict([answer["image"] for answer in answers])
    for answer, row in zip(answers, rows, strict=True):
        assert answer["image"] == row["image"]
        assert set(answer["labels"]) == set(expected[row["image"]])
        assert row["labels"] == ";".join(answer["labels"])
        assert float(row["red"]) == pytest.approx(answer["scores"]["red"], abs=1e-6)
    assert main(["predict", str(city), str(folder / "march0.png"), "--threshold", "0"]) == 0
    assert "(above 0)" in capsys.readouterr().out


def test_evaluate_correct_forget_undo(city, month, tmp_path, capsys):
    held_out = month("held_out", ["red", "green"], count=20, seed=5)
    assert main(["evaluate", str(city), str(held_out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 0.5 < found["mean_average_precision"] <= 1

    labels = (tmp_path / "march/labels.csv").read_text().splitlines()[1:3]
    corrections = tmp_path / "corrections.csv"
    flipped = [f"{line.split(',')[0]},{'' if 'red' in line else 'red'}" for line in labels]
    corrections.write_text("\n".join(["file,labels", *flipped]))
    assert main(["correct", str(city), str(corrections), "--about", "red"]) == 0
    assert "2 labels changed (red 2)" in capsys.readouterr().out
    assert main(["forget", str(city), "--images", labels[0].split(",")[0]]) == 0
    left = int(capsys.readouterr().out.split()[1])
    assert left == len((tmp_path / "march/labels.csv").read_text().splitlines()) - 2
    assert main(["forget", str(city), "--classes", "red"]) == 0
    assert capsys.readouterr().out == f"left: {left} pictures, 1 class, 1 lesson\n"
    assert Learner.load(city).class_names == ("green",)
    assert main(["undo", str(city)]) == 0
    assert Learner.load(city).class_names == ()
    capsys.readouterr()
    assert main(["undo", str(city)]) == 2
    assert "no lesson to undo" in capsys.readouterr().err


def test_suggest_and_audit(city, month, tmp_path, capsys):
    folder = month("new", ["red", "green"], count=10, seed=7).parent
    assert main(["suggest", str(city), str(folder), "-n", "3"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    page, table = tmp_path / "suspects.html", tmp_path / "suspects.csv"
    corrections = tmp_path / "wrong.csv"
    corrections.write_text("file,labels\nmarch0.png,green\n")  # it shows red
    assert main(["correct", str(city), str(corrections), "--about", "red,green"]) == 0
    arguments = ["--html", str(page), "--csv", str(table), "--images", str(tmp_path / "march")]
    assert main(["audit", str(city), *arguments]) == 0
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert {"march0.png"} <= {row["file"] for row in rows[:2]}
    assert "data:image/jpeg;base64," in page.read_text()
    assert "not here" not in page.read_text()


def test_the_table_of_an_audit_can_be_edited_and_given_back(city, tmp_path, capsys):
    """The pictures are gone; what a person leaves as it is changes nothing."""
    wrong, doubts = tmp_path / "wrong.csv", tmp_path / "doubts of today.csv"
    wrong.write_text("file,class,present\nmarch0.png,red,0\n")  # it shows red
    assert main(["correct", str(city), str(wrong)]) == 0
    shutil.rmtree(tmp_path / "march")
    capsys.readouterr()
    assert main(["audit", str(city), "--csv", str(doubts)]) == 0
    assert f"rebll correct {city} '{doubts}'" in capsys.readouterr().out
    assert main(["correct", str(city), str(doubts)]) == 0
    assert "0 labels changed" in capsys.readouterr().out

    rows = list(csv.DictReader(doubts.read_text().splitlines()))
    [row] = [row for row in rows if (row["file"], row["class"]) == ("march0.png", "red")]
    assert row["present"] == "0"
    row["present"] = "1"
    with doubts.open("w", newline="") as stream:  # as a spreadsheet in another country saves it
        writer = csv.DictWriter(stream, list(row), delimiter=";")
        writer.writeheader()
        writer.writerows(rows)
    assert main(["correct", str(city), str(doubts)]) == 0
    assert "1 label changed (red 1)" in capsys.readouterr().out
    left = [(each.picture, each.name) for each in Learner.load(city).audit(None)]
    assert ("march0.png", "red") not in left


def test_an_audit_tells_pictures_of_one_name_apart(city, draw, tmp_path, capsys):
    for folder, shown in (("a", "red"), ("b", "green")):
        place = tmp_path / folder
        place.mkdir()
        draw([shown], 90).save(place / "same.png")
        (place / "labels.csv").write_text("file,red,green\nsame.png,0,0\n")
        assert main(["learn", str(city), str(place / "labels.csv")]) == 0
    doubts = tmp_path / "doubts.csv"
    assert main(["audit", str(city), "-n", "1000", "--csv", str(doubts)]) == 0
    text = doubts.read_text()
    rows = [row for row in csv.DictReader(text.splitlines()) if "march" not in row["file"]]
    assert {row["class"] for row in rows} == {"red", "green"}
    doubts.write_text(
        "\n".join(["file,class,present", *(f"{r['file']},{r['class']},1" for r in rows)])
    )
    capsys.readouterr()
    assert main(["correct", str(city), str(doubts)]) == 0
    assert "2 labels changed (green 1, red 1)" in capsys.readouterr().out


def test_export_gives_the_same_scores(city, tmp_path, capsys):
    onnxruntime = pytest.importorskip("onnxruntime")
    assert main(["export", str(city)]) == 0
    session = onnxruntime.InferenceSession(str(city.with_suffix(".onnx")))
    picture = tmp_path / "march" / "march0.png"
    learner = Learner.load(city)
    inputs = learner.trained_model().prepare([read_picture(picture)])
    (scores,) = session.run(None, {"images": inputs.numpy()})
    assert scores[0].tolist() == pytest.approx(learner.scores(picture)[0].tolist(), abs=1e-4)
    properties = session.get_modelmeta().custom_metadata_map
    assert json.loads(properties["class_names"]) == ["green", "red"]


def test_two_writers_lose_no_lesson(city, month):
    tables = [month("april", ["blue"], seed=1), month("may", ["black"], seed=2)]
    begun = threading.Event()

    def later():
        begun.wait()
        with changing(city) as learner:
            learner.learn(tables[1])

    other = threading.Thread(target=later)
    other.start()
    with changing(city) as learner:
        begun.set()
        learner.learn(tables[0])
    other.join()
    assert Learner.load(city).class_names == ("green", "red", "blue", "black")


@pytest.mark.parametrize("command", ["predict", "export", "show", "audit", "undo"])
def test_a_file_that_is_not_there_is_named(command, tmp_path, capsys):
    file = tmp_path / "nowhere.rebll"
    assert main([command, str(file), *(["x.jpg"] if command == "predict" else [])]) == 2
    assert f"there is no file {file}" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "command", ["learn", "evaluate", "correct", "forget", "undo", "suggest", "audit"]
)
def test_help(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    assert "rebll" in capsys.readouterr().out
