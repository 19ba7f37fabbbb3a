"""Write scenes to disk in the layout of VOC or COCO, or with a CSV file of labels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from PIL import Image

from rebll_avalanche.benchmarks.drawing import Scenes


def write_voc_split(
    root: Path, split: str, scenes: Scenes, class_names: Sequence[str], *, first: int = 1
) -> None:
    """Write scenes as one split of ``root/VOCdevkit/VOC2007``: ``"trainval"``, ``"test"`` ...

    Images are numbered from ``first`` on; splits of one devkit share one numbering.
    """
    devkit = root / "VOCdevkit" / "VOC2007"
    for folder in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (devkit / folder).mkdir(parents=True, exist_ok=True)
    names = [f"{first + index:06d}" for index in range(len(scenes.images))]
    for index, name in enumerate(names):
        picture = scenes.images[index]
        Image.fromarray(picture).save(devkit / "JPEGImages" / f"{name}.jpg", quality=95)
        objects = scenes.objects[scenes.objects[:, 0] == index]
        annotation = _voc_annotation(f"{name}.jpg", picture, objects, class_names)
        annotation.write(devkit / "Annotations" / f"{name}.xml")
    listing = "".join(f"{name}\n" for name in names)
    (devkit / "ImageSets" / "Main" / f"{split}.txt").write_text(listing)


def _voc_annotation(
    filename: str, picture: np.ndarray, objects: np.ndarray, class_names: Sequence[str]
) -> ElementTree.ElementTree:
    root = ElementTree.Element("annotation")
    ElementTree.SubElement(root, "folder").text = "VOC2007"
    ElementTree.SubElement(root, "filename").text = filename
    size = ElementTree.SubElement(root, "size")
    for tag, value in zip(("height", "width", "depth"), picture.shape, strict=True):
        ElementTree.SubElement(size, tag).text = str(value)
    for _, column, *box in objects:
        entry = ElementTree.SubElement(root, "object")
        ElementTree.SubElement(entry, "name").text = class_names[column]
        ElementTree.SubElement(entry, "difficult").text = "0"
        corners = ElementTree.SubElement(entry, "bndbox")
        for tag, value in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True):
            ElementTree.SubElement(corners, tag).text = str(value)
    return ElementTree.ElementTree(root)


def write_coco_split(root: Path, split: str, scenes: Scenes, class_names: Sequence[str]) -> None:
    """Write scenes as one split in the layout of MS-COCO: ``"train2014"`` or ``"val2014"``."""
    (root / split).mkdir(parents=True, exist_ok=True)
    (root / "annotations").mkdir(exist_ok=True)
    images = []
    for index, picture in enumerate(scenes.images):
        name = f"COCO_{split}_{index + 1:012d}.jpg"
        Image.fromarray(picture).save(root / split / name, quality=95)
        height, width, _ = picture.shape
        images.append({"id": index + 1, "file_name": name, "height": height, "width": width})
    annotations = []
    for number, (scene, column, left, top, right, bottom) in enumerate(scenes.objects.tolist()):
        width, height = right - left, bottom - top
        annotations.append(
            {
                "id": number + 1,
                "image_id": scene + 1,
                "category_id": column + 1,
                "bbox": [left, top, width, height],
                "area": width * height,
                "iscrowd": 0,
            }
        )
    categories = [{"id": column + 1, "name": name} for column, name in enumerate(class_names)]
    text = json.dumps({"images": images, "annotations": annotations, "categories": categories})
    (root / "annotations" / f"instances_{split}.json").write_text(text)


def write_csv_split(root: Path, split: str, scenes: Scenes, class_names: Sequence[str]) -> None:
    """Append scenes to ``root/labels.csv`` and put their pictures into ``root/images``."""
    (root / "images").mkdir(parents=True, exist_ok=True)
    table = root / "labels.csv"
    rows = [] if table.exists() else ["file,labels,split"]
    for index, picture in enumerate(scenes.images):
        name = f"{split}_{index:06d}.png"
        Image.fromarray(picture).save(root / "images" / name)
        found = [class_names[column] for column in scenes.labels[index].nonzero()[0]]
        rows.append(f"{name},{';'.join(found)},{split}")
    with open(table, "a") as file:
        file.writelines(f"{row}\n" for row in rows)
