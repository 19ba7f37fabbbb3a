"""The API answers as the learner does, and changes it one lesson at a time."""

from __future__ import annotations

import gc
import json
import runpy
import sys
import threading
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from PIL import Image

from rebll_avalanche import Learner
from rebll_avalanche.errors import RebllError
from rebll_avalanche.serve import batching
from rebll_avalanche.serve.app import make_app
from rebll_avalanche.serve.batching import Batcher
from rebll_avalanche.serve.changes import label_matrix
from rebll_avalanche.serve.service import BusyError, LearnerService, OncePerState


def names_of(client) -> list[str]:
    return [each["name"] for each in client.get("/api/classes").json()]


def test_predictions_are_the_learners_own(client, taught, scenes):
    shown = [["red"], ["blue"], [], ["red", "blue"]]
    contents = [scenes.png(names, 100 + number) for number, names in enumerate(shown)]
    answer = client.post("/api/predict", files=scenes.files(*contents)).json()
    learner = taught()
    wanted = learner.predict([scenes.drawn(names, 100 + i) for i, names in enumerate(shown)])
    assert answer["thresholds"] == pytest.approx(learner.thresholds)
    for found, expected in zip(answer["pictures"], wanted.values(), strict=True):
        assert found["labels"] == pytest.approx(expected, abs=1e-5)
        assert list(found["scores"]) == ["red", "blue"]


def test_a_lesson_and_its_end(client, path, scenes):
    answer = client.post("/api/learn?wait=true", **scenes.green_lesson())
    assert answer.status_code == 202, answer.text
    job = answer.json()
    assert (job["state"], job["progress"], job["error"]) == ("done", 1, None)
    assert job["result"]["lesson"]["new_classes"] == ["green"]
    assert job["result"]["before"] == [], "nobody knew green before"
    assert client.get(f"/api/jobs/{job['number']}").json() == job
    assert names_of(client) == ["red", "blue", "green"]
    assert Learner.load(path).class_names == ("red", "blue", "green")
    [picture] = client.post("/api/predict", files=scenes.files(scenes.png(["green"], 900))).json()[
        "pictures"
    ]
    assert "green" in picture["labels"]

    more = client.post("/api/learn?wait=true", **scenes.green_lesson(8)).json()
    assert [each["name"] for each in more["result"]["before"]] == ["green"]
    assert more["result"]["known_pictures"] == 8, "the same pictures once more"
    assert len(client.get("/api/lessons").json()) == 3

    for count in (2, 1):
        assert client.post("/api/undo").status_code == 200
        assert len(client.get("/api/lessons").json()) == count
    assert names_of(client) == ["red", "blue"]
    assert Learner.load(path).class_names == ("red", "blue")


def test_rename_correct_and_forget(client, path):
    answer = client.post("/api/rename", json={"old": "red", "new": "crimson"})
    assert answer.json()["state"] == "done"
    assert names_of(client) == ["crimson", "blue"]
    wrong = {"picture": "1.png", "name": "crimson", "present": False}
    answer = client.post("/api/correct", json={"corrections": [wrong]})
    assert "1 label changed" in answer.json()["result"]["message"]
    suspects = client.get("/api/audit").json()
    assert ("1.png", "crimson", False) in [
        (each["picture"]["name"], each["name"], each["present"]) for each in suspects
    ], "what was just mislabelled is doubted"
    assert client.post("/api/forget", json={"pictures": ["1.png"]}).status_code == 200
    assert len(client.get("/api/lessons").json()[0]["pictures"]) == 19
    assert client.post("/api/forget", json={"classes": ["blue"]}).status_code == 200
    assert list(client.get("/api/thresholds").json()) == ["crimson"]
    assert client.post("/api/forget", json={"lesson": 0}).status_code == 200
    assert names_of(client) == []
    assert Learner.load(path).lessons == ()
    for place, body in [
        ("undo", None),
        ("forget", {}),
        ("forget", {"lesson": 7}),
        ("forget", {"classes": ["cat"]}),
        ("rename", {"old": "cat", "new": "dog"}),
    ]:
        assert client.post(f"/api/{place}", json=body).status_code == 422


