#!/usr/bin/env python3
"""Set Fulcrum's training step beside PyTorch's on this CPU: the same work, alternated runs, medians.

usage: bench/compare_cpu.py --step build/release/bench/step [--python PYTHON] [--rounds N] [--out FILE]

Each round runs every arm once, one after the other, so that a machine whose speed drifts treats all alike. PyTorch
runs in both memory formats, with the C library's malloc as it is and told to keep its memory (which saves it page
faults that Fulcrum's caching allocator never has). An arm's figure is the median over the rounds; a ratio is
taken against the peer's best arm.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TUNED = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "4294967296", "MALLOC_TOP_PAD_": "268435456"}


def run(command, environment):
    result = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stderr.strip()}")
    return json.loads(result.stdout.splitlines()[-1])


def arms(args, model, stem, precision):
    common = ["--model", model, "--stem", stem, "--precision", precision, "--batch-size", str(args.batch_size),
              "--threads", str(args.threads), "--steps", str(args.steps)]
    yield "fulcrum", [args.step, *common], {}
    peer = [args.python, str(HERE / "peers" / "pytorch_step.py"), *common]
    for layout in ("contiguous", "channels_last"):
        for name, environment in (("", {}), (" tuned", TUNED)):
            yield f"pytorch {layout}{name}", [*peer, "--format", layout], environment


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--step", required=True, help="the bench/step binary")
    parser.add_argument("--python", default=sys.executable, help="a Python that has torch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--cases", nargs="+", default=["small_cnn", "resnet18", "resnet50"],
                        help="model[:stem[:precision]]")
    parser.add_argument("--out", help="write all figures to this JSON file")
    args = parser.parse_args()

    report = {"cpu": cpu_name(), "cores": os.cpu_count(), "threads": args.threads, "batch_size": args.batch_size,
              "rounds": args.rounds, "kernel": platform.release(), "cases": []}
    print(f"{'network':28}{'arm':32}{'images/s':>10}{'spread':>9}{'RSS MiB':>9}{'ours/it':>9}")
    for case in args.cases:
        parts = case.split(":")
        model, stem, precision = parts + ["imagenet", "f32"][len(parts) - 1:]
        results = {}
        for _ in range(args.rounds):
            for name, command, environment in arms(args, model, stem, precision):
                results.setdefault(name, []).append(run(command, environment))
        speed = {name: statistics.median(r["images_per_second"] for r in runs) for name, runs in results.items()}
        best = max(value for name, value in speed.items() if name != "fulcrum")
        for name, runs in results.items():
            values = [r["images_per_second"] for r in runs]
            spread = (max(values) - min(values)) / speed[name]
            memory = statistics.median(r["peak_rss_mib"] for r in runs)
            print(f"{model + ' ' + stem + ' ' + precision:28}{name:32}{speed[name]:10.0f}{spread:9.1%}{memory:9.0f}"
                  f"{speed['fulcrum'] / speed[name]:9.2f}", flush=True)
        report["cases"].append({"model": model, "stem": stem, "precision": precision, "images_per_second": speed,
                                "ratio_to_best_peer": speed["fulcrum"] / best, "runs": results})
    if args.out:
        pathlib.Path(args.out).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
