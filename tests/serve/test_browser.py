"""A real browser teaches, sees what was learned, and takes it back."""

from __future__ import annotations

import os
import shutil

import pytest

sync_api = pytest.importorskip("playwright.sync_api")

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on the path")
PATIENCE = 120_000  # milliseconds


def test_teach_see_and_take_back(address, scenes):
    evil = "<b>green</b>"

    def sent(names, seed):
        return {
            "name": f"{'-'.join(names) or 'plain'}{seed}.png",
            "mimeType": "image/png",
            "buffer": scenes.png(names, seed),
        }

    lesson = [sent(["green"] if i % 2 else ["red"] * (i % 4 == 0), 500 + i) for i in range(12)]
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 390, "height": 800}, color_scheme="dark")
        page.set_default_timeout(PATIENCE)
        problems: list[str] = []
        asked: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: problems.append(said.text) if said.type == "error" else 0)
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)

        page.locator("#look-files").set_input_files([sent(["green"], 900), sent(["red"], 901)])
        cards = page.locator("#look-cards > li")
        sync_api.expect(cards.nth(1)).to_contain_text("red", timeout=PATIENCE)
        sync_api.expect(page.locator("#message")).to_contain_text("2 pictures looked at")
        assert "<b>" not in cards.nth(0).inner_text()

        page.get_by_role("button", name="Teach", exact=True).first.click()
        page.locator("#teach-files").set_input_files(lesson)
        page.locator("#new-label-name").fill(evil)
        page.keyboard.press("Enter")
        tray = page.locator("#tray > li")
        for number in range(1, 12, 2):
            chip = tray.nth(number).get_by_role("button", name=f"{evil}: ")
            chip.focus()
            while chip.get_attribute("data-state") != "yes":
                page.keyboard.press("Enter")  # the keyboard alone is enough
        shot = os.environ.get("REBLL_SCREENSHOT")
        if shot:
            page.screenshot(path=f"{shot}-teach.png")
        page.locator("#learn").click()
        sync_api.expect(page.locator("#lesson-result")).to_contain_text(evil)
        sync_api.expect(page.locator("#message")).to_contain_text("Learned lesson 1")
        wide = "document.documentElement.scrollWidth <= innerWidth"
        assert page.evaluate(wide), "nothing sticks out at the width of a phone"

        page.get_by_role("button", name="Look", exact=True).click()
        sync_api.expect(cards.nth(0).locator(".chip").filter(has_text=evil)).to_be_visible()
        assert page.locator("b").count() == 0, "a label is shown, never run"
        cards.nth(0).locator(".chip").filter(has_text=evil).hover()
        page.wait_for_function(
            "document.querySelector('#look-cards img').naturalWidth > 0", timeout=PATIENCE
        )

        page.get_by_role("button", name="Take back").click()
        page.get_by_role("button", name="Undo the last lesson").click()
        sync_api.expect(page.locator("#message")).to_contain_text("undone")
        sync_api.expect(page.locator("#class-list > li")).to_have_count(2)
        page.get_by_role("button", name="Look", exact=True).click()
        sync_api.expect(cards.nth(0)).not_to_contain_text(evil)
        browser.close()
    assert problems == []
    assert all(url.startswith((address, "blob:")) for url in asked)