def test_jobs_name_nothing_that_was_forgotten(client, scenes):
    for what in ({"path": "/api/undo"}, {"path": "/api/forget", "json": {"classes": ["green"]}}):
        job = client.post("/api/learn?wait=true", **scenes.green_lesson()).json()
        assert "green" in client.get(f"/api/jobs/{job['number']}").text
        client.post(what.pop("path"), **what).raise_for_status()
        after = client.get(f"/api/jobs/{job['number']}")
        assert (after.json()["state"], after.json()["result"]) == ("done", None)
        assert "green" not in after.text


def test_what_was_worked_out_goes_with_its_learner(taught):
    worked_out = OncePerState(lambda learner: set(learner.class_names))
    learner = taught()
    assert worked_out.of(learner) is worked_out.of(learner)
    del learner
    gc.collect()
    assert not worked_out._found


def test_thresholds_are_kept_until_they_are_chosen_again(client, path, scenes):
    chosen = client.get("/api/thresholds").json()
    answer = client.put("/api/thresholds", json={"red": 0.125})
    assert "red" in answer.json()["result"]["message"]
    client.post("/api/learn?wait=true", **scenes.green_lesson())
    assert client.get("/api/thresholds").json()["red"] == 0.125
    assert Learner.load(path).thresholds["red"] == 0.125
    kept = {each["name"]: each["kept"] for each in client.get("/api/classes").json()}
    assert kept == {"red": True, "blue": False, "green": False}
    client.post("/api/undo")
    for precision in (1.0, None):
        answer = client.post("/api/thresholds/choose", json={"precision": precision})
        assert answer.status_code == 200
        assert client.get("/api/about").json()["precision"] == precision
        assert Learner.load(path).precision == precision
    assert client.get("/api/thresholds").json() == pytest.approx(chosen)
    for wrong in ({"red": 2}, {"red": -0.1}, {"red": None}, {"cat": 0.5}, {}, [0.5]):
        assert client.put("/api/thresholds", json=wrong).status_code == 422
    for wrong in ({"precision": 0}, {"precision": 90}, {"recall": 0.5}):
        assert client.post("/api/thresholds/choose", json=wrong).status_code == 422
    assert client.get("/api/thresholds").json() == pytest.approx(chosen)


def test_what_it_knows_of_its_classes_and_where_it_is_wrong(client, scenes):
    assert client.get("/api/about").json() == {
        "method": "closed-form",
        "backbone": "test_resnet",
        "exact": True,
        "classes": 2,
        "lessons": 1,
        "pictures": 20,
        "precision": None,
    }
    client.post("/api/learn?wait=true", **scenes.green_lesson())
    quality = {each["name"]: each["quality"] for each in client.get("/api/classes").json()}
    assert (quality["red"]["positives"], quality["red"]["negatives"]) == (10, 10)
    assert (quality["green"]["positives"], quality["green"]["negatives"]) == (6, 6)
    wrong = {"picture": "1.png", "name": "red", "present": False}
    client.post("/api/correct", json={"corrections": [wrong]})
    found = client.get("/api/worst", params={"name": "red"}).json()
    assert all(each["name"] == "red" for each in found)
    [worst] = [each for each in found if each["picture"]["name"] == "1.png"]
    assert not worst["present"]
    assert client.get("/api/worst", params={"name": "red", "count": 1}).json() == found[:1]
    assert all(
        each["name"] == "blue" for each in client.get("/api/worst", params={"name": "blue"}).json()
    )
    assert worst["picture"]["thumbnail"]
    answer = client.get("/api/thumbnail", params={"picture": worst["picture"]["id"]})
    assert answer.headers["content-type"] == "image/jpeg"
    assert answer.content == client.get("/api/thumbnail", params={"picture": "1.png"}).content
    assert Image.open(BytesIO(answer.content)).size == (64, 64)
    assert client.get("/api/thumbnail", params={"picture": "nobody.png"}).status_code == 404


