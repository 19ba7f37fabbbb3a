"""A real browser teaches, sees what was learned, and takes it back."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from rebll_avalanche import Learner
from rebll_avalanche.words import many

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on the path")
PATIENCE = 60_000  # milliseconds
PHONE, DESK = {"width": 390, "height": 800}, {"width": 1200, "height": 900}
FITS = "document.documentElement.scrollWidth <= innerWidth"


@pytest.fixture
def browser() -> Iterator:
    expect.set_options(timeout=PATIENCE)
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture
def tab(browser, address):
    """A function that opens the page; errors in it, and anything from another host, fail the test."""
    problems: list[str] = []

    def asked(request) -> None:
        if not request.url.startswith((address, "blob:")):
            problems.append(f"asked for {request.url}")

    def logged(said) -> None:
        # That the server refuses what cannot be meant is part of a test.
        if said.type == "error" and "status of 422" not in said.text:
            problems.append(said.text)

    def open_tab(**options):
        page = browser.new_page(**({"viewport": DESK} | options))
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", logged)
        page.on("request", asked)
        page.goto(address)
        return page

    yield open_tab
    assert problems == []


@pytest.fixture
def sent(scenes):
    """A function that gives a drawn picture as a file to choose."""

    def make(names, seed) -> dict:
        return {
            "name": f"{'-'.join(names) or 'plain'}{seed}.png",
            "mimeType": "image/png",
            "buffer": scenes.png(names, seed),
        }

    return make


def go(page, section: str) -> None:
    page.get_by_role("link", name=section).click()


def says(page, text: str) -> None:
    expect(page.locator("#message")).to_contain_text(text)


def look(page, files) -> None:
    page.locator("#look-files").set_input_files(files)
    says(page, f"{many(len(files), 'picture')} looked at")


def test_teach_see_and_take_back(tab, sent):
    evil = "<b>green</b>"
    lesson = [sent(["green"] if i % 2 else ["red"] * (i % 4 == 0), 500 + i) for i in range(12)]
    page = tab(viewport=PHONE, color_scheme="dark")
    look(page, [sent(["green"], 900), sent(["red"], 901)])
    cards = page.locator("#look-cards > li")
    expect(cards.nth(1)).to_contain_text("red")
    before = cards.nth(1).locator("img").get_attribute("src")
    cards.nth(1).locator(".chip").first.hover()
    expect(cards.nth(1).locator("img")).not_to_have_attribute("src", before)  # the map
    page.mouse.move(0, 0)
    expect(cards.nth(1).locator("img")).to_have_attribute("src", before)

    go(page, "Teach")
    page.locator("#teach-files").set_input_files(lesson)
    page.locator("#new-label-name").fill(evil)
    page.keyboard.press("Enter")
    tray = page.locator("#tray > li")
    for number in range(1, 12, 2):
        chip = tray.nth(number).get_by_role("button", name=f"{evil}: ")
        chip.focus()
        while chip.get_attribute("data-state") != "yes":
            page.keyboard.press("Enter")
    page.locator("#learn").click()
    expect(page.locator("#lesson-result")).to_contain_text(evil)
    says(page, "Learned lesson 1")
    expect(tray).to_have_count(0)
    assert page.evaluate(FITS), "nothing sticks out at the width of a phone"

    go(page, "Look")
    expect(cards.nth(0).locator(".chip").filter(has_text=evil)).to_be_visible()
    assert page.locator("b").count() == 0, "a label is shown, never run"
    for section in ("Know", "Take back"):
        go(page, section)
        assert page.evaluate(FITS)
    page.get_by_role("button", name="Undo the last lesson").click()
    says(page, "undone")
    expect(page.locator("#class-list > li")).to_have_count(2)
    go(page, "Look")
    says(page, "2 pictures looked at")
    expect(cards.nth(0)).not_to_contain_text(evil)


def test_thresholds_are_moved_kept_and_chosen_again(tab, sent, path):
    page = tab()
    look(page, [sent(["red"], 901)])
    page.locator("#thresholds summary").click()
    chips = page.locator("#look-cards .chip").filter(has_text="red")
    expect(chips).to_have_count(1)
    slider = page.get_by_role("slider", name="red")
    slider.focus()
    page.keyboard.press("End")
    expect(chips).to_have_count(0)
    assert not path.exists(), "moved on this page only"
    page.get_by_role("button", name="Keep these thresholds").click()
    says(page, "thresholds kept of red")
    assert Learner.load(path).kept_thresholds == {"red": 1.0}
    page.reload()
    page.locator("#thresholds summary").click()
    expect(page.locator("#sliders")).to_contain_text("1.00 kept")
    page.locator("#precision").fill("100")
    page.get_by_role("button", name="Keep this precision").click()
    says(page, "a precision of 100 %")
    assert Learner.load(path).precision == 1.0
    page.get_by_role("button", name="the best F1").click()
    says(page, "the best F1")
    again = Learner.load(path)
    assert (again.precision, again.kept_thresholds) == (None, {})


def test_labels_are_saved_as_csv_and_json(tab, sent, tmp_path):
    page = tab()
    look(page, [sent(["red"], 901), {**sent([], 7), "name": "=cmd().png"}])
    found = {}
    for kind in ("CSV", "JSON"):
        with page.expect_download() as download:
            page.get_by_role("button", name=f"Save as {kind}").click()
        found[kind] = Path(download.value.path()).read_text()
    rows = list(csv.DictReader(found["CSV"].splitlines()))
    assert [row["file"] for row in rows] == ["red901.png", "'=cmd().png"], "never a formula"
    assert "red" in rows[0]["labels"].split(";")
    [first, _] = json.loads(found["JSON"])
    assert first["name"] == "red901.png"
    assert set(first["scores"]) == {"red", "blue"}
    assert first["labels"]["red"] == first["scores"]["red"]


def test_doubts_are_answered_with_y_and_n(tab, address, path):
    page = tab()
    wrong = [{"picture": name, "name": "red", "present": False} for name in ("1.png", "5.png")]
    assert page.request.post(f"{address}api/correct", data={"corrections": wrong}).ok
    go(page, "Know")
    worst = page.get_by_role("region", name="Worst pictures of red").get_by_role("button").first
    image = worst.locator("img")
    expect(image).to_have_attribute("src", re.compile("^blob:"))
    assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") == 64
    name = image.get_attribute("alt")
    present = "labelled present" in worst.get_attribute("aria-label")
    worst.click()
    question = page.locator("#audit")
    expect(question).to_contain_text(
        f"Does it show red? The label says {'yes' if present else 'no'}"
    )
    expect(question).to_contain_text(name)
    expect(question).to_be_focused()
    page.keyboard.press("n" if present else "y")
    says(page, f"{name}: red is {'absent' if present else 'present'} now")
    doubts = [each for each in Learner.load(path).audit(None) if each.picture == name]
    assert (name, "red", present) not in [
        (each.picture, each.name, each.present) for each in doubts
    ]

    go(page, "Teach")
    page.get_by_role("button", name="Go through them").click()
    expect(question).to_contain_text("left.")
    asked = question.inner_text()
    right, wrong = ("y", "n") if "label says yes" in asked else ("n", "y")
    page.keyboard.press(right)
    says(page, "the label was right")
    page.get_by_role("button", name="Go through them").click()
    expect(question).not_to_have_text(asked)
    assert all(was not in question.inner_text() for was in (asked, "Back"))

    def labels() -> list:
        return sorted((s.picture, s.name, s.present) for s in Learner.load(path).audit(None))

    before, asked = labels(), question.inner_text()
    page.keyboard.press("n" if "label says yes" in asked else "y")  # a slip
    says(page, " now.")
    assert labels() != before
    page.keyboard.press("b")
    expect(question).to_contain_text(f"says {'no' if 'label says yes' in asked else 'yes'}")
    page.keyboard.press("y" if "label says yes" in asked else "n")
    expect(page.locator("#message")).to_contain_text(
        f"{'present' if 'label says yes' in asked else 'absent'} now."
    )
    assert labels() == before


def test_two_tabs_see_each_others_changes(tab, sent):
    one, other = tab(), tab()
    for page in (one, other):
        look(page, [sent(["red"], 901)])
    go(one, "Take back")
    one.get_by_role("textbox", name="Name of red").fill("crimson")
    one.keyboard.press("Enter")
    says(one, "red is called crimson now")
    go(other, "Take back")
    expect(other.get_by_role("textbox", name="Name of crimson")).to_be_visible()
    other.on("dialog", lambda dialog: dialog.accept())
    other.get_by_role("button", name="Forget blue").click()
    says(other, "forgotten: blue")
    other.locator("#lessons summary").click()
    other.get_by_role("button", name="Forget 3.png", exact=True).click()
    says(other, "forgotten: 1 picture")
    go(other, "Look")
    expect(other.locator("#look-cards .chip")).to_contain_text("crimson")
    # A name that is gone meanwhile is refused with a sentence, and the page goes on.
    one.get_by_role("textbox", name="Name of blue").fill("navy")
    one.get_by_role("button", name="Rename blue").click()
    says(one, "there is no class 'blue'")
    go(one, "Know")
    expect(one.locator("#summary")).to_contain_text("1 class from 19 pictures in 1 lesson")


def test_the_keyboard_alone_is_enough(tab, sent):
    page = tab()

    def tab_to(name: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate(
                "name => (document.activeElement.getAttribute('aria-label')"
                " ?? document.activeElement.closest('label, a, button, summary')?.textContent ?? '')"
                ".trim().startsWith(name)",
                name,
            ):
                return
        raise AssertionError(f"no way to {name}")

    page.keyboard.press("Tab")
    assert page.locator(":focus").inner_text() == "Skip to the content"
    tab_to("Teach")
    page.keyboard.press("Enter")
    page.locator(
        "#teach"
    ).wait_for()  # or, on a busy machine, the way leads into the section before
    tab_to("choose pictures")
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Enter")
    chooser.value.set_files([sent(["green"] * (i % 2), 500 + i) for i in range(6)])
    says(page, "6 pictures in the tray")
    tab_to("Label")
    page.keyboard.type("green")
    page.keyboard.press("Enter")
    for _ in range(3):  # every second picture
        tab_to("green: ")
        tab_to("green: ")
        page.keyboard.press("Enter")
    states = page.locator("#tray .chip", has_text="green").evaluate_all(
        "chips => chips.map((chip) => chip.dataset.state)"
    )
    assert states == ["no", "yes", "no", "yes", "no", "yes"]
    tab_to("Learn")
    page.keyboard.press("Enter")
    says(page, "Learned lesson 1")


def test_what_is_said_is_in_sight_on_a_long_page(tab, sent):
    page = tab(viewport=PHONE)
    go(page, "Teach")
    broken = {"name": "broken.png", "mimeType": "image/png", "buffer": b"none"}
    page.locator("#teach-files").set_input_files([broken, *(sent(["red"], i) for i in range(4))])
    says(page, "5 pictures in the tray")
    page.locator("#tray > li").last.locator(".chip", has_text="red").click()
    page.locator("#tray > li").last.scroll_into_view_if_needed()
    page.get_by_role("button", name="Learn").click()
    says(page, "broken.png")
    expect(page.locator("h1")).not_to_be_in_viewport()
    expect(page.locator("#message")).to_be_in_viewport()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_screen_reader_finds_its_way(browser, address, sent, scheme):
    """Checked by axe: names of controls, roles, contrast, order of headings."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    # The checker is a script that the page's own policy would refuse.
    page = browser.new_page(viewport=PHONE, color_scheme=scheme, bypass_csp=True)
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    look(page, [sent(["red"], 901)])
    page.locator("#thresholds summary").click()
    page.get_by_role("button", name="Teach all of these").click()
    found = {}
    for section in ("Look", "Teach", "Take back", "Know"):
        go(page, section)
        if section == "Teach":
            page.get_by_role("button", name="Go through them").click()
            expect(page.locator("#audit")).not_to_be_empty()
        if section == "Take back":
            page.locator("#lessons summary").click()
        found[section] = axe.run(page).response["violations"]
    page.goto(f"{address}docs")
    expect(page.locator("#operations section").first).to_be_visible()
    found["docs"] = axe.run(page).response["violations"]
    wrong = {
        section: [(each["id"], each["nodes"][0]["html"]) for each in violations]
        for section, violations in found.items()
        if violations
    }
    assert wrong == {}
