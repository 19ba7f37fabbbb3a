"""The input contract: whatever a public entry point is given, it works, or says which argument is wrong.

Every argument gets everything that people pass by mistake: another type, another shape, NaN, infinity,
nothing, far too much. What comes back is a result, or a ``ValueError`` or ``TypeError`` (a file that is
not there is also a ``FileNotFoundError``) whose message is short and names the argument or the value.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import warnings
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import rebll_avalanche
from rebll_avalanche import (
    COCO2014,
    METHODS,
    VOC2007,
    AKDPlugin,
    Learner,
    Memory,
    Method,
    MethodStrategy,
    MultiLabelScenes,
    OnlineRelabelPlugin,
    PartialLabelBCE,
    RebLL,
    RebLLPlugin,
    Scenario,
    SchedulePlugin,
    build_model,
    build_optimizer,
    class_range,
    from_csv,
    from_table,
    get_method,
    last_evaluation,
    load_run,
    multilabel_benchmark,
    multilabel_evaluator,
    multilabel_metrics,
    plugins,
    read_table,
    register,
    run_experiment,
    run_stream,
    seed_everything,
    strategies,
)
from rebll_avalanche import losses as L
from rebll_avalanche import metrics as M
from rebll_avalanche.benchmarks import evaluation_transform, training_transform
from rebll_avalanche.cli import COMMANDS, main
from rebll_avalanche.closed_form.learner import RidgeLearner
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.learner.estimator import RidgeMultiLabel
from rebll_avalanche.methods import describe
from rebll_avalanche.models import GrowingLinear, MultiLabelModel
from rebll_avalanche.report import read_run, write_report
from rebll_avalanche.strategies.template import FineTuning
from rebll_avalanche.tables import AnnotationTable, read_csv

REFUSALS = (ValueError, TypeError, FileNotFoundError)
LONGEST = 2000
NAN, INF = float("nan"), float("inf")

ANYTHING = {
    "nothing": None,
    "an object": object(),
    "an empty list": [],
    "an empty text": "",
    "text": "nonsense",
    "long text": "x" * 100_000,
    "a zero byte": "a\0b",
    "bytes": b"nonsense",
    "a dictionary": {"a": 1},
    "nested lists": [[1, 2], [3]],
    "a number": 3,
    "a fraction": 0.3,
    "below zero": -1,
    "NaN": NAN,
    "infinity": INF,
    "a huge number": 10**30,
    "true": True,
}
MATRICES = {
    "a scalar": torch.tensor(1.0),
    "a vector": torch.ones(4),
    "a cube": torch.ones(4, 3, 2),
    "NaNs": torch.full((4, 3), NAN),
    "infinities": torch.full((4, 3), INF),
    "large numbers": torch.full((4, 3), 1e38),
    "no rows": torch.ones(0, 3),
    "no columns": torch.ones(4, 0),
    "no rows and columns": torch.ones(0, 0),
    "too many rows": torch.ones(5, 3),
    "too many columns": torch.ones(4, 4),
    "far too many": torch.ones(1, 1).expand(1000, 10**10),
    "whole numbers": torch.ones(4, 3, dtype=torch.long),
    "complex numbers": torch.ones(4, 3, dtype=torch.complex64),
    "an array": np.ones((4, 3)),
    "an array of texts": np.array([["a", "b"]]),
    "an array of objects": np.array([[None, object()]]),
}

X = torch.arange(32.0).reshape(8, 4) / 32
Y = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]] * 2)
SCORES = torch.linspace(0, 1, 12).reshape(4, 3)
TRUTH = Y[:4]
NAMES = ["cat", "dog", "car"]
WHOLE = {"sizes": (1, 2), "class_order": (0, 1, 2), "name": "B1-C2"}
GOOD_CSV = "file,labels,split\na.png,cat,train\nb.png,dog,train\nc.png,cat,test\nd.png,dog,test\n"


def streams(**changed):
    given = {"train": (X, Y), "test": (X, Y), "scenario": "B1-C1"} | changed
    return multilabel_benchmark(
        given.pop("train"), given.pop("test"), given.pop("scenario"), **given
    )


def learner(**options):
    return RidgeLearner(4, **options)


def learned(vectors=X[:4], labels=TRUTH, **options):
    found = learner()
    found.learn(vectors, labels, **options)
    return found.solve()


def table(path="labels.csv", **options):
    return from_csv(path, images=".", scenario="B1-C1", **options)


PICTURES = np.random.default_rng(0).integers(0, 256, (4, 16, 16, 3), dtype=np.uint8)


@cache
def once_taught():
    found = Learner(backbone="test_resnet", pretrained=None, image_size=16)
    found.learn((list(PICTURES), np.eye(2).repeat(2, 0)), class_names=["cat", "dog"])
    return found


def taught():
    """A learner to be changed; what it knows is replaced, never changed."""
    return copy.copy(once_taught())


def strategy(make=RebLL, **changed):
    model = build_model("vector", in_features=4)
    given = {"model": model, "optimizer": build_optimizer(model), "train_epochs": 1} | changed
    return make(**given)


def streamed(**changed):
    given = {"strategy": strategy(), "benchmark": streams()} | changed
    return run_stream(given.pop("strategy"), given.pop("benchmark"), **given)


def ran(config=None, folder="run", **options):
    return run_experiment(config or Config(), folder, **options)


def fitted(x=X, y=Y, **options):
    return RidgeMultiLabel(**options).fit(x, y)


def cases_of(name, make, arguments, values=None, more=()):
    """One case for each argument that has a name."""
    found = ANYTHING if values is None else values
    return [
        (name, each, lambda v, each=each: make(**{each: v}), found, (each, *more))
        for each in arguments
    ]


def parameters(make, kinds=(inspect.Parameter.KEYWORD_ONLY,)):
    return [
        name for name, about in inspect.signature(make).parameters.items() if about.kind in kinds
    ]


def everything(make):
    """Arguments without a keyword, too."""
    return parameters(
        make, (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    )


def parts(package, without=()):
    """The classes that only a package of its own makes public, with functions that make one."""
    names = set(package.__all__) - set(rebll_avalanche.__all__) - set(without)
    for name, part in ((name, getattr(package, name)) for name in sorted(names)):
        if inspect.isclass(part):
            yield name, part


def annotation_table(**changed):
    whole = {"images": tuple("abcd"), "class_names": tuple(NAMES), "labels": TRUTH.numpy()}
    return AnnotationTable(**(whole | {"read_as": "own"} | changed))


NETWORK = {"backbone": nn.Flatten(), "head": GrowingLinear(4)}
REQUIRED = {plugins.PolicyBuffer: {"max_size": 3}}
# They take a ViT of 300 MB and nothing else that other cases do not have.
NEED_WEIGHTS = ("L2P", "MultiLane")
# Entry point, argument, how it is called, what a refusal may call the argument; "value" stands for any
# message that shows what was given.
MATRIX = ANYTHING | MATRICES
# For functions of one tensor, which may be as large as memory is.
FITTING = {kind: value for kind, value in MATRIX.items() if kind != "far too many"}
# scikit-learn's own checks show all of what was given.
SHORT = {kind: value for kind, value in FITTING.items() if kind != "long text"}
SAID_BY_SKLEARN = ("X", "array", "sample", "data", "shape", "dtype", "float")
CASES = [
    ("multilabel_benchmark", "train", lambda v: streams(train=v), MATRIX, ("train",)),
    ("multilabel_benchmark", "images", lambda v: streams(train=(v, Y)), MATRIX, ("train", "image")),
    ("multilabel_benchmark", "labels", lambda v: streams(train=(X, v)), MATRIX, ("train", "label")),
    ("multilabel_benchmark", "test", lambda v: streams(test=v), MATRIX, ("test",)),
    ("multilabel_benchmark", "test labels", lambda v: streams(test=(X, v)), MATRIX, ("test", "label")),
    ("multilabel_benchmark", "scenario", lambda v: streams(scenario=v), MATRIX, ("scenario", "class")),
    *(
        ("multilabel_benchmark", name, lambda v, n=name: streams(**{n: v}), ANYTHING, (name, *more))
        for name, more in {
            "class_names": ("class",),
            "class_order": ("class",),
            "mode": (),
            "missing": (),
            "validation_size": (),
            "seed": (),
            "image_size": (),
            "image_cache": (),
            "train_transform": (),
            "eval_transform": (),
            "features": (),
            "on_error": (),
        }.items()
    ),
    *(
        (
            "multilabel_benchmark",
            name,
            lambda v, n=name: streams(mode="repetition", **{n: v}),
            ANYTHING,
            (name, "experience"),
        )
        for name in ("experiences", "return_chance", "images_per_class")
    ),
    ("from_csv", "labels", table, ANYTHING, ("label", "file", "read")),
    ("from_csv", "images", lambda v: from_csv("labels.csv", images=v, scenario="B1-C1"), ANYTHING,
     ("images",)),
    *(
        ("from_csv", name, lambda v, n=name: table(**{n: v}), ANYTHING, (name, "class", "label", "exper"))
        for name in ("class_names", "about", "test_size", "seed", "image_size", "train_transform",
                     "eval_transform")
    ),
    ("from_csv", "scenario", lambda v: from_csv("labels.csv", images=".", scenario=v), ANYTHING,
     ("scenario", "class")),
    *cases_of("from_table", lambda **given: from_table("labels.csv", **({"scenario": "B1-C1"} | given)),
              ["scenario", "images", "class_names", "about"], None, ("class", "exper", "label")),
    ("from_table", "table", lambda v: from_table(v, scenario="B1-C1"), MATRIX,
     ("table", "label", "file", "read", "column", "picture", "data set", "scenario")),
    ("read_table", "source", read_table, MATRIX,
     ("table", "label", "file", "read", "column", "picture", "data set")),
    ("read_table", "pictures", lambda v: read_table((v, TRUTH), class_names=NAMES), MATRIX,
     ("picture", "image")),
    ("read_table", "labels", lambda v: read_table((list("abcd"), v), class_names=NAMES), MATRIX,
     ("label", "column", "class")),
    ("read_table", "class_names", lambda v: read_table((list("abcd"), TRUTH), class_names=v), ANYTHING,
     ("class", "name")),
    ("read_table", "images", lambda v: read_table("labels.csv", images=v), ANYTHING, ("images",)),
    ("read_table", "about", lambda v: read_table("labels.csv", about=v), ANYTHING, ("about", "class")),
    ("Scenario.parse", "scenario", lambda v: Scenario.parse(v, 3), MATRIX, ("scenario", "class")),
    ("Scenario.parse", "num_classes", lambda v: Scenario.parse("B1-C1", v), ANYTHING,
     ("num_classes", "class")),
    ("Scenario.parse", "class_names", lambda v: Scenario.parse("B1-C1", class_names=v), ANYTHING,
     ("class",)),
    *cases_of("Scenario", lambda **given: Scenario(**(WHOLE | given)), WHOLE, MATRIX, ("class", "exper")),
    ("Scenario.of_annotations", "annotated", lambda v: Scenario.of_annotations(v, 3), MATRIX, ("class",)),
    ("Scenario.of_annotations", "num_classes", lambda v: Scenario.of_annotations([[0]], v), MATRIX,
     ("class",)),
    ("Scenario.of_annotations", "class_names",
     lambda v: Scenario.of_annotations([[0], [1]], 2, class_names=v), ANYTHING, ("class",)),
    ("Scenario.spread", "experiences", Scenario.parse("B1-C1", 3).spread, ANYTHING, ("experiences",)),
    ("Scenario.parse", "class_order", lambda v: Scenario.parse("B1-C1", 3, class_order=v), MATRIX,
     ("class",)),
    ("Memory", "mem_size", Memory, MATRIX, ("mem_size",)),
    ("Memory", "policy", lambda v: Memory(3, v), ANYTHING, ("policy",)),
    *(
        (f"metrics.{function.__name__}", name, call, MATRIX, ("scores", "truth", "labels", "targets"))
        for function in (M.average_precision, M.mean_average_precision, M.multilabel_scores)
        for name, call in {
            "scores": lambda v, f=function: f(v, TRUTH),
            "truth": lambda v, f=function: f(SCORES, v),
        }.items()
    ),
    ("metrics.decisions", "scores", lambda v: M.decisions(v, TRUTH, 0.5), MATRIX, ("scores", "truth")),
    ("metrics.decisions", "truth", lambda v: M.decisions(SCORES, v, 0.5), MATRIX,
     ("scores", "truth", "labels", "targets")),
    ("metrics.decisions", "threshold", lambda v: M.decisions(SCORES, TRUTH, v), ANYTHING, ("threshold",)),
    ("metrics.multilabel_scores", "thresholds", lambda v: M.multilabel_scores(SCORES, TRUTH, v), ANYTHING,
     ("threshold",)),
    ("metrics.average_precision", "ties", lambda v: M.average_precision(SCORES, TRUTH, ties=v), ANYTHING,
     ("ties",)),
    ("metrics.average_map", "history", M.average_map, MATRIX, ("history",)),
    ("metrics.forgetting", "history", M.forgetting, MATRIX, ("history",)),
    ("metrics.forgetting", "a step", lambda v: M.forgetting([v, torch.ones(3)]), MATRIX, ("history",)),
    ("read_metrics", "results", M.read_metrics, ANYTHING, ("results", "metrics")),
    ("read_metrics", "stream", lambda v: M.read_metrics({}, v), ANYTHING, ("stream",)),
    *(
        (f"losses.{name}", argument, call, MATRIX, ("logits", "targets"))
        for name, function in {
            "bce_loss": L.bce_loss,
            "cls_loss": lambda a, b: L.cls_loss(a, b, exponent=1.0),
            "akd_loss": lambda a, b: L.akd_loss(a, b, exponent=1.0),
            "er_loss": lambda a, b: L.er_loss(a, b, exponent=1.0),
        }.items()
        for argument, call in {
            "logits": lambda v, f=function: f(v, TRUTH),
            "targets": lambda v, f=function: f(SCORES, v),
        }.items()
    ),
    ("losses.cls_loss", "exponent", lambda v: L.cls_loss(SCORES, TRUTH, exponent=v), ANYTHING,
     ("exponent",)),
    ("losses.er_loss", "exponent", lambda v: L.er_loss(SCORES, TRUTH, exponent=v), ANYTHING,
     ("exponent",)),
    ("losses.bce_loss", "reduction", lambda v: L.bce_loss(SCORES, TRUTH, reduction=v), ANYTHING,
     ("reduction",)),
    ("losses.adaptive_exponent", "factor", lambda v: L.adaptive_exponent(v, 5), ANYTHING, ("factor",)),
    ("losses.adaptive_exponent", "seen_classes", lambda v: L.adaptive_exponent(1.0, v), ANYTHING,
     ("class",)),
    ("losses.posterior_from_score", "score", lambda v: L.posterior_from_score(v, 1.0), FITTING, ("score",)),
    ("losses.probability", "logits", L.probability, FITTING, ("logits",)),
    ("PartialLabelBCE", "reduction", PartialLabelBCE, ANYTHING, ("reduction",)),
    ("PartialLabelBCE", "logits", lambda v: PartialLabelBCE()(v, TRUTH), MATRIX, ("logits", "outputs")),
    ("PartialLabelBCE", "targets", lambda v: PartialLabelBCE()(SCORES, v), MATRIX,
     ("targets", "labels")),
    ("build_model", "name", build_model, ANYTHING, ("backbone", "name", "vector")),
    *(
        ("build_model", name, lambda v, n=name: build_model(**{n: v}), ANYTHING, (name, *more))
        for name, more in {
            "pretrained": (),
            "head": (),
            "bn_mode": (),
            "freeze_until": ("backbone",),
            "start_after": ("backbone",),
        }.items()
    ),
    ("build_model", "pretrained file", lambda v: build_model("test_efficientnet", pretrained=v), ANYTHING,
     ("pretrained", "weights", "file")),
    *(
        ("build_model", name, lambda v, n=name: build_model("vector", **({"in_features": 4} | {n: v})),
         SMALL, (name,))
        for name, SMALL in {"in_features": ANYTHING, "hidden_layer": ANYTHING}.items()
    ),
    ("build_model", "head option", lambda v: build_model(pooling=v), ANYTHING, ("pooling",)),
    ("build_model", "unknown option", lambda v: build_model(nonsense=v), ANYTHING, ("nonsense",)),
    ("load_run", "folder", load_run, ANYTHING, ("folder", "run")),
    ("Config.from_dict", "values", Config.from_dict, MATRIX, ("configuration", "setting")),
    *(
        ("Config.from_dict", key, lambda v, k=key: Config.from_dict({k: v}), ANYTHING, (key,))
        for key in ("benchmark", "model", "method", "training", "evaluation", "seed", "loggers")
    ),
    *(
        (
            "Config.from_dict",
            f"{section}.{key}",
            lambda v, s=section, k=key: Config.from_dict({s: {k: v}}),
            ANYTHING,
            (key, section),
        )
        for section, key in (
            ("benchmark", "name"),
            ("benchmark", "scenario"),
            ("benchmark", "image_size"),
            ("benchmark", "validation_size"),
            ("benchmark", "features"),
            ("model", "backbone"),
            ("method", "name"),
            ("method", "mem_size"),
            ("method", "alpha"),
            ("training", "epochs"),
            ("training", "batch_size"),
            ("training", "lr"),
            ("evaluation", "thresholds"),
        )
    ),
    ("RidgeLearner", "num_features", RidgeLearner, ANYTHING, ("num_features",)),
    *(
        ("RidgeLearner", name, lambda v, n=name: learner(**{n: v}), ANYTHING, (name,))
        for name in ("unknown", "threshold", "shrink", "gamma", "calibration", "weighting", "keep")
    ),
    ("RidgeLearner.learn", "vectors", lambda v: learned(vectors=v), MATRIX, ("vectors", "labels")),
    ("RidgeLearner.learn", "labels", lambda v: learned(labels=v), MATRIX, ("vectors", "labels")),
    ("RidgeLearner.learn", "images", lambda v: learned(images=v), ANYTHING, ("images",)),
    ("RidgeLearner.learn", "number", lambda v: learned(number=v), ANYTHING, ("number",)),
    *(
        (
            "multilabel_evaluator",
            name,
            lambda v, n=name: multilabel_evaluator(**{n: v}),
            ANYTHING,
            (name, "threshold"),
        )
        for name in ("thresholds", "class_names", "ties", "loggers")
    ),
    ("multilabel_evaluator", "metrics", multilabel_evaluator, ANYTHING, ("metric",)),
    ("build_optimizer", "model", build_optimizer, ANYTHING, ("model",)),
    *(
        (
            "build_optimizer",
            name,
            lambda v, n=name: build_optimizer(nn.Linear(3, 2), **{n: v}),
            ANYTHING,
            (name,),
        )
        for name in ("name", "lr", "weight_decay", "backbone_lr_scale")
    ),
    *cases_of("AKDPlugin", AKDPlugin, parameters(AKDPlugin)),
    *cases_of("OnlineRelabelPlugin", OnlineRelabelPlugin, parameters(OnlineRelabelPlugin)),
    *cases_of("RebLLPlugin", RebLLPlugin, parameters(RebLLPlugin)),
    *cases_of("SchedulePlugin", SchedulePlugin, parameters(SchedulePlugin)),
    *cases_of("RebLL", strategy, [*parameters(RebLLPlugin), *parameters(FineTuning)]),
    *cases_of("MethodStrategy", partial(strategy, MethodStrategy), parameters(FineTuning)),
    *cases_of(
        "multilabel_metrics", multilabel_metrics, parameters(M.MultiLabelMetrics), None, ("thresh",)
    ),
    *cases_of("MultiLabelScenes", MultiLabelScenes,
              ["scenario", "train_size", "test_size", "image_size", "seed"],
              {k: v for k, v in ANYTHING.items() if k != "a number"}, ("class", "experience")),
    *cases_of("VOC2007", partial(VOC2007, "B5-C3"),
              ["root", "year", "difficult", "class_names", "image_size", "train_transform",
               "eval_transform"], None, ("VOC", "class")),
    *cases_of("COCO2014", partial(COCO2014, "B5-C3"),
              ["root", "crowd", "image_size", "train_transform", "eval_transform"], None, ("COCO",)),
    ("VOC2007", "scenario", VOC2007, ANYTHING, ("scenario", "VOC")),
    ("COCO2014", "scenario", COCO2014, ANYTHING, ("scenario", "COCO")),
    ("class_range", "experience", class_range, ANYTHING, ("experience",)),
    ("last_evaluation", "evaluator", last_evaluation, ANYTHING, ("evaluat",)),
    ("get_method", "name", get_method, ANYTHING, ("method",)),
    ("register", "name", lambda v: register(v, lambda: None), ANYTHING, ("name", "method", "build")),
    ("register", "build", lambda v: register("contract-test", v), ANYTHING, ("build", "exists")),
    *cases_of("Method", lambda **given: Method(**({"label": "x", "build": RebLL} | given)),
              ["label", "build", "head", "offers"]),
    ("seed_everything", "seed", seed_everything, ANYTHING, ("seed",)),
    *cases_of("run_stream", streamed, ["strategy", "benchmark", "stream", "on_step"]),
    ("run_experiment", "watcher", lambda v: ran(watcher=v, folder="\0"), ANYTHING, ("watcher", "folder")),
    ("run_experiment", "config", ran, {k: v for k, v in ANYTHING.items() if v}, ("config",)),
    ("run_experiment", "folder", lambda v: ran(folder=v),
     {k: v for k, v in ANYTHING.items() if v is None or not isinstance(v, str)}, ("folder",)),
    ("run_experiment", "benchmark", lambda v: ran(benchmark=v),
     {k: v for k, v in ANYTHING.items() if v is not None}, ("benchmark",)),
    *cases_of("Learner", Learner, parameters(Learner), None, ("method", "training", "features", "budget")),
    *cases_of("Learner.learn", lambda **given: taught().learn(**({"table": "labels.csv"} | given)),
              ["table", "images", "about", "class_names", "on_error"], None,
              ("table", "label", "file", "read", "column", "picture", "data set", "class")),
    *cases_of("Learner.correct", lambda **given: taught().correct(**({"table": "labels.csv"} | given)),
              ["table", "images", "about"], None,
              ("table", "label", "file", "read", "column", "picture", "data set", "class")),
    *cases_of("Learner.evaluate", lambda **given: taught().evaluate(**({"table": "labels.csv"} | given)),
              ["table", "images", "about", "class_names"], None,
              ("table", "label", "file", "read", "column", "picture", "data set", "class")),
    *cases_of("Learner.forget", lambda **given: taught().forget(**given), ["images", "classes", "lesson"],
              None, ("picture", "class")),
    ("Learner.rename", "old", lambda v: taught().rename(v, "owl"), ANYTHING, ("class",)),
    ("Learner.rename", "new", lambda v: taught().rename("cat", v), ANYTHING, ("class", "name")),
    ("Learner.merge", "other", lambda v: taught().merge(v), ANYTHING, ("learner", "other")),
    *(
        (f"Learner.{name}", "pictures", lambda v, n=name: getattr(taught(), n)(v), FITTING,
         ("picture", "file", "image"))
        for name in ("predict", "scores", "ranked", "suggest")
    ),
    ("Learner.suggest", "count", lambda v: taught().suggest(list(PICTURES), v), ANYTHING, ("count",)),
    ("Learner.set_thresholds", "thresholds", lambda v: taught().set_thresholds(v), ANYTHING,
     ("threshold", "class")),
    ("Learner.set_thresholds", "a threshold", lambda v: taught().set_thresholds({"cat": v}), ANYTHING,
     ("threshold",)),
    ("Learner.choose_thresholds", "precision", lambda v: taught().choose_thresholds(v), ANYTHING,
     ("precision",)),
    ("Learner.thumbnail", "picture", lambda v: taught().thumbnail(v), ANYTHING, ("picture",)),
    ("Learner.audit", "count", lambda v: taught().audit(v), ANYTHING, ("count",)),
    ("Learner.trained_model", "name", lambda v: taught().trained_model(v), ANYTHING, ("name",)),
    ("Learner.save", "path", lambda v: taught().save(v), ANYTHING, ("path",)),
    ("Learner.load", "path", Learner.load, ANYTHING, ("path", "file", "read")),
    ("Learner.from_run", "folder", Learner.from_run, ANYTHING, ("folder", "file", "read")),
    ("Learner.from_run", "thumbnails", lambda v: Learner.from_run("nowhere", thumbnails=v), ANYTHING,
     ("thumbnails", "budget", "nowhere")),
    *cases_of("RidgeMultiLabel", fitted, parameters(RidgeMultiLabel) or ["unknown", "gamma", "calibration",
                                                                        "threshold"]),
    ("RidgeMultiLabel.fit", "X", lambda v: fitted(x=v), SHORT, SAID_BY_SKLEARN),
    ("RidgeMultiLabel.fit", "y", lambda v: fitted(y=v), FITTING, ("y", "label", "class")),
    ("RidgeMultiLabel.partial_fit", "X", lambda v: RidgeMultiLabel().partial_fit(v, Y.numpy()), SHORT,
     SAID_BY_SKLEARN),
    ("RidgeMultiLabel.partial_fit", "y", lambda v: RidgeMultiLabel().partial_fit(X.numpy(), v), FITTING,
     ("y", "label", "class")),
    ("RidgeMultiLabel.partial_fit", "classes",
     lambda v: RidgeMultiLabel().partial_fit(X.numpy(), Y.numpy(), classes=v), ANYTHING, ("name", "class")),
    *(
        (f"RidgeMultiLabel.{name}", "X", lambda v, n=name: getattr(fitted(), n)(v), SHORT,
         SAID_BY_SKLEARN)
        for name in ("predict", "predict_proba", "decision_function")
    ),
    # What only the packages below the top make public.
    *(
        case
        for name, part in parts(plugins)
        for case in cases_of(
            name, lambda p=part, **given: p(**(REQUIRED.get(p, {}) | given)), everything(part)
        )
    ),
    *(
        case
        for name, part in parts(strategies, NEED_WEIGHTS)
        for case in cases_of(name, partial(strategy, part), everything(part))
    ),
    *cases_of("GrowingLinear", lambda **given: GrowingLinear(**({"in_features": 4} | given)),
              everything(GrowingLinear)),
    *cases_of("MultiLabelModel",
              lambda **given: MultiLabelModel(**(NETWORK | given)),
              [each for each in everything(MultiLabelModel) if each != "input_mean"]),
    *cases_of("read_csv", lambda **given: read_csv(**({"path": "labels.csv"} | given)), everything(read_csv),
              None, ("label", "file", "read", "class")),
    *cases_of("AnnotationTable", annotation_table, ["splits", "pictures"],
              None, ("picture", "class", "label")),
    *cases_of("read_run", read_run, ["folder"], None, ("run",)),
    *cases_of("write_report", lambda **given: write_report(**({"runs": [], "path": "page.html"} | given)),
              ["path"], None, ("run",)),
    *cases_of("describe", describe, ["name"], None, ("method",)),
    *cases_of("training_transform", lambda **given: training_transform(**({"image_size": 8} | given)),
              everything(training_transform)),
    *cases_of("evaluation_transform", lambda **given: evaluation_transform(**({"image_size": 8} | given)),
              everything(evaluation_transform)),
    *cases_of("metric_key", lambda **given: M.metric_key(**({"name": "mAP", "stream": "test"} | given)),
              everything(M.metric_key)),
    *cases_of("multilabel_metric", M.multilabel_metric, ["evaluator"], None, ("evaluat",)),
]  # fmt: skip
# Public names that are given nothing, or nothing that could be wrong, and those that need a network.
NO_ARGUMENTS = {
    *("METHODS", "TaughtPlugin", "Teacher", "__version__", "keep_freed_memory"),
    *("Learner.undo", "Learner.qualities", "Learner.from_pretrained", "Learner.push_to_hub"),
    *(
        "RidgeMultiLabel.get_metadata_routing",
        "RidgeMultiLabel.get_params",
        "RidgeMultiLabel.score",
    ),
    *("RidgeMultiLabel.set_params", "RidgeMultiLabel.set_partial_fit_request"),
    "RidgeMultiLabel.set_score_request",
}


# They hold results, types or constants; help whoever writes a method, and get code, no data;
# or are made by other cases.
OF_PACKAGES = {
    *("Correction", "Evaluation", "Lesson", "MultiLabelScores", "ThresholdScores", "Run", "Step"),
    *("GrowingHead", "HEADS", "LanesPlugin", "Parameter", "Provenance", "composed"),
    *("adopt", "method_names", "read_runs", "share_teacher"),
    *("signature_of", "takes_also", "texts_of"),
    *("MultiLabelBenchmark", "MultiLabelMetrics", "MultiLabelTargets"),
}


def test_every_public_name_of_a_package_has_a_case():
    found = set()
    for part in Path(rebll_avalanche.__file__).parent.glob("*/__init__.py"):
        package = importlib.import_module(f"rebll_avalanche.{part.parent.name}")
        found |= set(getattr(package, "__all__", ())) - set(rebll_avalanche.__all__)
    covered = {case[0].rpartition(".")[2] for case in CASES}
    assert found - covered - set(NEED_WEIGHTS) == OF_PACKAGES


def test_every_public_name_has_a_case():
    """A new one belongs into ``CASES``, with each of its arguments."""
    public = set(rebll_avalanche.__all__)
    for owner in (Learner, RidgeMultiLabel):
        methods = inspect.getmembers(owner, callable)
        public |= {f"{owner.__name__}.{name}" for name, _ in methods if not name.startswith("_")}
    covered = {part for case in CASES for part in (case[0], case[0].split(".")[-1])}
    covered |= {case[0].split(".")[0] for case in CASES}
    assert public - covered == NO_ARGUMENTS


def entry_points():
    """Every public function, and the methods of public classes that have arguments of their own."""
    for name in sorted(set(rebll_avalanche.__all__) - NO_ARGUMENTS):
        yield name, getattr(rebll_avalanche, name)
    for owner in (Learner, RidgeMultiLabel, Scenario):
        for name, method in inspect.getmembers(owner, callable):
            full = f"{owner.__name__}.{name}"
            if not name.startswith("_") and full not in NO_ARGUMENTS:
                yield full, method


@pytest.mark.parametrize(("name", "call"), list(entry_points()))
def test_every_argument_has_a_case(name, call):
    """But for those that are true or false, which anything is, and what is passed on."""
    about = inspect.signature(call).parameters.values()
    given = {
        each.name
        for each in about
        if each.kind is not each.VAR_KEYWORD and each.annotation not in (bool, "bool")
    }
    assert given - {"self"} <= {case[1] for case in CASES if case[0] == name}


WRONG = (
    "nowhere",
    "",
    "x" * 5000,
    "a\0b",
    "empty",
    ".",
    "labels.csv",
    "a.png",
    "--nonsense",
    "/dev/null",
)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.usefixtures("a_table")
def test_wrong_arguments_of_commands_end_in_a_line(command, capsys, monkeypatch):
    Path("empty").write_text("")
    monkeypatch.setattr(
        "uvicorn.run", lambda *a, **k: pytest.fail("it must not serve this"), raising=False
    )
    for wrong in WRONG:
        harmless = command == "serve" and wrong in ("nowhere",)  # a new learner of that name
        if harmless or (command == "learn" and wrong == "nowhere"):
            continue
        for arguments in ([wrong], [wrong, wrong]):
            try:
                code = main([command, *arguments])
            except SystemExit as end:  # argparse
                code = end.code
            said = capsys.readouterr()
            assert code in (0, 1, 2), (command, arguments[0][:20])
            assert "Traceback" not in said.err + said.out
            assert len(said.err) < 3 * 5000 + LONGEST


@pytest.fixture
def a_table(tmp_path, monkeypatch):
    """A small table in the current folder, so that only the argument in question is wrong."""
    from PIL import Image

    for name in ("a.png", "b.png", "c.png", "d.png"):
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    (tmp_path / "labels.csv").write_text(GOOD_CSV)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rebll_avalanche.methods.registry.METHODS", dict(METHODS))


def broken(call, values, words):
    """What must not happen, by the name of the value."""
    found = {}
    for kind, value in values.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call(value)
        except REFUSALS as error:
            message = str(error)
            if len(message) > LONGEST:
                found[kind] = f"{len(message)} letters: {message[:100]}"
            elif not any(word in message for word in words):
                found[kind] = f"names nothing: {type(error).__name__}: {message}"
        except Exception as error:
            found[kind] = f"{type(error).__name__}: {str(error)[:200]}"
    return found


@pytest.mark.parametrize(
    ("call", "values", "words"),
    [pytest.param(*case[2:], id=f"{case[0]}-{case[1]}") for case in CASES],
)
@pytest.mark.usefixtures("a_table")
def test_it_works_or_says_which_argument_is_wrong(call, values, words):
    assert broken(call, values, words) == {}
