#!/usr/bin/env python3
"""Plot training logs: test accuracy and training loss against epochs, one line per run.

usage: bench/plot_training.py OUT.svg LOG.jsonl [LOG.jsonl ...]

Reads the JSON lines that `train-cifar10 --log` writes. Runs of one network share a colour and a line style; the legend
gives the mean of their last test accuracies. Needs matplotlib (Debian: python3-matplotlib).
"""
import json
import pathlib
import statistics
import sys

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams["svg.hashsalt"] = "fulcrum"
import matplotlib.pyplot as plt

STYLES = [("#1b6ca8", "-", "o"), ("#c1440e", "--", "s"), ("#3a7d44", "-.", "^"), ("#5d3a9b", ":", "D")]


def read(path):
    lines = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]
    run = next(line for line in lines if line["type"] == "run")
    return run, [line for line in lines if line["type"] == "epoch" and line["complete"]]


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    networks = {}
    for path in sys.argv[2:]:
        run, epochs = read(path)
        networks.setdefault(run["settings"]["model"], []).append(epochs)
    figure, (accuracy, loss) = plt.subplots(1, 2, figsize=(9, 3.6), constrained_layout=True)
    for (name, runs), (color, style, marker) in zip(networks.items(), STYLES):
        last = statistics.mean(epochs[-1]["test_accuracy"] for epochs in runs)
        label = f"{name}: {last:.1%} ({len(runs)} seed{'s' if len(runs) > 1 else ''})"
        for epochs in runs:
            x = [e["epoch"] for e in epochs]
            look = {"color": color, "linestyle": style, "marker": marker, "markersize": 4, "linewidth": 1.2}
            accuracy.plot(x, [100 * e["test_accuracy"] for e in epochs], label=label, **look)
            loss.plot(x, [e["train_loss"] for e in epochs], **look)
            label = None
    accuracy.set(xlabel="epoch", ylabel="test accuracy (%)", title="CIFAR-10 test accuracy")
    loss.set(xlabel="epoch", ylabel="mean training loss", title="Training loss")
    accuracy.legend(loc="lower right", fontsize=8)
    for axes in (accuracy, loss):
        axes.grid(alpha=0.3)
        axes.xaxis.get_major_locator().set_params(integer=True)
    figure.savefig(sys.argv[1], metadata={"Date": None})


if __name__ == "__main__":
    main()
