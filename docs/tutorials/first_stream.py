# %% [markdown]
# # A first stream, and RebLL
#
# This tutorial shows what a stream with partial labels looks like, how plain training fails on it, and
# what changes when RebLL is added to the same strategy. Nothing is downloaded.

# %%
import matplotlib.pyplot as plt
import torch
from avalanche.training import Naive

from rebll_avalanche import (
    MultiLabelScenes,
    PartialLabelBCE,
    RebLLPlugin,
    build_model,
    last_evaluation,
    multilabel_evaluator,
    run_stream,
    seed_everything,
)

# %% [markdown]
# ## The stream
#
# `MultiLabelScenes` draws pictures with one or more shapes. `"B10-C5"` says when classes arrive: ten
# in the first experience, five more in each later one. The result is an Avalanche benchmark: a
# stream of experiences to train on, and one to test on.

# %%
benchmark = MultiLabelScenes("B10-C5", image_size=32, train_size=1200, test_size=300)
for experience in benchmark.train_stream:
    new = [benchmark.class_names[column] for column in sorted(experience.new_classes)]
    print(f"experience {experience.current_experience}, {len(experience.dataset)} pictures:")
    print("   ", ", ".join(new))

# %% [markdown]
# ## A label is 1, 0 or NaN
#
# Pictures of an experience are annotated for its own classes only. All other labels are NaN,
# *unknown*, which is not the same as absent. Here are four pictures of the second experience, which
# brings the classes 10 to 14. Green classes are annotated; grey ones are in the picture, but their
# labels are hidden from training.

# %%
second = benchmark.train_stream[1]
hidden = second.full_targets == 1
hidden[:, 10:15] = False
rows = hidden.sum(dim=1).argsort(descending=True, stable=True)[:4].tolist()
figure, panels = plt.subplots(1, 4, figsize=(8, 2.6))
for panel, row in zip(panels, rows, strict=True):
    picture, target, *_ = second.dataset.eval()[row]
    panel.imshow(picture.permute(1, 2, 0))
    panel.set_axis_off()
    annotated = [benchmark.class_names[column] for column in (target == 1).nonzero().flatten()]
    panel.set_title(", ".join(annotated), color="green", fontsize=9)
    unknown = [benchmark.class_names[column] for column in hidden[row].nonzero().flatten()]
    panel.text(16, 36, ", ".join(unknown), color="grey", fontsize=9, ha="center")
print("labels of the first:", second.dataset[rows[0]][1].tolist())
plt.show()

# %% [markdown]
# ## Plain training
#
# The strategy is Avalanche's own `Naive`. Two parts of it handle partial labels: the criterion,
# which ignores NaN, and the evaluator, which computes multi-label metrics. The head of
# `build_model` grows when an experience brings classes. `run_stream` trains on each experience, and
# then tests on all classes seen so far.


# %%
def learn(*plugins):
    """Train a network on the stream; return the strategy, and the results after each experience."""
    seed_everything(0)
    model = build_model("small_cnn")
    strategy = Naive(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=0.006, weight_decay=0.0),
        criterion=PartialLabelBCE(),
        train_mb_size=16,
        train_epochs=10,
        eval_mb_size=300,
        plugins=list(plugins),
        evaluator=multilabel_evaluator(loggers=[]),
    )
    return strategy, run_stream(strategy, benchmark)


plain, plain_steps = learn()
for step in plain_steps:
    found = step.metrics
    print(f"{step.classes_seen} classes: mAP {found['mAP']:.3f}, FPR {found['FPR@0.5']:.3f}")

# %% [markdown]
# mAP, the mean over classes of the average precision, asks whether pictures with a class are ranked
# above those without it. FPR is the share of absent labels that are called present.
#
# ## The same strategy with RebLL
#
# One more plugin. It down-weights positives that are already learned, distils the previous model's
# outputs for old classes, and keeps 40 pictures whose missing labels it fills in. `alpha` and
# `lambda_akd` are those of this library's demo: a small network trained from scratch needs more weight
# on new classes than the paper's pretrained one.

# %%
rebll, rebll_steps = learn(RebLLPlugin(mem_size=40, alpha=0.6, lambda_akd=0.3))
figure, panels = plt.subplots(1, 2, figsize=(8, 2.8), layout="constrained")
for panel, metric in zip(panels, ("mAP", "FPR@0.5"), strict=True):
    for label, steps in (("plain training", plain_steps), ("RebLL", rebll_steps)):
        seen = [step.classes_seen for step in steps]
        panel.plot(seen, [step.metrics[metric] for step in steps], marker="o", label=label)
    panel.set_title(metric)
    panel.set_xlabel("classes seen")
    panel.set_xticks(seen)
    panel.set_ylim(bottom=0)
panels[0].legend()
plt.show()

# %% [markdown]
# One number does not show where the difference is. Here is the average precision of the ten classes
# that came first and of the ten that came later:

# %%
for label, strategy in (("plain training", plain), ("RebLL", rebll)):
    precision = last_evaluation(strategy.evaluator).metrics.average_precision
    first, later = precision[:10].nanmean(), precision[10:].nanmean()
    print(f"{label:>14}: first ten {first:.3f}, later ten {later:.3f}")

# %% [markdown]
# Plain training is good at the last classes and has forgotten much of the first; RebLL keeps more of
# the old classes, and learns less of the new ones.
#
# This is one seed of a network that begins with random weights: enough to see what happens, too
# little to compare methods. How that is done is in [Compare methods, and read the
# report](compare_methods.md).
#
# **Next:** [why new classes fire everywhere](../ideas/partial-labels.md), [the
# losses](../ideas/losses.md), [which of Avalanche's parts work with partial labels](../avalanche.md).