def test_two_pictures_of_one_name_are_told_apart(client, scenes):
    for seed in (1, 2):  # a phone calls every picture the same
        sent = scenes.files(
            scenes.png(["green"], seed), scenes.png([], seed), names=["image.jpg", "b"]
        )
        labels = json.dumps([["green"], []])
        client.post("/api/learn?wait=true", files=sent, data={"labels": labels}).raise_for_status()
    answer = client.post("/api/forget", json={"pictures": ["image.jpg"]})
    assert answer.status_code == 422
    lessons = client.get("/api/lessons").json()[1:]
    first, second = (lesson["pictures"][0]["id"] for lesson in lessons)
    assert first in answer.json()["detail"], "the way out"
    assert client.post("/api/forget", json={"pictures": [first]}).status_code == 200
    left = [
        [picture["name"] for picture in lesson["pictures"]]
        for lesson in client.get("/api/lessons").json()[1:]
    ]
    assert left == [["b"], ["image.jpg", "b"]]
    right = {"picture": second, "name": "red", "present": False}
    answer = client.post("/api/correct", json={"corrections": [right]})
    assert "1 label changed" in answer.json()["result"]["message"]


def test_suggestions_maps_and_the_file(client, scenes):
    pictures = scenes.files(*(scenes.png(["red"] * (i % 2), 70 + i) for i in range(5)))
    found = client.post("/api/suggest?count=3", files=pictures).json()
    assert len({each["index"] for each in found}) == 3
    picture = {"picture": ("a.png", scenes.png(["red"], 3))}
    answer = client.post("/api/map", files=picture, data={"name": "red"})
    assert answer.headers["content-type"] == "image/png"
    assert Image.open(BytesIO(answer.content)).size == (64, 64)
    assert client.post("/api/map", files=picture, data={"name": "cat"}).status_code == 422
    assert client.get("/api/file").status_code == 404
    client.post("/api/rename", json={"old": "red", "new": "crimson"})
    assert client.get("/api/file").content[:2] == b"PK"


def test_a_learner_that_knows_nothing_answers(tmp_path, backbone_options, scenes):
    learner = Learner(**backbone_options)
    app = make_app(learner, tmp_path / "new.rebll")
    with TestClient(app, base_url="http://localhost") as client:
        sent = scenes.files(scenes.png([], 1))
        [picture] = client.post("/api/predict", files=sent).json()["pictures"]
        assert picture == {"name": "p0.png", "labels": {}, "scores": {}}
        assert client.get("/api/audit").json() == []
        assert client.post("/api/suggest", files=sent).status_code == 422
        assert client.post("/api/undo").status_code == 422


def test_while_a_lesson_runs_the_old_model_answers(taught, path, scenes):
    service = LearnerService(taught(), path, most_waiting=1)
    begun, go_on = threading.Event(), threading.Event()

    def slow(learner, job):
        learner.rename("red", "crimson")
        begun.set()
        assert go_on.wait(60)
        return None

    first = service.submit("slow", slow)
    assert begun.wait(60)
    second = service.submit("undo", lambda learner, job: learner.rename("blue", "navy"))
    refused = []
    with pytest.raises(BusyError):
        service.submit("third", lambda learner, job: None, lambda: refused.append(True))
    assert refused, "what was laid aside for it is cleared away"
    batcher = Batcher(lambda: service.learner)
    answer = batcher.ask([scenes.drawn(["red"], 1)]).result(60)
    assert list(answer.thresholds) == ["red", "blue"]
    assert not path.exists()
    go_on.set()
    assert first.finished.result(60).state == "done"
    assert second.finished.result(60).state == "done"
    assert list(batcher.ask([scenes.drawn([], 1)]).result(60).thresholds) == ["crimson", "navy"]
    assert Learner.load(path).class_names == ("crimson", "navy")
    batcher.close()
    service.close()


