#!/usr/bin/env python3
"""Set Fulcrum's training step beside PyTorch's on this CPU: the same work, alternated runs, medians.

usage: bench/compare_cpu.py --step build/release/bench/step --python PYTHON [--python PYTHON ...] [options]

Each --python is an interpreter that has torch, and one peer. Each round runs every arm once, one after the other, so
that a machine whose speed drifts treats all alike. A peer's arms are: eager and torch.compile, in both memory formats,
with the C library's malloc as it is and told to keep its memory ("tuned", which saves PyTorch page faults that
Fulcrum's caching allocator never has). What a peer has to compile is compiled before the rounds. An arm that fails or
takes too long is recorded with its reason and left out of the later rounds. An arm's figure is the median over the
rounds, the spread is (largest - smallest) / median, and the ratio is taken against the peer's best arm.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TUNED = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "4294967296", "MALLOC_TOP_PAD_": "268435456"}
CASES = ["small_cnn", "resnet18", "resnet50", "small_cnn:imagenet:bf16", "resnet18:imagenet:bf16",
         "resnet50:imagenet:bf16", "resnet18:cifar", "resnet18:cifar:bf16", "resnet50:cifar", "resnet50:cifar:bf16"]


class ArmError(Exception):
    """An arm that could not run, and why."""


def run(command, environment, timeout):
    """The JSON object that the command prints last."""
    try:
        result = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True,
                                timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise ArmError(f"took more than {timeout:.0f} s") from None
    except OSError as error:
        raise ArmError(str(error)) from None
    if result.returncode != 0:
        lines = result.stderr.strip().splitlines() or [f"exit status {result.returncode}"]
        raise ArmError(lines[-1][:300])
    try:
        return json.loads(result.stdout.splitlines()[-1])
    except (IndexError, json.JSONDecodeError):
        raise ArmError("printed no JSON object") from None


def arms(args, model, stem, precision, peers, cache):
    """(name, peer, command, environment, compiled) of each way to run a case; ours has no peer."""
    common = ["--model", model, "--stem", stem, "--precision", precision, "--batch-size", str(args.batch_size),
              "--threads", str(args.threads)]
    yield "fulcrum", None, [args.step, *common], {}, False
    for peer in peers:
        script = [peer["python"], str(HERE / "peers" / "pytorch_step.py"), *common]
        for layout in ("contiguous", "channels_last"):
            for malloc, environment in (("default", {}), ("tuned", TUNED)):
                name = f"{peer['name']} {layout} {malloc}"
                yield name, peer["name"], [*script, "--format", layout], environment, False
            if args.compile and peer["compile"]:
                yield (f"{peer['name']} compile {layout} tuned", peer["name"],
                       [*script, "--format", layout, "--compile"], {**TUNED, "TORCHINDUCTOR_CACHE_DIR": cache}, True)


def describe_peers(pythons):
    """Name, versions and abilities of each peer; one that does not start is told and left out."""
    probe = ("import json, torch; print(json.dumps({'version': torch.__version__, 'compile': hasattr(torch, 'compile'),"
             " 'config': torch.__config__.show()}))")
    peers, refused = [], []
    for python in pythons:
        try:
            facts = run([python, "-c", probe], {}, 300)
        except ArmError as error:
            print(f"{python}: {error}", file=sys.stderr)
            refused.append({"python": pathlib.Path(python).name, "reason": str(error)})
            continue
        name = f"pytorch {facts['version'].split('+')[0]}"
        peers.append({"name": name, "python": python, **facts})
    return peers, refused


def first_line(command):
    try:
        result = subprocess.run(command, capture_output=True, text=True, cwd=HERE, check=False)
    except OSError:
        return "unknown"
    return (result.stdout.splitlines() or ["unknown"])[0]


def environment_facts():
    cpu, flags = platform.processor(), []
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            cpu = value.strip()
        if key.strip() == "flags":
            flags = [flag for flag in value.split() if flag.startswith(("avx", "amx", "fma", "f16c", "sse4"))]
    memory = next(line for line in pathlib.Path("/proc/meminfo").read_text().splitlines() if "MemTotal" in line)
    pages = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "cpu": cpu, "flags": flags, "cores": os.cpu_count(), "memory_kib": int(memory.split()[1]),
            "kernel": platform.release(), "libc": " ".join(platform.libc_ver()),
            "transparent_huge_pages": pages.read_text().strip() if pages.exists() else "unknown",
            "load_average": os.getloadavg(),
            "omp": {key: value for key, value in os.environ.items() if key.startswith(("OMP_", "GOMP_", "KMP_"))},
            "commit": first_line(["git", "rev-parse", "HEAD"]),
            "modified": first_line(["git", "status", "--porcelain", "--untracked-files=no"]) != "unknown",
            "malloc_tuned": TUNED}


def write_whole(path, report):
    """All of the file or none of it."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=path.name, delete=False) as file:
        file.write(json.dumps(report, indent=1) + "\n")
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def summarise(runs):
    speeds = [r["images_per_second"] for r in runs]
    return {"images_per_second": statistics.median(speeds), "spread": (max(speeds) - min(speeds)) / statistics.median(speeds),
            "step_ms": statistics.median(r["median_ms"] for r in runs),
            "peak_rss_mib": statistics.median(r["peak_rss_mib"] for r in runs)}


