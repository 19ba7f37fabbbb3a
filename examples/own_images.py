"""Your own pictures: a learner that goes on when the old ones are gone.

    python examples/own_images.py march.csv photos/march april.csv photos/april

Each row of a table has a file name and its labels, such as ``street.jpg,car;person``. Without arguments some
drawn pictures are written to a temporary folder and used instead.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from rebll_avalanche import Learner, MultiLabelScenes


def drawn(folder: str) -> list[str]:
    """Two months of drawn scenes: tables and folders."""
    months = []
    for seed, month in enumerate(("march", "april")):
        place = Path(folder, month)
        MultiLabelScenes(train_size=30, test_size=10, seed=seed).write_csv(place)
        months += [str(place / "labels.csv"), str(place / "images")]
    return months


with tempfile.TemporaryDirectory() as folder:
    march, march_photos, april, april_photos = sys.argv[1:] or drawn(folder)
    learner = Learner()  # a frozen backbone from PyPI and the closed form
    lesson = learner.learn(march, images=march_photos)
    print(lesson)  # images, new classes, quality per class
    if len(sys.argv) == 1:
        shutil.rmtree(march_photos)  # they are not needed any more
    print(learner.learn(april, images=april_photos))
    photo = next(Path(april_photos).iterdir())
    print(photo.name, learner.predict(photo))
    learner.save(Path(folder, "city.rebll"))  # one file; copy it anywhere
    print(len(Learner.load(Path(folder, "city.rebll")).predict(april_photos)), "pictures answered")
