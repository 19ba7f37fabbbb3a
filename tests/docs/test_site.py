"""The site is built as `make docs` builds it; what it shows is what the package and the measured rows say."""

from __future__ import annotations

import csv
import html
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

import rebll_avalanche
from rebll_avalanche.cli import COMMANDS

ROOT = Path(__file__).parents[2]
# Public names without an example, and why.
WITHOUT_EXAMPLE = {
    "VOC2007": "it needs the data set",
    "COCO2014": "it needs the data set",
    "METHODS": "a dictionary, read with get_method, which has one",
    "keep_freed_memory": "it changes how the whole process uses memory",
}
# Tags by which a page fetches something when it is looked at.
FETCHING = re.compile(r"<(?:script|link|img|iframe|source|object)\b[^>]*>")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_nothing_is_fetched_from_other_hosts(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 60
    for page in pages:
        for tag in FETCHING.findall(page.read_text()):
            assert not re.search(r'(src|href)="(https?:)?//', tag), f"{page}: {tag}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//|@import", sheet.read_text()), sheet


def test_every_public_name_and_method_is_shown(site: Path) -> None:
    reference = "".join(page.read_text() for page in (site / "reference").glob("*.html"))
    for name in set(rebll_avalanche.__all__) - {"__version__"}:
        assert f'id="rebll_avalanche.{name}"' in reference, name
    methods = json.loads((ROOT / "rebll_avalanche" / "methods" / "builtin.json").read_text())
    listed = (site / "methods" / "index.html").read_text()
    pages = set(re.findall(r'<td><a href="([\w-]+\.html)"><code>', listed))
    assert len(pages) == len(methods)
    assert all((site / "methods" / page).is_file() for page in pages)
    commands = (site / "reference" / "command-line.html").read_text()
    assert all(f"usage: rebll {name}" in commands for name in COMMANDS)


@pytest.mark.usefixtures("tools")
def test_every_public_name_has_an_example(site: Path) -> None:
    """pytest runs them: --doctest-modules. The site shows them."""
    from markup import public_names

    names = [name for group in public_names().values() for name in group]
    assert len(names) > 40
    assert {name for name in names if not has_example(name)} == set(WITHOUT_EXAMPLE)
    shown = "".join(page.read_text() for page in (site / "reference").glob("*.html"))
    assert shown.count('<span class="gp">') > 200  # prompts


def test_parameters_taken_from_parts_are_shown_with_their_texts(site: Path) -> None:
    """RebLL's are documented by the two plugins that it is made of."""
    for page, name in {"plugins": "RebLLPlugin", "methods": "RebLL"}.items():
        shown = (site / "reference" / f"{page}.html").read_text()
        shown = shown.split(f'id="rebll_avalanche.{name}"')[1].split("<h2")[0]
        assert "lambda_new" in shown
        assert "treats the new classes as absent from memory images" in shown
        assert "Strength of the down-weighting of positives" in shown
        assert "**options" not in shown


def has_example(name: str) -> bool:
    module, _, attribute = f"rebll_avalanche.{name}".rpartition(".")
    found = getattr(importlib.import_module(module), attribute)
    return ">>> " in (found.__doc__ or "")


def test_formulas_and_figures_have_become_elements(site: Path) -> None:
    losses = (site / "ideas" / "losses.html").read_text()
    assert losses.count("<math") > 10
    assert losses.count("<svg role=") == 2
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert 'class="arithmatex"' not in text, page
        assert "/figures/" not in text, page  # all are drawn
        assert not re.search(r":(func|class|meth|math):`", text), page


def test_results_are_those_of_the_measured_rows(site: Path) -> None:
    shown = html.unescape((site / "results.html").read_text())
    with open(ROOT / "benchmarks" / "paper" / "measured.csv", newline="") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if (row["benchmark"], row["scenario"], row["method"]) == ("voc", "B5-C3", "rebll-best")
            and "blocks.5" in row["network"]
        ]
    mean = sum(float(row["mAP"]) for row in rows) / len(rows)
    assert f"<td>RebLL, best preset</td><td>{mean:.1f}</td>" in shown
    assert "<td>RebLL (AKD + OR)</td>" in shown


def test_tutorials_are_shown_with_what_they_print_and_draw(site: Path) -> None:
    """The build has run them: a tutorial that raises ends it."""
    scripts = sorted((ROOT / "docs" / "tutorials").glob("*.py"))
    assert len(scripts) >= 4
    drawn = 0
    for script in scripts:
        shown = (site / "tutorials" / script.with_suffix(".html").name).read_text()
        assert '<div class="output highlight">' in shown, script
        drawn += shown.count('<figure class="drawn output">')
        for suffix in (".py", ".ipynb"):
            assert (site / "tutorials" / script.with_suffix(suffix).name).is_file()
            assert f'href="{script.with_suffix(suffix).name}"' in shown
    assert drawn >= 4


