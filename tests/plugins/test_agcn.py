"""AGCN counts its label graph as batches come, and preserves its old nodes."""

import copy

import pytest
import torch
from avalanche.training.plugins import SupervisedPlugin
from torch.nn.functional import binary_cross_entropy_with_logits

from rebll_avalanche.labels import label_matrix
from rebll_avalanche.models import build_model
from rebll_avalanche.plugins.agcn import LabelGraphPlugin
from rebll_avalanche.strategies import AGCN, FineTuning, RebLL


class Recorder(SupervisedPlugin):
    def __init__(self):
        super().__init__()
        self.steps, self.previous = [], None

    def after_backward(self, strategy, **kwargs):
        model, x = strategy.model, strategy.mb_x
        self.steps.append(
            {
                "experience": strategy.experience.current_experience,
                "loss": strategy.loss.item(),
                "logits": strategy.mb_output.detach(),
                "targets": strategy.mb_y,
                "nodes": model.head.nodes().detach(),
                "teacher": None if self.previous is None else self.previous(x).detach(),
                "old_nodes": None if self.previous is None else self.previous.head.nodes().detach(),
            }
        )

    def after_training_exp(self, strategy, **kwargs):
        self.previous = copy.deepcopy(strategy.model).eval()


def label_graph_model():
    torch.manual_seed(0)
    return build_model("vector", in_features=6, head="agcn", hidden=5, embedding=4)


def test_loss_follows_the_formula(vector_benchmark):
    benchmark = vector_benchmark("B2-C1")
    model, recorder = label_graph_model(), Recorder()
    strategy = AGCN(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.3),
        classification_weight=0.3,
        relationship_weight=20.0,
        train_mb_size=8,
        plugins=[recorder],
        evaluator=None,
    )
    for experience in benchmark.train_stream:
        strategy.train(experience)
    moved = []
    for step in recorder.steps:
        lo, hi = benchmark.scenario.ranges[step["experience"]]
        logits = step["logits"]
        expected = binary_cross_entropy_with_logits(logits[:, lo:hi], step["targets"][:, lo:hi])
        if lo:
            distilled = binary_cross_entropy_with_logits(logits[:, :lo], step["teacher"].sigmoid())
            difference = (step["nodes"][:lo] - step["old_nodes"]).square()
            moved.append(difference.sum().item())
            relation = difference.sum() / (lo * 6)
            expected = 0.3 * expected + 0.7 * distilled + 20.0 * relation
        assert step["loss"] == pytest.approx(expected.item(), rel=1e-4)
    assert max(moved) > 0


def test_graph_holds_the_statistics_of_every_experience(vector_benchmark):
    benchmark = vector_benchmark("B2-C2")
    model, recorder = label_graph_model(), Recorder()
    strategy = FineTuning(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.3),
        train_mb_size=8,
        plugins=[LabelGraphPlugin(), recorder],
        evaluator=None,
    )
    first, second = benchmark.train_stream
    strategy.train(first)
    labels = label_matrix(first.dataset)[:, :2]
    count = labels.T @ labels
    torch.testing.assert_close(model.head.correlation, count / count.diag())

    teacher = recorder.previous
    strategy.train(second)
    labels = label_matrix(second.dataset)[:, 2:4]
    images = torch.stack([second.dataset[i][0] for i in range(len(second.dataset))])
    soft = teacher(images).softmax(dim=1).detach()
    joint = soft.T @ labels
    torch.testing.assert_close(model.head.correlation[:2, :2], count / count.diag())
    torch.testing.assert_close(model.head.correlation[:2, 2:], joint / labels.sum(dim=0))
    torch.testing.assert_close(model.head.correlation[2:, :2], (joint / soft.sum(dim=0)[:, None]).T)


def test_rebll_shares_its_teacher_with_the_graph(vector_benchmark):
    benchmark = vector_benchmark("B2-C2")
    model = label_graph_model()
    strategy = RebLL(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        mem_size=0,
        train_mb_size=8,
        plugins=[LabelGraphPlugin(soft_labels="sigmoid")],
        evaluator=None,
    )
    for experience in benchmark.train_stream:
        strategy.train(experience)
    steps = -(-len(experience.dataset) // 8)
    assert strategy.rebll.teacher.forward_passes == steps
    assert model.head.correlation[2:, :2].sum() > 0
