import html
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from rebll_avalanche.report import read_runs, write_report

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
VOID = {"meta", "link", "img", "br"}
SECTIONS = [
    "curve", "scores", "reliability", "memory", "sweep", "cams", "classes", "forgetting", "cost",
]  # fmt: skip


@pytest.fixture(scope="module")
def report(run_folders, tmp_path_factory):
    runs, left_out = read_runs([run_folders])
    assert left_out == []
    folder = tmp_path_factory.mktemp("report")
    return write_report(runs, folder / "out" / "report.html", figures=folder / "figures")


class Checker(HTMLParser):
    """Follows open elements and notes classes, ids and everything that points somewhere."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.sections, self.figures, self.links = [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        if "id" in values:
            self.ids.append(values["id"])
        if tag == "section":
            self.sections.append(values["class"])
        if tag == "figure":
            self.figures.append(values.get("id"))
        self.links += [
            values[n] for n in ("src", "href", "xlink:href", "srcset", "data") if n in values
        ]

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def parsed(report):
    checker = Checker()
    checker.feed(report.read_text())
    checker.close()
    assert checker.open == []
    return checker


def test_every_section_and_figure_is_there(parsed):
    assert parsed.sections == SECTIONS
    names = {
        re.sub(r"-\d+", "", name.removeprefix("setting-1-")) for name in parsed.figures if name
    }
    assert names == {
        "map", "scores", "reliability", "memory", "memory-relabels", "sweep", "classes", "forgetting",
        "cost-seconds", "cost-memory", "cost-speed",
    }  # fmt: skip


def test_ids_are_unique(parsed):
    assert len(set(parsed.ids)) == len(parsed.ids)


def test_nothing_outside_the_file_is_needed(report, parsed):
    text = report.read_text()
    assert all(link.startswith(("data:", "#")) for link in parsed.links)
    assert "http:" not in text
    assert "https:" not in text
    assert "@import" not in text
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", text))


def test_numbers_of_the_runs_are_in_the_page(report, run_folders):
    text = html.unescape(report.read_text())
    lines = (run_folders / "joint_seed0" / "metrics.jsonl").read_text().splitlines()
    assert f'<td class="first">{100 * json.loads(lines[-1])["metrics"]["mAP"]:.1f}</td>' in text
    assert "PASCAL VOC 2007 B5-C3" in text
    assert "Relabelling: accuracy 92.0 %, precision 65 %" in text
    assert str(run_folders / "lwf_seed2") in text


def test_figures_are_also_written_as_files(report, parsed):
    folder = report.parents[1] / "figures"
    panels = [name for name in parsed.figures if name]
    for suffix in ("svg", "png"):
        files = sorted(path.stem for path in folder.glob(f"*.{suffix}"))
        expected = [name.replace("setting-1", "PASCAL-VOC-2007-B5-C3") for name in panels]
        assert files == sorted(expected)
    assert (folder / "PASCAL-VOC-2007-B5-C3-map.png").stat().st_size > 10_000


def test_the_same_runs_give_the_same_page(report, run_folders, tmp_path):
    again = write_report(read_runs([run_folders])[0], tmp_path / "again.html")
    assert again.read_text() == report.read_text()


def test_names_from_files_cannot_break_the_page(write_run, tmp_path):
    folder = write_run(tmp_path / "a<b>&c", "lwf")
    config = folder / "config.yaml"
    config.write_text(config.read_text().replace("LwF", "<script>alert(1)</script>"))
    page = write_report(read_runs([folder])[0], tmp_path / "r.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_a_report_shows_what_there_is(write_run, tmp_path):
    folder = write_run(tmp_path / "run", "lwf", steps=1)
    (folder / "scores.npz").unlink()
    page = write_report(read_runs([folder])[0], tmp_path / "r.html", left_out=["x is not a run"])
    checker = Checker()
    checker.feed(page.read_text())
    assert checker.sections == ["curve", "classes", "cost"]
    assert "left out: x is not a run" in page.read_text()


def test_no_run_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no run to report"):
        write_report([], tmp_path / "r.html")


def test_reports_need_neither_torch_nor_avalanche(run_folders, tmp_path):
    program = (
        "import sys; from rebll_avalanche.report import *;"
        f"write_report(read_runs([{str(run_folders / 'lwf_seed0')!r}])[0], {str(tmp_path / 'r.html')!r});"
        "print(sorted({'torch', 'avalanche', 'torchvision'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


PROBE = """<script>
addEventListener("load", () => {
  const visible = e => { const b = e.getBoundingClientRect(); return b.width > 60 && b.height > 20; };
  const drawn = [...document.querySelectorAll("figure[id]")].map(figure => {
    const svgs = [...figure.querySelectorAll("svg")].filter(visible);
    const marks = svgs.flatMap(svg => [...svg.querySelectorAll("path, image")])
      .filter(mark => { const b = mark.getBoundingClientRect(); return b.width + b.height > 4; });
    const words = svgs.flatMap(svg => [...svg.querySelectorAll("text")]);
    const outside = words.filter(word => word.getBoundingClientRect().right > innerWidth + 1);
    return { id: figure.id, svgs: svgs.length, marks: marks.length, words: words.length,
             outside: outside.map(word => word.textContent) };
  });
  const images = [...document.images].map(image => image.naturalWidth);
  const answer = { drawn, images,
    wide: document.documentElement.scrollWidth <= innerWidth,
    loaded: performance.getEntriesByType("resource").map(e => e.name).filter(n => !n.startsWith("data:")),
    paper: getComputedStyle(document.documentElement).backgroundColor,
    label: getComputedStyle(document.querySelector("figure[id] text")).fill };
  document.title = JSON.stringify(answer);
});
</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on the path")
@pytest.mark.parametrize(
    ("width", "dark"), [(1200, False), (500, True)], ids=["desk", "phone-dark"]
)
def test_a_browser_draws_every_figure(report, parsed, tmp_path, width, dark):
    page = tmp_path / "probe.html"
    page.write_text(
        report.read_text().replace("</body>", f"{PROBE}</body>").replace(' loading="lazy"', "")
    )
    done = subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},1000",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--dump-dom", page.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    found = re.search(r"<title>(\{.*?\})</title>", done.stdout)
    assert found, done.stderr[-2000:]
    seen = json.loads(html.unescape(found[1]))
    assert [figure["id"] for figure in seen["drawn"]] == [name for name in parsed.figures if name]
    for figure in seen["drawn"]:
        assert figure["svgs"] == 1, figure
        assert figure["marks"] >= 2, figure
        assert figure["words"] >= 2, figure
        assert figure["outside"] == [], figure
    assert len(seen["images"]) == 6
    assert all(width > 0 for width in seen["images"])
    assert seen["wide"]
    assert seen["loaded"] == []
    brightness = sum(map(int, re.findall(r"\d+", seen["paper"])[:3]))
    assert brightness < 150 if dark else brightness > 700
    assert (sum(map(int, re.findall(r"\d+", seen["label"])[:3])) > brightness) is dark


def test_the_parser_of_these_tests_notices_a_page_that_is_broken():
    with pytest.raises(AssertionError):
        Checker().feed("<div><p></div></p>")