def test_a_change_that_fails_leaves_everything_as_it_was(taught, path):
    service = LearnerService(taught(), path)

    def fails(learner, job):
        learner.rename("red", "crimson")
        raise KeyError("/a/secret/path")

    job = service.submit("rename", fails).finished.result(60)
    assert job.state == "failed"
    assert "secret" not in job.error
    assert service.learner.class_names == ("red", "blue")
    assert not path.exists()
    service.close()


def test_questions_that_wait_are_answered_together(taught, scenes, monkeypatch):
    monkeypatch.setattr(batching, "MOST_THREADS", 1)
    learner, sizes, hold = taught(), [], threading.Event()

    class Counting:
        class_names, thresholds = learner.class_names, learner.thresholds

        def scores(self, pictures):
            sizes.append(len(pictures))
            hold.wait(60)
            return learner.scores(pictures)

    batcher = Batcher(Counting)
    pictures = [scenes.drawn(["red"] * (i % 2), i) for i in range(6)]
    asked = [batcher.ask([pictures[0]])]
    while not sizes:
        pass
    asked += [batcher.ask([picture]) for picture in pictures[1:]]
    hold.set()
    found = [question.result(60).scores[0] for question in asked]
    assert sizes == [1, 5]
    assert np.allclose(found, learner.scores(pictures).numpy(), atol=1e-5)
    batcher.close()


def test_batches_are_answered_side_by_side(taught, scenes, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    learner, both = taught(), threading.Barrier(2)

    class Meeting:
        class_names, thresholds = learner.class_names, learner.thresholds

        def scores(self, pictures):
            both.wait(
                60
            )  # broken, and the answers errors, unless two batches are under way at once
            return learner.scores(pictures)

    batcher = Batcher(Meeting)
    many = [scenes.drawn(["red"] * (i % 2), i) for i in range(batching.MOST_PICTURES)]
    asked = [batcher.ask(many), batcher.ask(many)]
    expected = learner.scores(many).numpy()
    assert all(np.allclose(each.result(90).scores, expected, atol=1e-5) for each in asked)
    batcher.close()


@pytest.mark.parametrize(
    "labels", [[["cat"]], [[], []], [{"cat": None}, {}], [["cat"], ["CAT"]], [["1"], []]]
)
def test_labels_that_cannot_be_meant(labels):
    with pytest.raises(RebllError):
        label_matrix(labels, 2)


def test_a_lesson_that_cannot_be_learned_is_refused(client, scenes):
    good = scenes.png(["red"], 1)
    for contents, labels in [
        ([b"no picture"], [["red"]]),
        ([good[:200]], [["red"]]),
        ([good], [["red"], ["red"]]),
        ([good], "red"),
        ([good], [[""]]),
    ]:
        answer = client.post(
            "/api/learn", files=scenes.files(*contents), data={"labels": json.dumps(labels)}
        )
        assert answer.status_code == 422, answer.text
    # The same picture twice in a lesson, and under another name in the next.
    twice = {"files": scenes.files(good, good), "data": {"labels": json.dumps([["red"]] * 2)}}
    assert client.post("/api/learn?wait=true", **twice).json()["state"] in ("done", "failed")
    assert {job["state"] for job in client.get("/api/jobs").json()} <= {"done", "failed"}


def test_the_client_of_the_examples(address, tmp_path, monkeypatch, capsys, scenes):
    picture = tmp_path / "red.png"
    scenes.drawn(["red"], 901).save(picture)
    monkeypatch.setattr(sys, "argv", ["serve_client.py", address.rstrip("/"), str(picture)])
    client = Path(__file__).parents[2] / "examples" / "serve_client.py"
    assert len([line for line in client.read_text().splitlines() if line]) <= 10
    runpy.run_path(str(client))
    name, labels = capsys.readouterr().out.split(maxsplit=1)
    assert name == "red.png"
    assert "red" in labels
