"""Who does not belong is kept out, and what is sent cannot do harm."""

from __future__ import annotations

import json
import signal
import struct
import subprocess
import sys
import time
from io import BytesIO

import httpx
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from rebll_avalanche import Learner
from rebll_avalanche.errors import RebllError
from rebll_avalanche.serve.app import STATIC, make_app
from rebll_avalanche.serve.guard import Limits
from rebll_avalanche.serve.service import LearnerService

OURS = "http://127.0.0.1:8765"


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example:8765"},
        {"host": "evil@127.0.0.1:8765"},
        {"host": ""},
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
    ids=str,
)
def test_other_sites_are_refused(client, headers):
    assert client.post("/api/undo", headers=headers).status_code == 403
    assert len(client.get("/api/lessons").json()) == 1


def test_our_own_page_is_answered_and_nobody_else_may_read(client):
    own = {"origin": OURS, "sec-fetch-site": "same-origin"}
    answer = client.post("/api/rename", json={"old": "red", "new": "crimson"}, headers=own)
    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert client.options("/api/undo", headers={"origin": "http://evil.example"}).status_code == 403


def test_every_answer_has_the_headers_that_keep_scripts_out(client):
    for place in ("/", "/docs", "/main.js", "/api/health", "/nothing", "/api/openapi.json"):
        policy = client.get(place).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
    assert client.get("/docs").status_code == 200


def test_nothing_is_loaded_from_another_host_or_made_of_html():
    for file in STATIC.iterdir():
        text = file.read_text()
        for word in ("https://", "innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "style="):
            assert word not in text, f"{word} in {file.name}"


def test_another_address_needs_the_token(taught, path):
    app = make_app(taught(), path, token="right")
    with TestClient(app, base_url="http://10.0.0.7:8765") as client:
        assert client.get("/").status_code == 200, "the page itself holds no secret"
        assert client.get("/api/health").status_code == 200
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Bearer rightt"},
                        {"authorization": "right"}, {"authorization": "Bearer \xff"}):  # fmt: skip
            encoded = {name: value.encode("latin-1") for name, value in headers.items()}
            assert client.get("/api/classes", headers=encoded).status_code == 401
            assert client.post("/api/undo", headers=encoded).status_code == 401
        good = {"authorization": "Bearer right"}
        assert client.get("/api/classes", headers=good).status_code == 200
        assert client.post("/api/undo", headers=good | {"origin": "http://a.b"}).status_code == 403


def test_what_is_too_large_is_refused(taught, path, scenes):
    limits = Limits(body=200_000, pictures=3, pixels=10_000)
    with TestClient(make_app(taught(), path, limits=limits), base_url=OURS) as client:
        small = scenes.png([], 1)
        assert client.post("/api/predict", files=scenes.files(small)).status_code == 200
        assert client.post("/api/predict", files=scenes.files(b"x" * 300_000)).status_code == 413

        def unannounced():
            yield b'--x\r\nContent-Disposition: form-data; name="pictures"; filename="a"\r\n\r\n'
            for _ in range(50):
                yield b"x" * 10_000

        kind = {"content-type": "multipart/form-data; boundary=x"}
        answer = client.post("/api/predict", content=unannounced(), headers=kind)
        assert answer.status_code == 413, answer.text
        assert client.post("/api/predict", files=scenes.files(*[small] * 4)).status_code == 413
        for size in [(200, 200), (1, 90)]:
            stream = BytesIO()
            Image.new("L", size).save(stream, "PNG")
            for place in ("predict", "learn"):
                answer = client.post(
                    f"/api/{place}",
                    files=scenes.files(stream.getvalue()),
                    data={"labels": '[["red"]]'},
                )
                assert answer.status_code == 422
                assert "pixels" in answer.json()["detail"]


def blank(width: int, height: int) -> bytes:
    """A picture of many pixels and few bytes."""
    stream = BytesIO()
    Image.new("1", (width, height)).save(stream, "PNG")
    return stream.getvalue()


def test_small_files_of_many_pixels_are_refused_before_they_are_decoded(
    taught, path, scenes, monkeypatch
):
    """Pictures of few bytes each, which together would need more memory than there is."""
    decoded = []
    decode = Image.Image.load

    def watched(self, *given):
        decoded.append(self.size)
        return decode(self, *given)

    app = make_app(taught(), path, limits=Limits(pixels=1_000_000, pixels_at_once=1_500_000))
    with TestClient(app, base_url=OURS) as client:
        bomb, large = blank(900, 900), blank(1001, 1000)
        assert len(bomb) < 2000
        monkeypatch.setattr(Image.Image, "load", watched)
        answer = client.post("/api/predict", files=scenes.files(bomb, bomb))
        assert answer.status_code == 413, "two at once are too many, even if nobody else asks"
        icon = struct.pack("<HHHBBBBHHII", 0, 1, 1, 64, 64, 0, 0, 1, 32, len(bomb), 22) + bomb
        assert client.post("/api/predict", files=scenes.files(icon)).status_code == 422
        assert client.post("/api/predict", files=scenes.files(large)).status_code == 422
        assert decoded == []
        # One after the other there is room for any number.
        many = scenes.files(*[bomb] * 3)
        assert client.post("/api/suggest", files=many).status_code == 200
        labels = {"labels": json.dumps([["red"]] * 3)}
        assert client.post("/api/learn", files=many, data=labels).status_code == 202


