"""KRT: pseudo-labels by rank, the asymmetric loss over all seen classes, token distillation."""

import copy
import itertools
import math

import pytest
import torch
from avalanche.training.plugins import SupervisedPlugin

from rebll_avalanche.models import build_model
from rebll_avalanche.plugins.krt import KRTPlugin, asl_loss, pseudo_label_threshold
from rebll_avalanche.strategies import KRT

NAN = float("nan")


def slow_asl(z, y, exponent=4.0, margin=0.05):
    p = 1 / (1 + math.exp(-z))
    shifted = max(p - margin, 0.0)
    return -y * math.log(p) - (1 - y) * shifted**exponent * math.log(1 - shifted)


def test_asymmetric_loss_follows_the_formula():
    logits = torch.tensor([[2.0, -3.5, 0.3], [-1.0, 4.0, 0.0]], requires_grad=True)
    targets = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, NAN]])
    loss = asl_loss(logits, targets)
    for i in range(2):
        for j in range(3):
            y = targets[i, j].item()
            expected = 0.0 if math.isnan(y) else slow_asl(logits[i, j].item(), y)
            assert loss[i, j].item() == pytest.approx(expected, abs=1e-6)
    loss.sum().backward()
    assert logits.grad[1, 2] == 0
    assert logits.grad[0, 1] == 0  # a negative below the margin
    p = torch.sigmoid(torch.tensor(4.0)).item()
    # d/dz of -log(1 - p + m), times the weight that is held constant.
    slope = (p - 0.05) ** 4 * p * (1 - p) / (1 - p + 0.05)
    assert logits.grad[1, 1].item() == pytest.approx(slope, rel=1e-4)


@pytest.mark.parametrize("labels_per_image", [0.0, 0.3, 1.0, 2.5, 4.0, 9.0])
def test_threshold_gives_the_wanted_number_of_labels(labels_per_image):
    probability = torch.rand(50, 4, generator=torch.Generator().manual_seed(0))
    threshold = pseudo_label_threshold(probability, labels_per_image)
    assert (probability > threshold).sum() == min(round(50 * labels_per_image), 200)


def test_threshold_of_a_teacher_that_is_sure_of_nothing_ends():
    assert pseudo_label_threshold(torch.full((10, 3), 0.2), 1.0) == pytest.approx(0.2)


class Recorder(SupervisedPlugin):
    def __init__(self, plugin):
        super().__init__()
        self.steps, self.previous, self.plugin = [], None, plugin
        self.memory = None

    def before_training_exp(self, strategy, **kwargs):
        memory = self.plugin.memory
        if len(memory):
            rows = torch.arange(len(memory))
            self.memory = (memory.images(rows, augment=False), memory.labels.clone())

    def after_backward(self, strategy, **kwargs):
        self.steps.append(
            (
                strategy.experience.current_experience,
                strategy.loss.item(),
                copy.deepcopy(strategy.model),
                self.previous,
                (strategy.mb_x, strategy.mb_y),
                self.memory,
                self.plugin.threshold,
            )
        )

    def after_training_exp(self, strategy, **kwargs):
        self.previous = copy.deepcopy(strategy.model).eval()


def attention_model():
    torch.manual_seed(0)
    model = build_model("vector", in_features=6, head="cross_attention", dim=8, num_heads=2, grid=1)
    with torch.no_grad():
        model.head.attention.shared_token.normal_()
    return model


@pytest.mark.parametrize("mem_size", [0, 6])
def test_loss_follows_the_formula(vector_benchmark, mem_size):
    benchmark = vector_benchmark("B2-C1")
    model = attention_model()
    strategy = KRT(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.01),
        mem_size=mem_size,
        lambda_token=5.0,
        labels_per_image=1.5,
        train_mb_size=8,
        evaluator=None,
    )
    recorder = Recorder(strategy.krt)
    strategy.plugins.append(recorder)
    for experience in benchmark.train_stream:
        strategy.train(experience)

    def expected_terms(model, previous, parts, lo, hi, threshold):
        images, targets = map(torch.cat, zip(*parts, strict=True))
        # Batch by batch, as the plugin does: one image's probability is the threshold itself.
        taught = [[[]] * len(x) if previous is None else previous(x).sigmoid() for x, _ in parts]
        total = 0.0
        for z_row, y_row, teacher in zip(
            model(images).tolist(), targets.tolist(), itertools.chain(*taught), strict=True
        ):
            for c in range(hi):
                y = y_row[c]
                if math.isnan(y):
                    if c >= lo:
                        continue
                    y = float(teacher[c] > threshold)
                total += slow_asl(z_row[c], y)
        if previous is None:
            return total
        old = previous.head.embed(previous.features(images)).flatten(1)
        new = model.head.embed(model.features(images))[:, : len(previous.head.session_sizes)]
        cosine = torch.nn.functional.cosine_similarity(old, new.flatten(1))
        return total + 5.0 * math.sqrt(hi / (hi - lo)) * (1 - cosine.mean().item())

    for t, loss, network, previous, batch, memory, threshold in recorder.steps:
        lo, hi = benchmark.scenario.ranges[t]
        with torch.no_grad():
            # Memory images are part of the batch: labels are summed, tokens averaged over all.
            parts = [batch] if memory is None else [batch, memory]
            expected = expected_terms(network, previous, parts, lo, hi, threshold)
        assert loss == pytest.approx(expected, rel=1e-3)
    assert (recorder.steps[-1][5] is not None) == (mem_size > 0)


def test_old_tokens_do_not_move_and_the_threshold_is_kept(vector_benchmark):
    benchmark = vector_benchmark("B2-C2")
    model = attention_model()
    strategy = KRT(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=0.1),
        train_mb_size=8,
        evaluator=None,
    )
    strategy.train(benchmark.train_stream[0])
    token, weight = model.head.token.detach().clone(), model.head.weight.detach().clone()
    strategy.train(benchmark.train_stream[1])
    assert torch.equal(model.head.old_tokens, token)
    assert torch.equal(model.head.old_weight, weight)
    restored = KRTPlugin()
    restored.load_state_dict(strategy.krt.state_dict())
    assert restored.threshold == strategy.krt.threshold != 0.5
