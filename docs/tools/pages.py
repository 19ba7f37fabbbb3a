"""Pages of methods, of public names and of commands, from what the package itself says."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import yaml
from markup import markdown, public_names

from rebll_avalanche.cli import COMMANDS, main
from rebll_avalanche.methods import describe, texts_of
from rebll_avalanche.methods.registry import BUILT_IN, Description
from rebll_avalanche.strategies import METHODS

HERE = Path(__file__).parent
# A section of the configuration, in the help of a command.
_SETTINGS = re.compile(r"^  --\w+\.\w+", flags=re.MULTILINE)
ABOUT = {
    "Losses": "Pure functions of logits; [what they are for](../ideas/losses.md).",
    "Submodules": "Names that are imported from their own module: "
    "`from rebll_avalanche.closed_form.learner import RidgeLearner`.",
}


def method_pages() -> dict[str, str]:
    """A page per built-in method, and one that lists them."""
    described = yaml.safe_load((HERE / "methods.yaml").read_text())
    names = list(json.loads(BUILT_IN.read_text()))
    if unknown := set(names) ^ (described.keys() - {"sources"}):
        raise ValueError(f"docs/tools/methods.yaml and builtin.json differ in {sorted(unknown)}")
    checked = _checked()
    lines = [
        "# Methods",
        "The names are those that `--method.name` and `get_method` take. Each page says what the method "
        "does, its parameters, where it was published, and what it was checked against.",
        "| name | method | memory | network | checked against its release |\n|---|---|---|---|---|",
    ]
    made = {"methods/index.md": ""}
    for name in names:
        method, about = describe(name), described[name]
        file = f"methods/{name.replace('+', '-plus-').rstrip('-').replace('--', '-')}.md"
        made[file] = method_page(name, method, about, checked)
        memory = "yes" if "mem_size" in method.parameters else ""
        against = "yes" if about.get("checked") else ""
        lines[-1] += (
            f"\n| [`{name}`]({Path(file).name}) | {method.label} | {memory} | {method.head} | {against} |"
        )
    made["methods/index.md"] = "\n\n".join(lines)
    return made


def method_page(
    name: str, method: Description, about: dict[str, Any], checked: dict[str, list[str]]
) -> str:
    """What a method does, takes, comes from, and was compared with."""
    parts = [f"# {method.label}", about.get("about", ""), f"**Source.** {about['source']}."]
    if row := about.get("checked"):
        against, what, precision = checked[row]
        parts.append(
            f"**Checked.** Against {against}: {what}. Largest difference allowed: {precision}. "
            "See [rivals](../rivals.md)."
        )
    else:
        parts.append("**Checked.** Not against a release; [rivals](../rivals.md) says why.")
    network = "" if method.head == "linear" else f" --model.head {method.head}"
    parts.append(f"```sh\nrebll run --method.name {name}{network}\n```")
    if method.parameters:
        texts = texts_of(METHODS[name].build)
        rows = [
            f"| `{key}` | {_default(entry.default)} | {_in_cell(texts[key])} |"
            for key, entry in method.parameters.items()
        ]
        parts.append(
            "## Parameters\n\n| name | default | meaning |\n|---|---|---|\n" + "\n".join(rows)
        )
    if about["code"]:
        parts.append("## How it works")
    # Links go to the reference, which has each of these once; parameters are in the table above.
    options = (
        "\n    options: {heading_level: 3, members: false, skip_local_inventory: true, "
        "show_docstring_parameters: false}"
    )
    parts += [f"::: rebll_avalanche.{path}{options}" for path in about["code"]]
    return "\n\n".join(part for part in parts if part)


def _default(value: Any) -> str:
    return "" if value is None else f"`{value}`"


def _in_cell(text: str) -> str:
    return markdown(" ".join(text.split())).replace("|", r"\|").replace("<", "&lt;")


def _checked() -> dict[str, list[str]]:
    """Rows of the table in rivals.md, by the name in front."""
    text = (HERE.parent / "rivals.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {row[0]: row[1:] for row in rows if len(row) == 4}


def compatibility() -> str:
    """Which parts of Avalanche learn from partial labels; compatibility.py has tried them."""
    with open(HERE / "compatibility.csv", newline="") as file:
        headings, *rows = csv.reader(file)
    lines = [headings, ["---"] * 3, *([f"`{row[0]}`", *row[1:]] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def flowchart_table(text: str) -> str:
    """A flowchart of Mermaid as a table: a page would have to fetch what draws it."""
    boxes = re.findall(
        r'^ *(\w+)\["(.*?)(?:<br/>(.*?))?"\](?: --> (.*))?$', text, flags=re.MULTILINE
    )
    titles = {name: title for name, title, _, _ in boxes}
    lines = ["| part | what it is | imports |", "|---|---|---|"]
    for _, title, what, imports in boxes:
        named = ", ".join(titles[name] for name in imports.split(" & ") if name)
        lines.append(f"| **{title}** | {what} | {named} |")
    return "\n".join(lines)


def reference_pages() -> dict[str, str]:
    """Public names by page, and the command line."""
    lines = [
        "# Reference",
        "Everything that can be imported with `from rebll_avalanche import ...`, and the command line.",
        "",
    ]
    made = {"reference/index.md": ""}
    for page, names in public_names().items():
        file = f"{page.lower().replace(' ', '-')}.md"
        shown = "\n\n".join(f"::: rebll_avalanche.{name}" for name in names)
        made[f"reference/{file}"] = f"# {page}\n\n{ABOUT.get(page, '')}\n\n{shown}"
        links = (f"[`{name.split('.')[-1]}`][rebll_avalanche.{name}]" for name in names)
        lines.append(f"- [{page}]({file}): {', '.join(links)}")
    lines.append("- [Command line](command-line.md): `rebll`")
    made["reference/index.md"] = "\n".join(lines)
    made["reference/command-line.md"] = _command_page()
    return made


def _command_page() -> str:
    parts = ["# Command line", "What `rebll COMMAND --help` prints. Settings are listed once."]
    os.environ["COLUMNS"] = "100"
    settings: set[str] = set()
    for name, text in COMMANDS.items():
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            main([name, "--help"])
        blocks = re.sub(r"\s+$", "", printed.getvalue()).split("\n\n")
        new = [block for block in blocks if block not in settings]
        if len(new) < len(blocks):
            new.append("The settings of rebll run, see above.")
        settings |= {block for block in blocks if _SETTINGS.search(block)}
        shown = "\n\n".join(new)
        parts.append(f"## rebll {name}\n\n{text[0].upper()}{text[1:]}.\n\n```text\n{shown}\n```")
    return "\n\n".join(parts)