@pytest.mark.usefixtures("tools")
def test_a_tutorial_runs_again_when_its_text_changes_and_only_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tutorials

    monkeypatch.setattr(tutorials, "SCRIPTS", tmp_path)
    monkeypatch.setattr(tutorials, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(tutorials, "SETUP", "")
    log = tmp_path / "log"
    code = (
        f"# %% [markdown]\n# # Title\n\n# %%\nopen({str(log)!r}, 'a').write('x')\nprint('said')\n"
    )
    script = tmp_path / "small.py"
    script.write_text(code)
    for _ in range(2):
        assert "```{.text .output}\nsaid\n```" in tutorials.pages()["tutorials/small.md"]
    assert log.read_text() == "x"
    script.write_text(code.replace("said", "other"))
    assert "other" in tutorials.pages()["tutorials/small.md"]
    assert log.read_text() == "xx"
    assert len(list((tmp_path / "kept").iterdir())) == 1


@pytest.mark.usefixtures("tools")
def test_the_command_of_a_row_makes_its_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    import results

    from rebll_avalanche.commands import table

    monkeypatch.chdir(ROOT)
    gone = 0
    for line in results.found().values():
        command = results.command(line)
        if not command:
            gone += 1
            continue
        planned = table.parse(shlex.split(command)[2:]).planned
        assert sorted(entry.config.seed for entry in planned) == list(line.seeds)
        experiment, config = line.experiment, planned[0].config
        assert (config.benchmark.name, config.benchmark.scenario) == (
            experiment.benchmark,
            experiment.scenario,
        )
        assert config.method_name == experiment.method
        optimizer = f"{config.training.optimizer} {config.training.lr:g}"
        assert experiment.training.split(", ")[0] == optimizer
        assert f"{config.training.epochs} epochs" in experiment.network
        assert f"{config.benchmark.image_size} px" in experiment.network
        if experiment.parameter:
            assert str(config.method[experiment.parameter]) == experiment.value
    assert gone < 15


@pytest.mark.usefixtures("tools")
def test_readmes_figure_shows_the_present_rows() -> None:
    """Otherwise draw it again: python docs/tools/figures.py."""
    import figures

    assert f"<!-- rows {figures.source_of_readme_figure()} -->" in figures.README_FIGURE.read_text()


@pytest.mark.usefixtures("tools")
def test_readmes_picture_shows_the_present_page() -> None:
    """Otherwise take it again: python docs/tools/serve_picture.py."""
    import serve_picture

    with Image.open(serve_picture.TARGET) as picture:
        assert picture.info.get("page") == serve_picture.page_hash()


@pytest.mark.usefixtures("tools")
def test_what_of_avalanche_works_is_as_the_page_says() -> None:
    """Otherwise try all again: python docs/tools/compatibility.py."""
    import compatibility

    with open(compatibility.TABLE, newline="") as file:
        _, *kept = csv.reader(file)
    assert [tuple(row) for row in kept] == compatibility.verdicts()


@pytest.mark.usefixtures("tools")
def test_docstrings_become_markdown() -> None:
    from markup import markdown

    assert markdown("a :class:`~x.y.Memory`, :func:`z`") == (
        "a [`Memory`][rebll_avalanche.Memory], `z`"
    )
    assert markdown("a\n\n>>> f(\n...     1)\n2\n\nb") == (
        "a\n\n```pycon\n>>> f(\n...     1)\n2\n```\n\nb"
    )
    assert markdown(".. math:: a +\n    b\n\nc::") == "$$\na + b\n$$\n\nc:"


@pytest.mark.parametrize("page", ["start.md", "avalanche.md", "ideas/streams.md"])
def test_the_code_of_a_page_runs(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / page).read_text()
    [block] = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    exec(compile(block, page, "exec"), {"__name__": "page"})
    assert capsys.readouterr().out.strip()


@pytest.mark.skipif("Learner" not in rebll_avalanche.__all__, reason="there is no Learner")
def test_the_code_of_own_pictures_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from shutil import copy

    months = {"march": 0, "april": 1}
    for month, seed in months.items():
        scenes = rebll_avalanche.MultiLabelScenes(train_size=20, test_size=10, seed=seed)
        scenes.write_csv(tmp_path / month)
        copy(tmp_path / month / "labels.csv", tmp_path / f"{month}.csv")
        (tmp_path / "photos").mkdir(exist_ok=True)
        (tmp_path / month / "images").rename(tmp_path / "photos" / month)
    copy(next((tmp_path / "photos" / "march").iterdir()), tmp_path / "street.jpg")
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "own-pictures.md").read_text()
    [block] = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    exec(compile(block, "own-pictures.md", "exec"), {"__name__": "page"})
    assert capsys.readouterr().out.strip()
    assert (tmp_path / "city.rebll").exists()
