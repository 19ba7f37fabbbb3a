"""Metrics inside real Avalanche loops."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from avalanche.evaluation.metrics import accuracy_metrics
from avalanche.logging import CSVLogger, InteractiveLogger, TensorboardLogger, TextLogger
from avalanche.models import IncrementalClassifier
from avalanche.training import EWC, Cumulative, Naive, Replay
from avalanche.training.plugins import EvaluationPlugin
from torch import nn

from rebll_avalanche.labels import PartialLabelBCE
from rebll_avalanche.metrics import (
    average_map,
    average_precision,
    forgetting,
    last_evaluation,
    multilabel_evaluator,
    multilabel_metric,
    multilabel_metrics,
    multilabel_scores,
    read_metrics,
)
from rebll_avalanche.metrics import plugin as plugin_module

MakeStream = Callable[..., Any]


def make_strategy(
    strategy_class: type = Naive, model: nn.Module | None = None, **options: Any
) -> Any:
    torch.manual_seed(0)
    model = nn.Linear(6, 5) if model is None else model
    options = {"evaluator": multilabel_evaluator(), "criterion": PartialLabelBCE()} | options
    return strategy_class(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        train_mb_size=8,
        eval_mb_size=10,
        **options,
    )


def scores_by_hand(strategy: Any, experience: Any) -> tuple[torch.Tensor, torch.Tensor]:
    x, y = (
        torch.stack(column)
        for column in zip(*((row[0], row[1]) for row in experience.dataset), strict=True)
    )
    with torch.no_grad():
        logits = strategy.model.eval()(x)
    return logits.sigmoid(), y[:, : logits.shape[1]]


@pytest.mark.parametrize(
    ("strategy_class", "options"),
    [(Naive, {}), (Replay, {"mem_size": 10}), (EWC, {"ewc_lambda": 0.1}), (Cumulative, {})],
)
def test_every_step_equals_the_metrics_of_its_own_scores(
    make_stream: MakeStream, strategy_class: type, options: dict[str, Any]
) -> None:
    benchmark = make_stream()
    strategy = make_strategy(strategy_class, **options)
    maps = []
    for train, test in zip(benchmark.train_stream, benchmark.test_stream, strict=True):
        strategy.train(train)
        found = read_metrics(strategy.eval([test]))
        expected = multilabel_scores(*scores_by_hand(strategy, test)).as_dict()
        maps.append(expected["mAP"])
        assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-6)
        assert found["AvgmAP"] == pytest.approx(sum(maps) / len(maps), abs=1e-6)
        assert "Loss" in found
    assert len(maps) == 3
    assert "Forgetting" in found


def test_keys_follow_avalanche(make_stream: MakeStream) -> None:
    benchmark = make_stream()
    strategy = make_strategy()
    for train, test in zip(benchmark.train_stream[:2], benchmark.test_stream[:2], strict=True):
        strategy.train(train)
        results = strategy.eval([test])
    means = ["CP", "CR", "CF1", "OP", "OR", "OF1", "FPR"]
    names = ["mAP", "AvgmAP", "Forgetting"] + [f"{m}@{t}" for t in ("0.8", "0.5") for m in means]
    for name in names:
        value = results[f"{name}_Stream/eval_phase/test_stream"]
        assert type(value) is float
        assert -1 <= value <= 1
    assert not any("Acc" in key for key in results)


def test_experiences_of_one_call_are_scored_together_and_if_asked_alone(
    make_stream: MakeStream,
) -> None:
    benchmark = make_stream()
    strategy = make_strategy(evaluator=multilabel_evaluator(experience=True, per_class=True))
    strategy.train(benchmark.train_stream[0])
    results = strategy.eval(benchmark.test_stream)
    parts = [scores_by_hand(strategy, experience) for experience in benchmark.test_stream]
    together = multilabel_scores(*(torch.cat(column) for column in zip(*parts, strict=True)))
    assert read_metrics(results)["mAP"] == pytest.approx(together.mean_average_precision, abs=1e-6)
    for column, value in enumerate(together.average_precision.tolist()):
        assert results[f"AP_{column:03}_Stream/eval_phase/test_stream"] == pytest.approx(
            value, abs=1e-6
        )
    for number, part in enumerate(parts):
        alone = multilabel_scores(*part).as_dict()
        for name in ("mAP", "CF1@0.8", "FPR@0.5"):
            key = f"{name}_Exp/eval_phase/test_stream/Exp{number:03}"
            assert results[key] == pytest.approx(alone[name], abs=1e-6)
    assert "AP_003_Exp/eval_phase/test_stream/Exp000" not in results  # not annotated there


def test_scores_are_computed_once_per_evaluation(
    make_stream: MakeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def counted(*args: Any, **options: Any) -> Any:
        calls.append(args)
        return multilabel_scores(*args, **options)

    monkeypatch.setattr(plugin_module, "multilabel_scores", counted)
    benchmark = make_stream()
    strategy = make_strategy()
    strategy.eval(benchmark.test_stream)
    assert len(calls) == 1


@pytest.mark.parametrize("eval_every", [0, 1, 2])
@pytest.mark.parametrize("peval_mode", ["epoch", "iteration"])
def test_further_evaluations_do_not_change_average_map_or_forgetting(
    make_stream: MakeStream, eval_every: int, peval_mode: str
) -> None:
    benchmark = make_stream()
    strategy = make_strategy(train_epochs=2, eval_every=eval_every, peval_mode=peval_mode)
    tests = list(benchmark.test_stream)
    strategy.eval(tests)
    history = []
    for step, train in enumerate(benchmark.train_stream):
        # The evaluations before and during training look at this step's test images, too.
        strategy.train(train, eval_streams=[[tests[step]]])
        history.append(average_precision(*scores_by_hand(strategy, tests[step])))
        for repeated in ([tests[step]], [tests[step]], [tests[0]], [tests[2]], tests):
            found = read_metrics(strategy.eval(repeated))
            assert found["AvgmAP"] == pytest.approx(average_map(history), abs=1e-6)
            if step > 0:
                assert found["Forgetting"] == pytest.approx(forgetting(history), abs=1e-6)
            else:
                assert "Forgetting" not in found


@pytest.mark.parametrize("eval_every", [0, 1])
def test_periodic_evaluation_alone_gives_average_map(
    make_stream: MakeStream, eval_every: int
) -> None:
    benchmark = make_stream()
    strategy = make_strategy(train_epochs=2, eval_every=eval_every)
    maps = []
    for train, test in zip(benchmark.train_stream, benchmark.test_stream, strict=True):
        strategy.train(train, eval_streams=[[test]])
        maps.append(multilabel_scores(*scores_by_hand(strategy, test)).mean_average_precision)
        found = read_metrics(strategy.evaluator.get_last_metrics())
        assert found["AvgmAP"] == pytest.approx(sum(maps) / len(maps), abs=1e-6)


def test_a_head_that_grows_is_scored_on_the_columns_it_has(make_stream: MakeStream) -> None:
    benchmark = make_stream()
    model = IncrementalClassifier(6, initial_out_features=2, masking=False)
    strategy = make_strategy(model=model)
    widths = []
    for train, test in zip(benchmark.train_stream, benchmark.test_stream, strict=True):
        strategy.train(train)
        found = read_metrics(strategy.eval([test]))
        scores, truth = scores_by_hand(strategy, test)
        widths.append(scores.shape[1])
        expected = multilabel_scores(scores, truth).as_dict()
        assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-6)
        assert last_evaluation(strategy.evaluator).scores.shape == scores.shape
    assert widths == [2, 3, 5]


def test_experiences_of_different_width_are_joined(make_stream: MakeStream) -> None:
    # Avalanche's own classifier grows during evaluation, experience by experience.
    benchmark = make_stream()
    model = IncrementalClassifier(6, initial_out_features=2, masking=False)
    strategy = make_strategy(model=model)
    strategy.train(benchmark.train_stream[0])
    strategy.eval(benchmark.test_stream)
    evaluation = last_evaluation(strategy.evaluator)
    assert evaluation.experiences == (0, 1, 2)
    assert evaluation.scores.shape == evaluation.truth.shape == (72, 5)
    assert evaluation.truth[:24, 2:].isnan().all()


def test_the_last_evaluation_can_be_looked_into(make_stream: MakeStream) -> None:
    benchmark = make_stream()
    strategy = make_strategy()
    with pytest.raises(ValueError, match=r"call strategy.eval"):
        last_evaluation(strategy.evaluator)
    strategy.train(benchmark.train_stream[0])
    strategy.eval([benchmark.test_stream[1]])
    evaluation = last_evaluation(strategy.evaluator)
    scores, truth = scores_by_hand(strategy, benchmark.test_stream[1])
    assert (evaluation.stream, evaluation.experiences) == ("test", (1,))
    assert evaluation.scores.dtype == torch.float32
    torch.testing.assert_close(evaluation.scores, scores)
    torch.testing.assert_close(evaluation.truth, truth, equal_nan=True)
    assert evaluation.metrics.average_precision.isnan().tolist() == [False] * 3 + [True] * 2
    result = multilabel_metric(strategy.evaluator).result()
    assert result["mAP"] == evaluation.metrics.mean_average_precision


def test_a_resumed_run_continues_the_average(make_stream: MakeStream) -> None:
    benchmark = make_stream()
    whole = make_strategy()
    for step in range(2):
        whole.train(benchmark.train_stream[step])
        whole.eval([benchmark.test_stream[step]])
    stored = io.BytesIO()
    torch.save(multilabel_metric(whole.evaluator).state_dict(), stored)
    stored.seek(0)
    resumed = make_strategy(model=whole.model)
    multilabel_metric(resumed.evaluator).load_state_dict(torch.load(stored, weights_only=True))
    tests = benchmark.test_stream
    before = read_metrics(whole.evaluator.get_last_metrics())
    resumed.train(benchmark.train_stream[2])
    found = read_metrics(resumed.eval([tests[2]]))
    assert found["AvgmAP"] == pytest.approx((2 * before["AvgmAP"] + found["mAP"]) / 3)
    history = list(
        multilabel_metric(whole.evaluator).state_dict()["average_precision"]["test"].values()
    )
    history.append(last_evaluation(resumed.evaluator).metrics.average_precision)
    assert found["Forgetting"] == pytest.approx(forgetting(history))


@pytest.mark.parametrize("with_targets", [True, False])
def test_a_loss_that_does_not_know_unknown_labels_is_refused_before_the_first_update(
    make_stream: MakeStream, with_targets: bool
) -> None:
    benchmark = make_stream(with_targets=with_targets)
    strategy = make_strategy(criterion=nn.BCEWithLogitsLoss())
    before = strategy.model.weight.detach().clone()
    with pytest.raises(
        ValueError, match=r"BCEWithLogitsLoss cannot learn .* use criterion=PartialLabelBCE"
    ):
        strategy.train(benchmark.train_stream[0])
    assert torch.equal(strategy.model.weight, before)


def test_data_sets_that_do_not_show_their_labels_are_scored_too(make_stream: MakeStream) -> None:
    benchmark = make_stream(with_targets=False)
    strategy = make_strategy()
    strategy.train(benchmark.train_stream[0])
    assert 0 < read_metrics(strategy.eval([benchmark.test_stream[0]]))["mAP"] <= 1


def test_single_label_targets_are_refused_by_name() -> None:
    metric = multilabel_metrics()[0]

    class Strategy:
        mb_output, mb_y = torch.zeros(4, 3), torch.zeros(4, dtype=torch.long)

    with pytest.raises(ValueError, match=r"\[batch, classes\], got \(4, 3\) and \(4,\)"):
        metric.after_eval_iteration(Strategy())


def test_every_logger_shows_them(
    make_stream: MakeStream, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    text = (tmp_path / "log.txt").open("w+")
    table = CSVLogger(str(tmp_path / "csv"))
    board = TensorboardLogger(tmp_path / "board")
    loggers = [TextLogger(text), table, board, InteractiveLogger()]
    benchmark = make_stream()
    strategy = make_strategy(evaluator=multilabel_evaluator(loggers=loggers))
    strategy.train(benchmark.train_stream[0])
    results = strategy.eval([benchmark.test_stream[0]])
    board.writer.close()
    table.close()
    text.close()

    key = "CF1@0.8_Stream/eval_phase/test_stream"
    line = f"{key} = {results[key]:.4f}"
    assert line in (tmp_path / "log.txt").read_text()
    assert line in capsys.readouterr().out
    events = EventAccumulator(str(tmp_path / "board"))
    events.Reload()
    assert events.Scalars(key)[0].value == pytest.approx(results[key])
    rows = (tmp_path / "csv" / "eval_results.csv").read_text().splitlines()
    loss = results["Loss_Exp/eval_phase/test_stream/Exp000"]
    assert rows[1].split(",")[3] == f"{loss:.4f}"  # the CSV logger knows accuracy and loss only


def test_classes_without_positives_are_named_once(
    make_stream: MakeStream, caplog: pytest.LogCaptureFixture
) -> None:
    benchmark = make_stream(samples=1)
    names = ["cat", "dog", "horse", "sheep", "cow"]
    strategy = make_strategy(evaluator=multilabel_evaluator(class_names=names, per_class=True))
    for _ in range(2):
        results = strategy.eval([benchmark.test_stream[2]])
    missing = last_evaluation(strategy.evaluator).metrics.without_positives
    assert 0 < len(missing) < 5
    (record,) = caplog.records
    for column, name in enumerate(names):
        assert (name in record.getMessage()) == (column in missing)
        assert (f"AP_{name}_Stream/eval_phase/test_stream" in results) == (column not in missing)


def test_the_metrics_fit_into_anybodys_evaluator(make_stream: MakeStream) -> None:
    evaluator = EvaluationPlugin(
        multilabel_metrics(thresholds=[0.3]), loggers=[TextLogger(io.StringIO())]
    )
    strategy = make_strategy(evaluator=evaluator)
    found = read_metrics(strategy.eval(make_stream().test_stream))
    assert "CF1@0.3" in found
    assert "Loss" not in found


def test_an_evaluator_without_ours_says_how_to_get_one() -> None:
    evaluator = EvaluationPlugin(accuracy_metrics(stream=True), loggers=[TextLogger(io.StringIO())])
    with pytest.raises(ValueError, match=r"multilabel_evaluator\(\)"):
        last_evaluation(evaluator)


def test_thresholds_are_fractions() -> None:
    with pytest.raises(ValueError, match="between 0 and 1, got 80"):
        multilabel_evaluator(thresholds=[80])


def test_the_functions_do_not_need_avalanche() -> None:
    code = "import sys, rebll_avalanche.metrics; sys.exit('avalanche' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
