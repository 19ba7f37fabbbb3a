"""Avalanche's own strategies, plugins, loaders and loggers on these streams."""

from __future__ import annotations

import io

import pytest
import torch
from avalanche.benchmarks.scenarios.online import split_online_stream
from avalanche.benchmarks.scenarios.supervised import with_classes_timeline
from avalanche.benchmarks.utils.data_loader import ReplayDataLoader
from avalanche.evaluation.metrics import loss_metrics
from avalanche.logging import CSVLogger, TextLogger
from avalanche.models import IncrementalClassifier
from avalanche.training import EWC, Cumulative, JointTraining, Naive, Replay
from avalanche.training.plugins import EvaluationPlugin, ReplayPlugin
from avalanche.training.storage_policy import ExperienceBalancedBuffer, ReservoirSamplingBuffer
from torch import nn
from torch.utils.data import DataLoader

from rebll_avalanche.labels import PartialLabelBCE, label_matrix


def reservoir():
    return {"plugins": [ReplayPlugin(8, storage_policy=ReservoirSamplingBuffer(8))]}


def balanced():
    return {"plugins": [ReplayPlugin(8, storage_policy=ExperienceBalancedBuffer(8))]}


@pytest.mark.parametrize(
    ("strategy_class", "options"),
    [
        (Naive, dict),
        (Cumulative, dict),
        (Replay, lambda: {"mem_size": 8}),
        (Naive, reservoir),
        (Naive, balanced),
        (EWC, lambda: {"ewc_lambda": 0.1}),
    ],
)
def test_strategies_train_and_evaluate_with_a_finite_loss(
    vector_benchmark, strategy_class, options
):
    torch.manual_seed(0)
    benchmark = vector_benchmark()
    model = nn.Linear(6, 4)
    start = model.weight.detach().clone()
    printed = io.StringIO()
    evaluator = EvaluationPlugin(loss_metrics(stream=True), loggers=[TextLogger(printed)])
    strategy = strategy_class(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        criterion=PartialLabelBCE(),
        train_mb_size=8,
        eval_mb_size=16,
        evaluator=evaluator,
        **options(),
    )
    for train, test in zip(benchmark.train_stream, benchmark.test_stream, strict=True):
        strategy.train(train)
        results = strategy.eval([test])
    assert 0 < results["Loss_Stream/eval_phase/test_stream"] < 5
    assert not torch.equal(start, model.weight)
    assert torch.isfinite(model.weight).all()
    assert "Loss_Stream/eval_phase/test_stream" in printed.getvalue()


def test_joint_training_takes_the_whole_stream(vector_benchmark):
    benchmark = vector_benchmark()
    model = nn.Linear(6, 4)
    strategy = JointTraining(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        criterion=PartialLabelBCE(),
        train_mb_size=8,
        evaluator=EvaluationPlugin(loss_metrics(stream=True), loggers=[TextLogger(io.StringIO())]),
    )
    strategy.train(benchmark.train_stream)
    results = strategy.eval(benchmark.test_stream)
    assert results["Loss_Stream/eval_phase/test_stream"] > 0


def test_avalanches_growing_head_reads_the_class_timeline(vector_benchmark):
    head = IncrementalClassifier(6, initial_out_features=1, masking=False)
    for experience, width in zip(vector_benchmark().train_stream, (2, 3, 4), strict=True):
        head.adaptation(experience)
        assert head(torch.zeros(1, 6)).shape == (1, width)


def test_avalanches_own_timeline_agrees_with_ours(vector_benchmark):
    benchmark = vector_benchmark()
    theirs = with_classes_timeline(benchmark).train_stream
    for experience, other in zip(benchmark.train_stream, theirs, strict=True):
        assert other.classes_in_this_experience == experience.classes_in_this_experience
        assert other.previous_classes == experience.previous_classes
        assert other.classes_seen_so_far == experience.classes_seen_so_far


def test_online_streams_can_be_cut(vector_benchmark):
    stream = vector_benchmark().train_stream
    parts = list(split_online_stream(stream, experience_size=5))
    assert sum(len(part.dataset) for part in parts) == sum(len(e.dataset) for e in stream)
    assert label_matrix(parts[0].dataset).shape == (5, 4)
    assert parts[0].origin_experience.classes_in_this_experience == {0, 1}


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_loaders_with_workers_give_the_same_batches(scenes):
    dataset = scenes.test_stream[0].dataset
    plain, workers = (list(DataLoader(dataset, 16, num_workers=count)) for count in (0, 2))
    assert len(plain) == len(workers) > 1
    for (x, y), (other_x, other_y) in zip(plain, workers, strict=True):
        assert torch.equal(x, other_x)
        assert torch.equal(y.nan_to_num(nan=-1), other_y.nan_to_num(nan=-1))


def test_the_replay_loader_mixes_experiences(vector_benchmark):
    first, second, _ = (experience.dataset for experience in vector_benchmark().train_stream)
    x, y = next(iter(ReplayDataLoader(second, first, batch_size=4, batch_size_mem=3)))
    assert x.shape == (7, 6)
    assert y[:4, :2].isnan().all()
    assert not y[:4, 2].isnan().any()
    assert not y[4:, :2].isnan().any()


def test_the_csv_logger_writes(vector_benchmark, tmp_path):
    benchmark = vector_benchmark()
    model = nn.Linear(6, 4)
    logger = CSVLogger(tmp_path)
    evaluator = EvaluationPlugin(
        loss_metrics(minibatch=True, epoch=True, experience=True), loggers=[logger]
    )
    strategy = Naive(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        criterion=PartialLabelBCE(),
        train_mb_size=8,
        evaluator=evaluator,
    )
    strategy.train(benchmark.train_stream[0], eval_streams=[])
    strategy.eval(benchmark.test_stream[:1])
    logger.close()
    assert len((tmp_path / "eval_results.csv").read_text().splitlines()) == 2