def measure(args, case, peers, cache):
    parts = case.split(":")
    model, stem, precision = parts + ["imagenet", "f32"][len(parts) - 1:]
    runs, failed = {}, {}
    todo = list(arms(args, model, stem, precision, peers, cache))
    once = ["--warmup", "1", "--steps", "1", "--seconds", "0"]
    for name, _, command, environment, compiled in todo:
        if not compiled:
            continue
        print(f"  compiling for {name}", file=sys.stderr, flush=True)
        try:
            run([*command, *once], environment, args.compile_timeout)
        except ArmError as error:
            failed[name] = str(error)
    length = ["--warmup", str(args.warmup), "--steps", str(args.steps), "--seconds", str(args.seconds)]
    for number in range(args.rounds):
        for name, _, command, environment, _ in todo:
            if name in failed:
                continue
            print(f"  round {number + 1} of {args.rounds}: {name}", file=sys.stderr, flush=True)
            try:
                runs.setdefault(name, []).append(
                    run([*shlex.split(args.prefix), *command, *length], environment, args.timeout))
            except ArmError as error:
                failed[name] = str(error)
    results = {name: summarise(done) for name, done in runs.items() if done and name not in failed}
    best = {}
    for name, peer, *_ in todo:
        if peer in (p["name"] for p in peers) and name in results:
            if peer not in best or results[name]["images_per_second"] > results[best[peer]]["images_per_second"]:
                best[peer] = name
    ours = results.get("fulcrum")
    ratios = {peer: {"arm": name, "ratio": ours["images_per_second"] / results[name]["images_per_second"],
                     "peak_rss_ratio": ours["peak_rss_mib"] / results[name]["peak_rss_mib"]}
              for peer, name in best.items()} if ours else {}
    return {"model": model, "stem": stem, "precision": precision, "load_average": os.getloadavg(), "arms": results,
            "best": ratios, "failed": failed, "runs": runs}


def print_case(case):
    title = f"{case['model']} {case['stem']} {case['precision']}"
    ours = case["arms"].get("fulcrum")
    for name, figures in case["arms"].items():
        ratio = f"{ours['images_per_second'] / figures['images_per_second']:9.2f}" if ours else ""
        mark = " best" if name in (entry["arm"] for entry in case["best"].values()) else ""
        print(f"{title:26}{name:44}{figures['images_per_second']:10.0f}{figures['spread']:9.1%}"
              f"{figures['peak_rss_mib']:9.0f}{ratio}{mark}", flush=True)
    for name, reason in case["failed"].items():
        print(f"{title:26}{name:44}    failed: {reason}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step", required=True, help="the bench/step binary")
    parser.add_argument("--python", action="append", default=[], help="a Python that has torch; may be repeated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=15, help="timed steps of a run, at most")
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10, help="time of a run's warm-up, and of its timed steps")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--cases", nargs="+", default=CASES, help="model[:stem[:precision]]")
    parser.add_argument("--no-compile", dest="compile", action="store_false", help="leave torch.compile out")
    parser.add_argument("--timeout", type=float, default=300, help="seconds that a run may take")
    parser.add_argument("--compile-timeout", type=float, default=1200, help="seconds that torch.compile may take")
    parser.add_argument("--prefix", default="", help="put before each timed command, for instance 'chrt -f 10'")
    parser.add_argument("--out", default=str(HERE / "results" / "cpu" / "step.json"), help="the JSON file to write")
    args = parser.parse_args()

    peers, refused = describe_peers(args.python)
    report = {"command": " ".join(["bench/compare_cpu.sh", "--rounds", str(args.rounds), "--steps", str(args.steps),
                                   "--seconds", f"{args.seconds:g}", "--threads", str(args.threads),
                                   "--batch-size", str(args.batch_size), "--cases", *args.cases]),
              "environment": environment_facts(), "threads": args.threads, "batch_size": args.batch_size,
              "rounds": args.rounds, "steps": args.steps, "seconds": args.seconds,
              "peers": [{key: value for key, value in peer.items() if key != "python"} for peer in peers],
              "refused_peers": refused, "cases": []}
    print(f"{'network':26}{'arm':44}{'images/s':>10}{'spread':>9}{'RSS MiB':>9}{'ours/it':>9}")
    with tempfile.TemporaryDirectory(prefix="fulcrum-inductor.") as cache:
        for case in args.cases:
            report["cases"].append(measure(args, case, peers, cache))
            print_case(report["cases"][-1])
            write_whole(args.out, report)


if __name__ == "__main__":
    main()
