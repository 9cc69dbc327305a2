#!/usr/bin/env python3
"""Time Fulcrum's training step under other conditions: one thread and all, beside a busy process, from a cold start.

usage: bench/conditions_cpu.py --build build/release/bench [options]

Runs are alternated as in bench/compare_cpu.py. The runs beside a busy process keep the ordinary priority, since
the neighbour could not disturb them otherwise.
"""
import argparse
import pathlib
import shlex
import statistics
import sys

from compare_cpu import ArmError, HERE, environment_facts, run, write_whole

# How OpenMP's threads wait for each other: the default spins for milliseconds before it sleeps.
WAITING = {"default": {}, "spin 1,000 times": {"GOMP_SPINCOUNT": "1000"}, "sleep at once": {"OMP_WAIT_POLICY": "passive"}}


def medians(args, arms, rounds):
    """{name: {median and spread of the figure}} of arms (name, command, environment, figure), alternated."""
    values, failed = {}, {}
    for number in range(rounds):
        for name, command, environment, figure in arms:
            if name in failed:
                continue
            print(f"  round {number + 1} of {rounds}: {name}", file=sys.stderr, flush=True)
            try:
                values.setdefault(name, []).append(run(command, environment, args.timeout)[figure])
            except ArmError as error:
                failed[name] = str(error)
    return {name: {"failed": failed[name]} if name in failed else
            {"median": statistics.median(v), "spread": (max(v) - min(v)) / statistics.median(v), "values": v}
            for name, v in values.items()} | {name: {"failed": why} for name, why in failed.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="the folder of the benchmark programs")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--models", nargs="+", default=["small_cnn", "resnet18", "resnet50"])
    parser.add_argument("--prefix", default="", help="put before the commands of an undisturbed run")
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("--out", default=str(HERE / "results" / "cpu" / "conditions.json"))
    args = parser.parse_args()

    build = pathlib.Path(args.build)
    prefix = shlex.split(args.prefix)
    report = {"environment": environment_facts(), "threads": args.threads, "rounds": args.rounds,
              "scaling": {}, "busy": {}, "startup": {}}
    for model in args.models:
        step = [str(build / "step"), "--model", model, "--seconds", str(args.seconds), "--steps", "30"]
        arms = [(f"{precision} {threads}", [*prefix, *step, "--precision", precision, "--threads", str(threads)], {},
                 "median_ms") for precision in ("f32", "bf16") for threads in (1, args.threads)]
        report["scaling"][model] = medians(args, arms, args.rounds)
        arms = [(f"{where}, {waiting}", [*step, "--threads", str(args.threads), *option], environment, "median_ms")
                for waiting, environment in WAITING.items() for where, option in (("alone", []), ("busy", ["--busy"]))]
        report["busy"][model] = medians(args, arms, args.rounds)
        write_whole(args.out, report)
    # A prefix that waits for its turn would count as a part of the start.
    start = ["sh", "-c", '"$0" "$@"; exit $?', str(build / "startup"), "--threads", str(args.threads)]
    report["startup"] = medians(args, [("small_cnn", [*prefix, *start], {}, "total_ms")], 3 * args.rounds)
    write_whole(args.out, report)


if __name__ == "__main__":
    main()
