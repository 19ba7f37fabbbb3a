"""Upload and download by huggingface_hub's own client, to a stand-in for the hub on this machine."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlparse

import pytest
import torch

from rebll_avalanche import Learner

COMMIT = "0" * 40


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as an upload of small files and a download need."""

    files: dict[str, bytes]
    created: list[dict]

    def answer(self, content: object, status: int = 200, **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = urlparse(self.path).path
        address = f"http://{self.headers['Host']}/me/city"
        if path == "/api/repos/create":
            self.created.append(json.loads(body))
            self.answer({"url": address})
        elif path == "/api/validate-yaml":
            self.answer({"errors": [], "warnings": []})
        elif "/preupload/" in path:
            listed = [file["path"] for file in json.loads(body)["files"]]
            kinds = [
                {"path": name, "uploadMode": "regular", "shouldIgnore": False} for name in listed
            ]
            self.answer({"files": kinds})
        elif "/commit/" in path:
            for line in body.splitlines():
                entry = json.loads(line)
                if entry["key"] == "file":
                    value = entry["value"]
                    self.files[value["path"]] = base64.b64decode(value["content"])
            url = f"{address}/commit/{COMMIT}"
            self.answer({"commitUrl": url, "commitOid": COMMIT, "success": True})
        else:
            self.answer({"error": path}, 404)

    def do_GET(self) -> None:
        path = unquote(urlparse(self.path).path)
        name = path.rsplit("/", 1)[-1]
        if "/resolve/" in path and name in self.files:
            content = self.files[name]
            tag = f'"{hashlib.sha1(content).hexdigest()}"'
            self.answer(content, ETag=tag, X_Repo_Commit=COMMIT)
        elif path.startswith("/api/models/"):
            self.answer({"id": "me/city", "sha": COMMIT, "siblings": []})
        else:
            self.answer({"error": path}, 404, X_Error_Code="EntryNotFound")

    do_HEAD = do_GET  # noqa: N815 - as the server calls it

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """The address of a stand-in, and what it has got."""
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    kind = type("ThisHub", (Hub,), {"files": {}, "created": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", kind
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_there_and_back(hub, month, small, draw, monkeypatch):
    endpoint, received = hub
    learner = small()
    learner.learn(month("march", ["red", "green"]))
    options = {"token": "hf_none", "endpoint": endpoint}
    assert COMMIT in learner.push_to_hub("me/city", private=True, **options)
    asked = received.created[0]
    assert asked.get("private") is True or asked.get("visibility") == "private"
    card = received.files["README.md"].decode()
    assert "library_name: rebll-avalanche" in card
    assert "| red |" in card
    assert "leave-one-out" in card
    loaded = Learner.from_pretrained("me/city", **options)
    assert torch.equal(loaded.scores(draw(["red"], 1)), learner.scores(draw(["red"], 1)))
