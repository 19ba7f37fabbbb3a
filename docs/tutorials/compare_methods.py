# %% [markdown]
# # Compare methods, and read the report
#
# Run four methods with three seeds each, read the table with deviations and significance, and look at
# the figures of the report. The stream is small, so that this takes seconds; a real one differs in the
# numbers, not in the commands.

# %%
import os
import tempfile
from pathlib import Path

from IPython.display import SVG, display

from rebll_avalanche.cli import main as rebll

os.chdir(tempfile.mkdtemp())
written = Path("recipe.yaml").write_text("""
benchmark: {name: scenes, image_size: 32, train_size: 300, test_size: 200, scenario: B10-C5}
model: {backbone: small_cnn}
training: {epochs: 4, batch_size: 16, lr: 0.006}
methods: [joint, fine-tuning, lwf, rebll]
method: {name: rebll, mem_size: 20}
per_method:
  rebll: {method: {alpha: 0.6, lambda_akd: 0.3}}
seeds: [0, 1, 2]
""")

# %% [markdown]
# ## The table
#
# `rebll` is the command line; in a terminal this is `rebll table recipe.yaml`. Finished runs are
# skipped, and a stopped run is resumed.

# %%
done = rebll(["table", "recipe.yaml", "--folder", "runs", "--jobs", "1"])

# %% [markdown]
# How to read it:
#
# - **Joint** trains on everything at once with all labels. It is the upper bound, not a competitor. *Of
#   Joint* is the share of its Last mAP that a method keeps, and the one number that carries over to
#   other networks.
# - **Last mAP** is after the last experience, **Avg mAP** the mean over all. A method can be good
#   early and forget: look at both.
# - **CF1, OF1, FPR** measure decisions at a threshold of 0.8. A method with low scores has a low F1
#   even if its mAP is good; one that predicts everything has a high FPR.
# - The best value of a column is in brackets. With three seeds the paired t-test finds only large
#   differences; no mark does not mean equal.
#
# Networks this small, trained for seconds, are far from their ceiling, and Joint with them: compare
# methods only where they have learned something.
#
# ## The report
#
# `rebll report` writes one HTML page; `--figures` keeps its figures as files, two of which follow.

# %%
done = rebll(["report", "runs", "-o", "report.html", "--figures", "figures"])
print("\n".join(sorted(path.name for path in Path("figures").glob("*.svg"))))

# %%
display(SVG(str(next(Path("figures").glob("*-map.svg")))))

# %% [markdown]
# **mAP after each experience.** The test classes grow, so a falling curve is not forgetting alone:
# twenty classes are harder than ten. The dashed line is Joint.

# %%
display(SVG(str(next(Path("figures").glob("*-memory-1.svg")))))

# %% [markdown]
# **Labels in memory**: a row per picture that RebLL keeps, a column per class; strong colours are
# present, faint ones absent. Grey labels are annotations; the other colours were filled in by a model,
# and the numbers are the percentage of a block's filled labels that is right. See [the label
# block matrix](../ideas/label-matrix.md).
#
# **Next:** [recipes, seeds and what is never tuned on test images](../benchmark.md), and [what was
# measured](../results.md).
