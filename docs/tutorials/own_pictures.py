# %% [markdown]
# # Your own pictures
#
# Teach a `Learner` two months of pictures, ask it about new ones, find a wrong label, and make it
# forget a class. Drawn scenes take the place of your photographs.

# %%
import csv
import tempfile
from pathlib import Path
from shutil import rmtree

import matplotlib.pyplot as plt
from PIL import Image

from rebll_avalanche import Learner, MultiLabelScenes

work = Path(tempfile.mkdtemp())


def take_pictures(name, seed, classes):
    """Write pictures, and a table of labels that covers only the given classes."""
    scenes = MultiLabelScenes(train_size=150, test_size=50, image_size=96, seed=seed)
    scenes.write_csv(work / name)
    with open(work / name / "labels.csv") as file:
        rows = [(row["file"], set(row["labels"].split(";"))) for row in csv.DictReader(file)]
    lines = [f"{file},{';'.join(sorted(shown & classes))}" for file, shown in rows[:150]]
    (work / f"{name}.csv").write_text("\n".join(["image,labels", *lines]) + "\n")


take_pictures("march", 1, {"pinwheel", "diamond", "hourglass"})
take_pictures("april", 2, {"pinwheel", "flower", "dots"})
print((work / "march.csv").read_text()[:130])

# %% [markdown]
# A row is a file name and the labels of the picture. A class that the table names and a row does not
# list is absent there; a class that the table never names is *unknown*: in March, nobody looked for dots.
#
# ## March
#
# A backbone whose weights came with the installation turns each picture into one vector. The head is
# solved in closed form, so there is no training to wait for. `image_size` is small here because the
# pictures are.

# %%
learner = Learner(image_size=160)
print(learner.learn(work / "march.csv", images=work / "march" / "images"))

# %% [markdown]
# **with** and **without** count pictures. AP, precision and recall are measured without held-out
# pictures: each one is scored by a head that had not learned from it. The **threshold** is chosen per
# class from the same scores, and `predict` uses it.
#
# ## April, when March's pictures are gone

# %%
rmtree(work / "march")
lesson = learner.learn(work / "april.csv", images=work / "april" / "images")
print("new classes:", ", ".join(lesson.new_classes))
print("all classes:", ", ".join(learner.class_names))

# %% [markdown]
# ## New pictures
#
# `predict` returns what lies above the thresholds, most probable first. These four were in no table.

# %%
new = sorted((work / "april" / "images").glob("test_*.png"))[:4]
figure, panels = plt.subplots(1, 4, figsize=(8, 2.7))
for panel, (file, found) in zip(panels, learner.predict(new).items(), strict=True):
    panel.imshow(Image.open(next(path for path in new if path.name == Path(file).name)))
    panel.set_axis_off()
    panel.set_title("\n".join(f"{name} {p:.2f}" for name, p in found.items()) or "-", fontsize=9)
plt.show()

# %% [markdown]
# It knows five shapes only and ignores the others. `evaluate` measures it on pictures kept aside:

# %%
with open(work / "april" / "labels.csv") as file:
    kept_aside = [row for row in csv.DictReader(file) if row["split"] == "test"]
known = set(learner.class_names)
lines = [
    f"{row['file']},{';'.join(sorted(known & {*row['labels'].split(';')}))}" for row in kept_aside
]
(work / "kept_aside.csv").write_text("\n".join(["image,labels", *lines]) + "\n")
print(learner.evaluate(work / "kept_aside.csv", images=work / "april" / "images"))

# %% [markdown]
# ## A wrong label
#
# Suppose a picture with a pinwheel was labelled as having none. `correct` changes labels of pictures
# that were learned before, here to plant this error; the result is exactly as if the table had always
# said so.

# %%
april = list(csv.reader((work / "april.csv").read_text().splitlines()))[1:]
victim = next(name for name, labels in april if labels == "pinwheel")
(work / "slip.csv").write_text(f"image,labels\n{victim},\n")
slip = {"table": work / "slip.csv", "images": work / "april" / "images", "about": ["pinwheel"]}
print(victim, "->", learner.correct(**slip))

# %% [markdown]
# `audit` lists labels that contradict the prediction of a head that had not learned from the picture,
# the strongest contradictions first.

# %%
suspects = learner.audit(count=None)
for suspect in suspects[:5]:
    label = "present" if suspect.present else "absent"
    print(f"{suspect.picture}: {suspect.name} is labelled {label}, p = {suspect.probability:.2f}")
place = [(s.picture, s.name) for s in suspects].index((victim, "pinwheel")) + 1
print(f"the planted error is number {place} of {len(suspects)} suspects, among 300 pictures")

# %% [markdown]
# ## Forget and save
#
# `forget` removes pictures, classes or a lesson as if they had never been learned. The file holds names,
# labels and one vector per picture; nothing in it can run code.

# %%
learner.forget(classes="dots")
path = learner.save(work / "city.rebll")
again = Learner.load(path)
print(again, f"{path.stat().st_size / 1e6:.1f} MB")
rmtree(work)

# %% [markdown]
# The same on the command line, other table formats and other methods: [Your own
# pictures](../own-pictures.md). For colleagues without a terminal: [In the browser](../browser.md).
