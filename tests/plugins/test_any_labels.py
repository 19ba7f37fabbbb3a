"""Methods where any column may be annotated: new classes, earlier ones, or none at all."""

from __future__ import annotations

import copy
import math
from functools import partial

import pytest
import torch
from avalanche.training import Naive
from avalanche.training.plugins import SupervisedPlugin

from rebll_avalanche.benchmarks import multilabel_benchmark
from rebll_avalanche.labels import PartialLabelBCE
from rebll_avalanche.losses import akd_loss, probability
from rebll_avalanche.models import build_model
from rebll_avalanche.plugins import (
    AKDPlugin,
    OnlineRelabelPlugin,
    SigmoidLwFPlugin,
    SoftmaxLwFPlugin,
)
from rebll_avalanche.plugins.csc import CSCPlugin
from rebll_avalanche.plugins.podnet import PODPlugin
from rebll_avalanche.running.stream import run_stream
from rebll_avalanche.strategies import METHODS, RebLL


def mixed_stream(side: int | None = None, dtype=torch.float32):
    """Two classes; more of the first; images without labels; two new classes and the second again."""
    generator = torch.Generator().manual_seed(0)
    labels = (torch.rand(40, 4, generator=generator) < 0.4).float()
    labels[torch.arange(40), torch.arange(40) % 4] = 1.0
    inputs = torch.randn(40, 6, generator=generator, dtype=dtype)
    if side is not None:
        colours = labels @ torch.rand(4, 3, generator=generator)
        noise = torch.rand(40, 3, side, side, generator=generator)
        inputs = colours[:, :, None, None] + 0.1 * noise
    listed = [
        (range(10), [0, 1]),
        (range(10, 20), [0]),
        (range(20, 28), []),
        (range(28, 40), [1, 2, 3]),
    ]
    return multilabel_benchmark((inputs, labels), (inputs, labels), listed)


class Recorder(SupervisedPlugin):
    """Notes every training step, and the model at the end of each experience."""

    def __init__(self):
        super().__init__()
        self.steps, self.previous = [], None

    def after_backward(self, strategy, **kwargs):
        self.steps.append(
            {
                "experience": strategy.experience.current_experience,
                "loss": strategy.loss.item(),
                "logits": strategy.mb_output.detach(),
                "labels": strategy.mb_y,
                "teacher": None if self.previous is None else self.previous(strategy.mb_x).detach(),
            }
        )

    def after_training_exp(self, strategy, **kwargs):
        self.previous = copy.deepcopy(strategy.model).eval()


def trained(benchmark, *plugins, criterion=None, dtype=torch.float32):
    torch.manual_seed(1)
    model = build_model("vector", in_features=6).to(dtype)
    recorder = Recorder()
    strategy = Naive(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.3),
        criterion=criterion or PartialLabelBCE(),
        train_mb_size=5,
        plugins=[*plugins, recorder],
        evaluator=None,
    )
    for experience in benchmark.train_stream:
        strategy.train(experience)
    assert {step["experience"] for step in recorder.steps} == set(
        range(len(benchmark.train_stream))
    )
    return model, recorder.steps


def mean_over(entries, loss):
    """The mean of a loss over (logit, target) pairs, one by one; 0 of none."""
    return sum(loss(*entry) for entry in entries) / max(len(entries), 1)


def bce(z, y, exponent=0.0):
    p = 1 / (1 + math.exp(-z))
    return -y * (1 - p) ** exponent * math.log(p) - (1 - y) * math.log(1 - p)


def entries(step, old_classes, *, known):
    """Pairs of annotated labels, or of old classes nobody annotated and what the teacher says."""
    pairs = []
    for row, labels in enumerate(step["labels"].tolist()):
        for column in range(step["logits"].shape[1]):
            label = labels[column]
            z = step["logits"][row, column].item()
            if known and not math.isnan(label):
                pairs.append((z, label))
            if not known and math.isnan(label) and column < old_classes:
                pairs.append((z, step["teacher"][row, column].item()))
    return pairs


OLD = (0, 2, 2, 2)  # classes before each experience
SEEN = (2, 2, 2, 4)


def test_rebll_learns_what_is_annotated_and_distils_the_rest():
    plugin = AKDPlugin()
    _, steps = trained(mixed_stream(dtype=torch.float64), plugin, dtype=torch.float64)
    for step in steps:
        t = step["experience"]
        g = 1.2 * math.log(SEEN[t])
        expected = mean_over(entries(step, OLD[t], known=True), partial(bce, exponent=g))
        if t:
            taught = entries(step, OLD[t], known=False)
            taught = [(z, 1 / (1 + math.exp(-q))) for z, q in taught]
            distilled = mean_over(taught, partial(bce, exponent=g))
            expected = 0.15 * expected + 0.85 * distilled
        assert step["loss"] == pytest.approx(expected, abs=1e-6)


def test_lwf_distils_what_nobody_annotated():
    _, steps = trained(mixed_stream(), SigmoidLwFPlugin())
    for step in steps:
        t = step["experience"]
        expected = mean_over(entries(step, OLD[t], known=True), bce)
        if t:
            taught = entries(step, OLD[t], known=False)
            expected += mean_over(taught, lambda z, q: bce(z / 2, 1 / (1 + math.exp(-q / 2))))
        assert step["loss"] == pytest.approx(expected, abs=1e-5)


