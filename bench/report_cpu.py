#!/usr/bin/env python3
"""Turn the measurements in bench/results/cpu into the tables and the plot of README.md and docs/performance.md.

usage: bench/report_cpu.py [--check]

A table stands between the lines <!-- cpu:NAME --> and <!-- /cpu:NAME --> and is replaced; a file without the lines
is left alone, and a table whose measurements are absent stays. The plot goes to docs/images/cpu.svg. With --check
nothing is written, and the exit status tells whether a table differs from its file. The plot needs matplotlib
(Debian: python3-matplotlib).
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results" / "cpu"
# Okabe and Ito's colours, which stay apart for colour-blind readers; hatches repeat what they say.
LOOKS = [("#0072B2", ""), ("#E69F00", "//"), ("#999999", "..")]


def load(name):
    path = RESULTS / name
    return json.loads(path.read_text()) if path.exists() else None


def load_ops():
    profiles = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("ops-*.json"))]
    order = ["small_cnn", "resnet18", "resnet50"]
    return sorted(profiles, key=lambda p: (p["stem"] != "imagenet", p["precision"] != "f32",
                                           order.index(p["model"]) if p["model"] in order else len(order)))


def table(header, rows):
    """Markdown; every column but the first is a number, to the right."""
    lines = ["| " + " | ".join(header) + " |", "|---|" + "--:|" * (len(header) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def title(case):
    stem = ", CIFAR stem" if case["stem"] == "cifar" else ""
    return f"{case['model']}{stem}, {case['precision']}"


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def machine(environment, threads):
    return (f"{environment['cpu']}, {environment['cores']} cores, {threads} threads, Linux {environment['kernel']}, "
            f"commit {environment['commit'][:12]}, {environment['date'][:10]}")


def peers_of(report):
    """Newest first."""
    def version(name):
        return [int(part) for part in re.findall(r"\d+", name)]
    return sorted((peer["name"] for peer in report["peers"]), key=version, reverse=True)


def shown(peer):
    return peer.replace("pytorch", "PyTorch")


def comparison(report):
    peers = peers_of(report)
    header = ["network", "Fulcrum"]
    for peer in peers:
        header += [f"{shown(peer)}, best mode", "ratio"]
    header += ["peak MiB: Fulcrum", shown(peers[0])]
    rows = []
    for case in report["cases"]:
        if "fulcrum" not in case["arms"] or peers[0] not in case["best"]:
            continue
        row = [title(case), number(case["arms"]["fulcrum"]["images_per_second"])]
        for peer in peers:
            best = case["best"].get(peer)
            row += [number(case["arms"][best["arm"]]["images_per_second"]), f"**{best['ratio']:.2f}**"] if best else ["", ""]
        memory = case["arms"][case["best"][peers[0]]["arm"]]["peak_rss_mib"]
        rows.append(row + [f"{case['arms']['fulcrum']['peak_rss_mib']:.0f}", f"{memory:.0f}"])
    return (f"Images per second, training step, batch {report['batch_size']}; medians of {report['rounds']} alternated "
            f"rounds. {machine(report['environment'], report['threads'])}.\n\n{table(header, rows)}")


def all_arms(report):
    rows = []
    for case in report["cases"]:
        for name, figures in case["arms"].items():
            best = any(entry["arm"] == name for entry in case["best"].values())
            rows.append([title(case), shown(name) + (" (best)" if best else ""), number(figures["images_per_second"]),
                         f"{100 * figures['spread']:.1f}%", f"{figures['peak_rss_mib']:.0f}"])
        for name, reason in case["failed"].items():
            rows.append([title(case), shown(name), f"failed: {reason}", "", ""])
    return table(["network", "arm", "images/s", "spread", "peak MiB"], rows)


def roofline(profiles):
    rows = []
    for p in profiles:
        work = sum(row["floor_ms"] for row in p["rows"] if row["gflop"] > 0)
        rows.append([title(p), f"{p['gemm_peak_gflops']:.0f}", f"{p['copy_peak_gbs']:.0f}", f"{work:.1f}",
                     f"{p['roofline_ms'] - work:.1f}", f"{p['roofline_ms']:.1f}", f"{p['step_ms']:.1f}",
                     f"**{100 * p['roofline_ms'] / p['step_ms']:.0f}%**",
                     f"{100 * p['roofline_all_bytes_ms'] / p['step_ms']:.0f}%"])
    return table(["network", "GEMM peak GFLOP/s", "copy peak GB/s", "products ms", "bytes ms", "roofline ms", "step ms",
                  "reached", "reached, products' bytes counted too"], rows)


def slowest(profiles, count=8):
    parts = []
    for p in profiles:
        rows = []
        for row in p["rows"][:count]:
            speed = row["gflop"] / row["ms"] * 1e3
            part = (f"{speed:.0f} GFLOP/s, {100 * speed / p['gemm_peak_gflops']:.0f}%" if row["gflop"] > 0 else
                    f"{row['gbyte'] / row['ms'] * 1e3:.0f} GB/s, {100 * row['gbyte'] / row['ms'] * 1e3 / p['copy_peak_gbs']:.0f}%")
            rows.append([f"{row['op']} {row['layer']}", str(row["count"]), f"{row['ms']:.2f}",
                         f"{100 * row['ms'] / p['step_ms']:.1f}%", part, row["implementation"] or "one way"])
        parts.append(f"**{title(p)}**: step {p['step_ms']:.1f} ms, of which kernels "
                     f"{100 * p['kernels_ms'] / p['step_ms']:.1f}%\n\n"
                     + table(["layer", "calls", "ms", "share", "reached, of peak", "implementation"], rows))
    return "\n\n".join(parts)


def scaling(report):
    threads, rows = report["threads"], []
    for model, arms in report["scaling"].items():
        for precision in ("f32", "bf16"):
            one, many = arms.get(f"{precision} 1"), arms.get(f"{precision} {threads}")
            if not one or not many or "median" not in one or "median" not in many or threads < 2:
                continue
            gain = one["median"] / many["median"]
            serial = max(0.0, (threads / gain - 1) / (threads - 1))
            rows.append([f"{model}, {precision}", f"{one['median']:.1f}", f"{many['median']:.1f}", f"{gain:.2f}",
                         f"{100 * serial:.1f}%", f"{1 / (serial + (1 - serial) / 64):.0f}"])
    return table(["network", "1 thread, ms", f"{threads} threads, ms", "gain", "serial share",
                  "gain at 64 cores by Amdahl's law"], rows)


def busy(report):
    rows = []
    for model, arms in report["busy"].items():
        for name in arms:
            if not name.startswith("alone, "):
                continue
            waiting = name.removeprefix("alone, ")
            alone, beside = arms[name], arms.get(f"busy, {waiting}", {})
            if "median" in alone and "median" in beside:
                rows.append([f"{model}, {waiting}", f"{alone['median']:.1f}", f"{beside['median']:.1f}",
                             f"{beside['median'] / alone['median']:.2f}"])
    return table(["network, how threads wait", "alone, ms", "beside a busy process, ms", "times slower"], rows)


def startup(report):
    figures = report["startup"].get("small_cnn", {})
    if "median" not in figures:
        return None
    return (f"From process start to the end of the first step, `small_cnn` on the drawn images: "
            f"{figures['median']:.0f} ms (median of {len(figures['values'])}, {min(figures['values']):.0f} to "
            f"{max(figures['values']):.0f}).")


def plot(report, path):
    import matplotlib
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "fulcrum"
    import matplotlib.pyplot as plt

    peers = peers_of(report)
    cases = [case for case in report["cases"] if "fulcrum" in case["arms"] and peers[0] in case["best"]]
    height = 0.8 / (len(peers) + 1)
    figure, axes = plt.subplots(figsize=(8, 0.9 + 0.24 * len(cases) * (len(peers) + 1)), constrained_layout=True)
    for place, ((color, hatch), name) in enumerate(zip(LOOKS, ["Fulcrum", *peers])):
        for row, case in enumerate(cases):
            base = case["arms"][case["best"][peers[0]]["arm"]]["images_per_second"]
            arm = "fulcrum" if place == 0 else case["best"].get(name, {}).get("arm")
            if arm is None:
                continue
            speed = case["arms"][arm]["images_per_second"]
            at = row + (place - len(peers) / 2) * height
            axes.barh(at, speed / base, height, color=color, hatch=hatch, edgecolor="white", linewidth=0.5,
                      label=(name if place == 0 else f"{shown(name)}, best mode") if row == 0 else None)
            axes.annotate(f"{number(speed)} images/s", (speed / base, at), (3, 0), textcoords="offset points",
                          va="center", fontsize=7)
    axes.set_yticks(range(len(cases)), [title(case) for case in cases], fontsize=8)
    axes.invert_yaxis()
    axes.axvline(1, color="black", linewidth=0.8)
    axes.margins(x=0.18)
    axes.set_xlim(left=0)
    axes.set_xlabel(f"speed of the training step, {shown(peers[0])}'s best mode = 1")
    axes.legend(fontsize=8, loc="lower right")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    # The white page of its own keeps it readable on a dark one.
    figure.savefig(path, metadata={"Date": None}, facecolor="white")


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    step, conditions, profiles = load("step.json"), load("conditions.json"), load_ops()
    tables = {}
    if step and step.get("peers"):
        tables |= {"comparison": comparison(step), "arms": all_arms(step)}
    if profiles:
        tables |= {"roofline": roofline(profiles), "slowest": slowest(profiles)}
    if conditions:
        tables |= {"scaling": scaling(conditions), "busy": busy(conditions), "startup": startup(conditions)}
    stale = []
    for path in (ROOT / "README.md", ROOT / "docs" / "performance.md"):
        text = path.read_text()
        for name, content in tables.items():
            if content is None:
                continue
            block = re.compile(rf"(<!-- cpu:{name} -->\n).*?(<!-- /cpu:{name} -->)", re.DOTALL)
            text = block.sub(lambda found, new=content: f"{found[1]}{new}\n{found[2]}", text)
        if text != path.read_text():
            stale.append(path.name)
            if not check:
                path.write_text(text)
    if check:
        if stale:
            sys.exit(f"bench/report_cpu.py: the tables of {' and '.join(stale)} are not those of bench/results/cpu")
        print("the tables are those of bench/results/cpu")
    elif step and step.get("peers"):
        plot(step, ROOT / "docs" / "images" / "cpu.svg")


if __name__ == "__main__":
    main()
