"""Your own pictures: from a CSV file to a strategy that learns them a few classes at a time.

    python examples/own_images.py labels.csv photos B5-C5

Each row of the CSV file has a file name and its labels, such as ``street.jpg,car;person``. Without
arguments some drawn pictures are written to a temporary folder and used instead.
"""

import sys
import tempfile
from pathlib import Path

import torch

from rebll_avalanche import MultiLabelScenes, RebLL, build_model, from_csv, read_metrics

with tempfile.TemporaryDirectory() as folder:
    if len(sys.argv) == 4:
        labels, images, scenario = sys.argv[1:]
    else:
        MultiLabelScenes(train_size=400, test_size=100).write_csv(folder)
        labels, images, scenario = Path(folder, "labels.csv"), Path(folder, "images"), "B5-C5"
    benchmark = from_csv(labels, images=images, scenario=scenario, image_size=48)
    model = build_model("small_cnn")
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    strategy = RebLL(
        model=model, optimizer=optimizer, mem_size=40, train_mb_size=32, train_epochs=4
    )
    for train, test in zip(benchmark.train_stream, benchmark.test_stream, strict=True):
        strategy.train(train)
        metrics = read_metrics(strategy.eval([test]))
        learned = ", ".join(benchmark.class_names[: model.num_classes])
        print(f"mAP {metrics['mAP']:.3f} on {learned}")
