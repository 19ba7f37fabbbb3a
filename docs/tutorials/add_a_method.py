# %% [markdown]
# # Add a method
#
# Write a method in twenty lines, outside of the package, try it on a stream, and make it available to
# tables and the command line. The idea: an *anchor* that keeps the probabilities of earlier classes
# close to those of the previous model.

# %%
from rebll_avalanche import (
    Method,
    MethodStrategy,
    MultiLabelScenes,
    TaughtPlugin,
    build_model,
    build_optimizer,
    get_method,
    last_evaluation,
    multilabel_evaluator,
    register,
    run_stream,
    seed_everything,
)


class AnchorPlugin(TaughtPlugin):
    """Keeps the probabilities of earlier classes close to those of the previous model.

    Args:
        strength: Weight of the squared difference.
    """

    def __init__(self, *, strength: float = 10.0) -> None:
        super().__init__()
        self.strength = strength

    def before_backward(self, strategy, **kwargs):
        """Add a term to the loss."""
        if self.distils:
            before, now = self.old_logits(strategy)
            strategy.loss += self.strength * (now.sigmoid() - before.sigmoid()).square().mean()


class Anchored(MethodStrategy, anchor=AnchorPlugin):
    """Fine-tuning with an anchor."""


# %% [markdown]
# `TaughtPlugin` copies the model when an experience ends and saves the copy in checkpoints. `distils`
# says whether there is a previous model and an earlier class; `old_logits` returns the logits of the
# earlier classes, the previous model's and the present one's. The hooks are Avalanche's.
# `before_backward` *adds* to `strategy.loss`, so the plugin can be combined with others.
#
# Parameters are defined once, in the constructor and its docstring. The strategy takes them by name,
# and so does everything else once the method is registered:

# %%
register("anchored", Method("Anchored", Anchored))
method = get_method("anchored")
for name, parameter in method.parameters.items():
    print(f"{name} = {parameter.default}: {parameter.text}")

# %% [markdown]
# ## Does it do anything?
#
# With strength 0 it must equal fine-tuning. With a higher strength, new classes should be learned less
# and old ones forgotten less.

# %%
benchmark = MultiLabelScenes("B10-C10", image_size=32, train_size=800, test_size=300)
for strength in (0.0, 10.0, 100.0):
    seed_everything(0)
    model = build_model("small_cnn")
    strategy = method.build(
        model=model,
        optimizer=build_optimizer(model, lr=0.006),
        train_mb_size=16,
        train_epochs=8,
        evaluator=multilabel_evaluator(loggers=[]),
        strength=strength,
    )
    run_stream(strategy, benchmark)
    precision = last_evaluation(strategy.evaluator).metrics.average_precision
    old, new = precision[:10].nanmean(), precision[10:].nanmean()
    print(f"strength {strength:5.1f}: AP of old classes {old:.3f}, of new ones {new:.3f}")

# %% [markdown]
# The stronger the anchor, the less is learned of new classes. Old classes hardly gain from it here, so
# this idea fails its first test, within seconds: it preserves the probabilities of a small
# network that was never sure of its old classes. RebLL adds a memory, and weights in the loss that
# rebalance positives and negatives. Whether a difference is real is a question for validation images
# and several seeds: [Compare methods](compare_methods.md).
#
# An entry point in the `pyproject.toml` of your package makes the method known to `rebll run`, `rebll
# table` and `--help`: [A method of your own](../own-method.md).
