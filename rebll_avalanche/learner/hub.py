"""A learner on the Hugging Face hub: its file, and a model card that lists its lessons."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rebll_avalanche.learner.lesson import quality_table

if TYPE_CHECKING:
    from rebll_avalanche.learner.learner import Learner

FILE = "learner.rebll"
_CARD = """---
library_name: rebll-avalanche
pipeline_tag: image-classification
tags:
- multi-label
- continual-learning
---

# {name}

Says which of {count} classes a picture shows, and can be taught more: `{method}` with the backbone
`{backbone}`, {size} px.

```python
from rebll_avalanche import Learner

learner = Learner.{opened}
learner.predict("photo.jpg")
learner.learn("more.csv", images="photos")
```

## What it is for

*For you to answer: which decisions is it meant for, and what must it not be used for? Where do the
pictures come from, who labelled them, and did the people in them agree?*

## Classes

| class | threshold |
|---|---|
{classes}

## Lessons

{lessons}
"""


def card(learner: Learner, name: str, opened: str | None = None) -> str:
    """A model card from the lessons.

    Args:
        learner: What it is about.
        name: Its name on the hub, or of its file.
        opened: The call that opens it; from the hub by default.
    """
    lessons = []
    for lesson in learner.lessons:
        text = f"**{lesson.number}** ({lesson.taught_at}): {len(lesson.pictures)} pictures"
        text += f"; new classes: {_plain(', '.join(lesson.new_classes) or 'none')}"
        if lesson.qualities:
            scored = "Each picture scored by a model that had not learned from it (leave-one-out), percent:"
            text += f"\n\n{scored}\n\n```\n{_plain(quality_table(lesson.qualities))}\n```"
        lessons.append(text)
    classes = [f"| {_plain(name)} | {bar:.2f} |" for name, bar in learner.thresholds.items()]
    return _CARD.format(
        name=name,
        opened=opened or f'from_pretrained("{name}")',
        count=len(learner.class_names),
        method=learner.config.method_name,
        backbone=learner.backbone,
        size=learner.config.benchmark.image_size,
        classes="\n".join(classes),
        lessons="\n\n".join(lessons),
    )


def push(
    learner: Learner,
    repo_id: str,
    *,
    private: bool,
    token: str | None,
    self_contained: bool,
    endpoint: str | None,
) -> str:
    """Upload file and card; see :meth:`Learner.push_to_hub`."""
    from huggingface_hub import HfApi

    hub = HfApi(endpoint=endpoint, token=token)
    hub.create_repo(repo_id, private=private, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        learner.save(Path(folder, FILE), self_contained=self_contained)
        Path(folder, "README.md").write_text(card(learner, repo_id), encoding="utf-8")
        message = f"{len(learner.lessons)} lessons, {len(learner.class_names)} classes"
        return str(hub.upload_folder(repo_id=repo_id, folder_path=folder, commit_message=message))


def fetch(repo_id: str, *, revision: str | None, token: str | None, endpoint: str | None) -> Path:
    """The file of a learner on the hub, downloaded once."""
    from huggingface_hub import hf_hub_download

    return Path(hf_hub_download(repo_id, FILE, revision=revision, token=token, endpoint=endpoint))


def _plain(text: str) -> str:
    """Replace characters that would end a table cell or a code block."""
    return text.replace("|", "/").replace("`", "'")
