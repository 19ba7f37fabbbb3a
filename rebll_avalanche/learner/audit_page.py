"""Suspicious labels as text, as a CSV file, and as an HTML page with pictures."""

from __future__ import annotations

import base64
import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from jinja2 import Environment

from rebll_avalanche.errors import RebllError
from rebll_avalanche.learner.audit import Suspect
from rebll_avalanche.learner.lesson import Lesson, picture_id
from rebll_avalanche.picture_store import thumbnail_of
from rebll_avalanche.pictures import read_picture

# Longer side of a picture on the page.
SIDE = 160
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Labels to look at</title>
<style>
body { font: 15px/1.4 system-ui, sans-serif; margin: 2rem; }
ol { display: flex; flex-wrap: wrap; gap: 1rem; padding: 0; list-style: none; }
li { width: 180px; } img { max-width: 160px; display: block; }
.gone { width: 160px; height: 110px; background: #ddd; color: #555; padding: .5rem; box-sizing: border-box; }
</style>
<h1>Labels to look at</h1>
<p>Each is judged by a model that had not learned from the picture; worst first.</p>
<ol>
{% for suspect, picture in rows %}<li>
{% if picture %}<img alt="{{ suspect.picture }}" src="data:image/jpeg;base64,{{ picture }}">
{% else %}<div class="gone">the picture is not here</div>{% endif %}
<strong>{{ suspect.name }}</strong> is labelled {{ "present" if suspect.present else "absent" }},
probability {{ "%.2f"|format(suspect.probability) }}<br><small>{{ suspect.picture }}</small>
</li>{% endfor %}
</ol></html>
"""


def as_text(suspects: Sequence[Suspect]) -> str:
    """One line each."""
    lines = [
        f"{s.picture}: {s.name} is labelled {'present' if s.present else 'absent'}, "
        f"probability {s.probability:.2f}"
        for s in suspects
    ]
    return "\n".join(lines) or "no label contradicts what the others teach"


def as_csv(suspects: Sequence[Suspect], lessons: Iterable[Lesson]) -> str:
    """A table for ``rebll correct``: one row per label, with its current value, to be edited.

    Args:
        suspects: In order.
        lessons: All lessons; pictures that share a name are identified by their ids.
    """
    learned = {pair for each in lessons for pair in zip(each.pictures, each.keys, strict=True)}
    pictures = Counter(name for name, _ in learned)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["file", "class", "present", "probability", "contradiction"])
    for s in suspects:
        file = s.picture if pictures[s.picture] == 1 else picture_id(s.key)
        writer.writerow([file, s.name, int(s.present), s.probability, s.contradiction])
    return stream.getvalue()


def as_page(
    suspects: Sequence[Suspect],
    folders: Iterable[Path] = (),
    thumbnail: Callable[[int], bytes | None] = lambda key: None,
) -> str:
    """A self-contained HTML page.

    Args:
        suspects: In order.
        folders: Folders that may still hold the original pictures.
        thumbnail: Returns the thumbnail for a key; see :meth:`Learner.thumbnail`.
    """
    places = list(folders)
    rows = [
        (suspect, base64.b64encode(found).decode() if found else "")
        for suspect in suspects
        for found in [_from_file(suspect.picture, places) or thumbnail(suspect.key)]
    ]
    return Environment(autoescape=True).from_string(_PAGE).render(rows=rows)


def _from_file(name: str, folders: Sequence[Path]) -> bytes | None:
    for folder in folders:
        place = folder / name
        if not place.resolve().is_relative_to(folder.resolve()):
            continue
        try:
            return thumbnail_of(read_picture(place), SIDE)
        except RebllError:
            continue
    return None
