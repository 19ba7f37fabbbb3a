"""Add RebLL to an existing strategy: here Avalanche's Naive."""

import torch
from avalanche.training import Naive

from rebll_avalanche import (
    MultiLabelScenes,
    PartialLabelBCE,
    RebLLPlugin,
    build_model,
    multilabel_evaluator,
    read_metrics,
)

benchmark = MultiLabelScenes("B5-C3", train_size=600, test_size=300)
model = build_model("small_cnn")
strategy = Naive(
    model=model,
    optimizer=torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0),
    criterion=PartialLabelBCE(),  # ignores labels that are not annotated
    train_mb_size=64,
    train_epochs=2,
    eval_mb_size=256,
    plugins=[RebLLPlugin(mem_size=40)],
    evaluator=multilabel_evaluator(),
)
for train_experience, test_experience in zip(
    benchmark.train_stream, benchmark.test_stream, strict=True
):
    strategy.train(train_experience)
    metrics = read_metrics(strategy.eval([test_experience]))
    print(f"{model.num_classes} classes: mAP {metrics['mAP']:.3f}, FPR {metrics['FPR@0.5']:.3f}")