def test_a_body_without_pictures_is_short(taught, path):
    with TestClient(make_app(taught(), path, limits=Limits(text=1000)), base_url=OURS) as client:
        body = {"pictures": ["x" * 300] * 10}
        assert client.post("/api/forget", json=body).status_code == 413


def test_all_bodies_together_are_bounded(taught, path, scenes):
    with TestClient(
        make_app(taught(), path, limits=Limits(bodies=10_000)), base_url=OURS
    ) as client:
        assert client.post("/api/predict", files=scenes.files(b"x" * 20_000)).status_code == 429
        small = scenes.files(scenes.png([], 1)[:5000])
        assert client.post("/api/predict", files=small).status_code == 422, "the room is free again"


def test_the_token_is_compared_in_constant_time(taught, path, monkeypatch):
    compared = []

    def watched(one, other):
        compared.append((one, other))
        return one == other

    monkeypatch.setattr("rebll_avalanche.serve.guard.secrets.compare_digest", watched)
    with TestClient(make_app(taught(), path, token="right"), base_url="http://a.b") as client:
        client.get("/api/classes", headers={"authorization": "Bearer wrong"})
    assert compared == [(b"Bearer wrong", b"Bearer right")]


def test_too_many_at_once_are_sent_away(taught, path, scenes):
    app = make_app(taught(), path, limits=Limits(requests=0))
    with TestClient(app, base_url=OURS) as client:
        assert client.post("/api/undo").status_code == 429
        assert client.get("/api/classes").status_code == 200


def test_names_are_text_and_nothing_else(client, tmp_path, scenes):
    evil = "<img src=x onerror=alert(1)>"
    names = ["../../../../etc/passwd", "..\\..\\boot.ini", "/etc/shadow", f"{evil}.png"]
    contents = [scenes.png(["green"] * (i % 2), 40 + i) for i in range(4)]
    labels = [{evil: bool(i % 2)} for i in range(4)]
    sent = scenes.files(*contents, names=names)
    before = sorted(tmp_path.rglob("*"))
    answer = client.post("/api/predict", files=sent)
    assert [each["name"] for each in answer.json()["pictures"]][:3] == [
        "passwd",
        "boot.ini",
        "shadow",
    ]
    answer = client.post("/api/learn?wait=true", files=sent, data={"labels": json.dumps(labels)})
    assert answer.json()["state"] == "done", answer.text
    assert answer.headers["content-type"] == "application/json"
    assert {path.name for path in tmp_path.rglob("*")} - {path.name for path in before} == {
        "colours.rebll"
    }
    # A name is looked up among those that were taught, never on the disk: not even where a file of that
    # name has the very bytes that were taught.
    (tmp_path / "other.png").write_bytes(contents[1])
    there = str(tmp_path / "other.png")
    for place, body in [
        ("forget", {"pictures": [there]}),
        (
            "correct",
            {"corrections": [{"picture": there, "name": "red", "present": True}]},
        ),
    ]:
        answer = client.post(f"/api/{place}", json=body)
        assert answer.status_code == 422
        assert "never learned" in answer.json()["detail"]


def test_no_answer_tells_where_things_are(client, tmp_path, scenes):
    client.post("/api/learn?wait=true", **scenes.green_lesson())
    broken = scenes.png(["red"], 1)[:300]
    told = [
        client.get(f"/api/{place}").text
        for place in (
            *("health", "about", "classes", "lessons", "jobs", "audit", "worst?name=red"),
            *("thumbnail?picture=/etc/passwd", "openapi.json", "nothing"),
        )
    ]
    told.append(client.post("/api/predict", files=scenes.files(broken)).text)
    data = {"labels": '[["red"]]'}
    told.append(client.post("/api/learn", files=scenes.files(broken), data=data).text)
    told.append(client.get("/../../../../etc/passwd").text)
    told.append(client.get("/%2e%2e/%2e%2e/app.py").text)
    for text in told:
        assert str(tmp_path) not in text
        assert "/tmp" not in text
        assert "site-packages" not in text
        assert "make_app" not in text


def test_an_error_of_a_lesson_names_no_folder(taught, path):
    service = LearnerService(taught(), path)

    def fails(learner, job):
        raise RebllError(f"cannot read {path.parent}/.colours.rebll.part/3: no such file")

    job = service.submit("learn", fails).finished.result(60)
    assert job.error == "cannot read .colours.rebll.part/3: no such file"
    service.close()


def test_pictures_of_a_killed_server_are_swept(taught, path, scenes):
    left = path.parent / ".colours.rebll.0123456789abcdef.part"
    other = path.parent / ".other.rebll.0123456789abcdef.part"
    for folder in (left, other):
        folder.mkdir()
        (folder / "0").write_bytes(scenes.png([], 1))
    with TestClient(make_app(taught(), path), base_url=OURS):
        assert not left.exists()
        assert other.exists(), "of another learner, whose server may be running"


def test_killed_in_a_lesson_the_file_is_whole(taught, path, scenes):
    taught().save(path)
    command = [sys.executable, "-m", "rebll_avalanche.cli", "serve", str(path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = server.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:")
            with httpx.Client(base_url=address, timeout=120) as client:
                job = client.post("/api/learn", **scenes.green_lesson(80)).json()
                while job["state"] == "waiting":
                    time.sleep(0.01)
                    job = client.get(f"/api/jobs/{job['number']}").json()
        finally:
            server.send_signal(signal.SIGKILL)
    kept = Learner.load(path)
    assert kept.class_names[:2] == ("red", "blue")
    assert len(kept.lessons) in (1, 2), "as before, or the whole lesson"
    assert job["state"] == "done" or job["error"] is None