def test_csc_is_unsure_only_about_what_nobody_annotated():
    _, steps = trained(mixed_stream(), CSCPlugin(entropy_reduction="mean", entropy_weight=0.5))
    for step in steps:
        t = step["experience"]
        expected = mean_over(entries(step, OLD[t], known=True), bce)
        if t:
            taught = entries(step, OLD[t], known=False)
            distilled = mean_over(taught, lambda z, q: bce(z, 1 / (1 + math.exp(-q))))

            def half_entropy(z, _):
                p = 1 / (1 + math.exp(-z))
                return p * math.log(p)

            expected = 0.15 * expected + 0.85 * distilled + 0.5 * mean_over(taught, half_entropy)
        assert step["loss"] == pytest.approx(expected, abs=1e-5)


def test_podnet_weighs_by_the_annotated_classes():
    plugin, scales = PODPlugin(), []

    class Watch(SupervisedPlugin):
        def after_training_exp(self, strategy, **kwargs):
            scales.append(plugin._scale)

    trained(mixed_stream(), plugin, Watch())
    assert scales[1:] == pytest.approx([math.sqrt(2 / 1), math.sqrt(2), math.sqrt(4 / 3)])


def test_avalanches_softmax_cannot_leave_single_classes_out():
    with pytest.raises(ValueError, match=r"SoftmaxLwFPlugin.*experience 1; SigmoidLwFPlugin"):
        trained(mixed_stream(), SoftmaxLwFPlugin())


def test_relabelling_fills_only_what_is_unknown():
    """Images of every experience end up complete, and every given label is as it was given."""
    benchmark = mixed_stream()
    plugin = OnlineRelabelPlugin(mem_size=40)
    trained(benchmark, AKDPlugin(), plugin)
    memory = plugin.memory
    assert len(memory) == 40
    filled = set()
    for row in range(40):
        experience = benchmark.train_stream[int(memory.experience[row])]
        given = experience.dataset.targets.data[memory.index[row]]
        known = ~given.isnan()
        assert torch.equal(memory.labels[row][known], given[known])
        assert torch.equal(memory.provenance[row] == 1, known)
        assert not memory.labels[row].isnan().any()
        filled.add((experience.current_experience, int((~known).sum())))
    assert filled == {(0, 2), (1, 3), (2, 4), (3, 1)}


class Slices(AKDPlugin):
    """L_akd as it is in the paper's streams: all columns of earlier classes."""

    def before_backward(self, strategy, **kwargs):
        self.terms.record("cls", self._cls_now)
        if not self.distils:
            return
        old = slice(0, self.old_classes)
        target = probability(self.teacher.logits(strategy.mb_x)[:, old])
        loss = akd_loss(strategy.mb_output[:, old], target, exponent=self._exponent_now)
        strategy.loss += (1 - self.lambda_akd) * loss


@pytest.mark.parametrize("mode", ["overlap", "disjoint"])
def test_in_the_papers_stream_this_is_the_papers_method_to_the_bit(vector_benchmark, mode):
    def weights(kind):
        torch.manual_seed(5)
        model = build_model("vector", in_features=6)
        strategy = RebLL(
            model=model, optimizer=torch.optim.Adam(model.parameters()), mem_size=6, train_mb_size=8
        )
        if kind is Slices:
            own = Slices()
            own.teacher, own.terms = strategy.rebll.akd.teacher, strategy.rebll.akd.terms
            strategy.rebll.akd = own
        for experience in vector_benchmark("B2-C1", mode=mode).train_stream:
            strategy.train(experience)
        return {**model.state_dict(), "memory": strategy.rebll.memory.labels}

    first, second = weights(AKDPlugin), weights(Slices)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_replay_stops_at_the_earlier_classes_also_where_all_labels_are_known(vector_benchmark):
    """With ``missing="negative"`` memory has labels of the new classes, which L_er leaves out."""
    benchmark = vector_benchmark("B2-C1", missing="negative")
    plugin, found = OnlineRelabelPlugin(mem_size=100, batch_size_mem=100), []

    class Compare(SupervisedPlugin):
        def before_backward(self, strategy, **kwargs):
            memory, (lo, hi) = (
                plugin.memory,
                benchmark.scenario.ranges[strategy.experience.current_experience],
            )
            if not len(memory):
                return
            logits = strategy.model(memory.images(torch.arange(len(memory)), augment=False))
            pairs = [
                (logits[row, column].item(), memory.labels[row, column].item())
                for row in range(len(memory))
                for column in range(lo)
            ]
            exponent = 0.7 * math.log(hi)

            def er(z, y):
                p = 1 / (1 + math.exp(-z))
                return -y * math.log(p) - (1 - y) * p**exponent * math.log(1 - p)

            found.append((plugin.terms.last["er"].item(), mean_over(pairs, er)))

    trained(benchmark, plugin, Compare())
    assert found
    for recorded, expected in found:
        assert recorded == pytest.approx(expected, abs=1e-5)


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
@pytest.mark.parametrize(
    "name", [name for name, method in METHODS.items() if not method.joint and name != "lwf-softmax"]
)
def test_every_method_goes_on_without_a_new_class_and_without_labels(name):
    torch.manual_seed(0)
    method = METHODS[name]
    backbone, side = ("test_vit", 160) if method.head in ("l2p", "lanes") else ("small_cnn", 8)
    model = build_model(backbone, head=method.head)
    strategy = method.build(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3),
        train_mb_size=8,
        eval_mb_size=16,
        train_epochs=1,
        **({"mem_size": 8} if method.uses_memory else {}),
    )
    benchmark = mixed_stream(side)
    if name in ("gem", "agem", "mas"):
        with pytest.raises(ValueError, match=r"needs a loss.*experience 2 has no label"):
            run_stream(strategy, benchmark)
        return
    results = run_stream(strategy, benchmark)
    assert [step.classes_seen for step in results] == [2, 2, 2, 4]
    for step in results:
        assert all(math.isfinite(value) for value in step.metrics.values())
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())
