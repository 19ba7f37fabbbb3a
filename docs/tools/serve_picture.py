"""Take docs/serve.png again, the picture of the page in README: python docs/tools/serve_picture.py

A server with a learner of synthetic scenes is started, and a real Chromium teaches it a new label. The
PNG file holds a hash of the page's files, by which a test notices when the picture is outdated.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import expect, sync_playwright

from rebll_avalanche import Learner
from rebll_avalanche.benchmarks.drawing import Scenes, draw_scenes
from rebll_avalanche.benchmarks.shapes import CLASSES
from rebll_avalanche.tables import AnnotationTable

TARGET = Path(__file__).parents[1] / "serve.png"
PAGE = Path(__file__).parents[2] / "rebll_avalanche" / "serve" / "static"
NAMES = tuple(CLASSES)
KNOWN, NEW = 6, "diamond"
TAUGHT, SHOWN = 240, 9
SIZE = {"width": 900, "height": 760}


def page_hash() -> str:
    """SHA-256 of the page's files."""
    found = hashlib.sha256()
    for path in sorted(PAGE.iterdir()):
        found.update(path.read_bytes())
    return found.hexdigest()


def write(screenshot: bytes) -> None:
    """Write the picture with the hash of the page that it shows."""
    about = PngInfo()
    about.add_text("page", page_hash())
    Image.open(io.BytesIO(screenshot)).save(TARGET, pnginfo=about, optimize=True)


def taught(scenes: Scenes) -> Learner:
    """A learner that knows the first classes."""
    learner = Learner()
    learner.learn(
        AnnotationTable(
            images=tuple(f"scene {number}.png" for number in range(TAUGHT)),
            class_names=NAMES[:KNOWN],
            labels=scenes.labels[:TAUGHT, :KNOWN],
            read_as="drawn",
            pictures=[Image.fromarray(image) for image in scenes.images[:TAUGHT]],
        )
    )
    return learner


def some_scenes(scenes: Scenes) -> list[int]:
    """Scenes that were not taught; every third has the new class."""
    later = np.arange(TAUGHT, len(scenes.images))
    has = scenes.labels[later, NAMES.index(NEW)] == 1
    chosen = [*later[has][: SHOWN // 3], *later[~has][: SHOWN - SHOWN // 3]]
    return [int(scene) for scene in np.array(chosen).reshape(3, -1).T.ravel()]


def main() -> None:
    """Take it."""
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    scenes = draw_scenes(600, 96, 0, 0)
    with tempfile.TemporaryDirectory() as folder:
        file = taught(scenes).save(Path(folder, "scenes.rebll"))
        paths = []
        for scene in some_scenes(scenes):
            paths.append(str(Path(folder, f"scene {scene}.png")))
            Image.fromarray(scenes.images[scene]).save(paths[-1])
        command = [sys.executable, "-m", "rebll_avalanche.cli", "serve", str(file), "--port", "0"]
        with (
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server,
            sync_playwright() as playwright,
        ):
            try:
                assert server.stdout is not None
                address = server.stdout.readline().strip()
                arguments = ["--no-sandbox", "--disable-gpu"]
                browser = playwright.chromium.launch(executable_path=browser_path, args=arguments)
                page = browser.new_page(viewport=SIZE, color_scheme="light")
                page.goto(address)
                page.locator("#look-files").set_input_files(paths)
                expect(page.locator("#message")).to_contain_text("looked at", timeout=60_000)
                page.get_by_role("button", name="Teach all of these").click()
                page.get_by_role("link", name="Teach").click()
                page.locator("#new-label-name").fill(NEW)
                page.keyboard.press("Enter")
                labels = [scenes.labels[int(Path(path).stem.split()[1])] for path in paths]
                for row, label in zip(page.locator("#tray > li").all(), labels, strict=True):
                    if label[NAMES.index(NEW)]:
                        row.get_by_role("button", name=f"{NEW}: ").click()
                page.mouse.move(0, 0)
                page.evaluate("scrollTo(0, 0)")
                write(page.screenshot())
                browser.close()
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
