#!/usr/bin/env bash
# Measures everything that docs/performance.md tells about this CPU, and writes the document's tables and plot anew:
#   bench/measure_cpu.sh [--threads N] [--prefix COMMAND] [--quick] [--python PYTHON]...
#     --prefix   put before each timed command, for instance 'chrt -f 10' where other work cannot be stopped
#     --quick    one round of short runs, without torch.compile and the slow CIFAR stems: for trying it out
# Takes about two hours, ten minutes with --quick. Leave the machine alone meanwhile. Results: bench/results/cpu/*.json.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

threads=$(lscpu -p=core,socket | grep -v '^#' | sort -u | wc -l)
prefix=() seconds=8 compare=() conditions=()
cases=("small_cnn imagenet f32" "small_cnn imagenet bf16" "resnet18 imagenet f32" "resnet18 imagenet bf16"
    "resnet50 imagenet f32" "resnet50 imagenet bf16" "resnet18 cifar f32" "resnet18 cifar bf16"
    "resnet50 cifar f32" "resnet50 cifar bf16")
while (($#)); do
    case $1 in
        --threads) threads=$2 && shift ;;
        --prefix) read -ra prefix <<<"$2" && compare+=(--prefix "$2") && conditions+=(--prefix "$2") && shift ;;
        --python) compare+=(--python "$2") && shift ;;
        --quick)
            seconds=2
            compare+=(--rounds 1 --seconds 2 --no-compile --cases small_cnn resnet18 resnet50 small_cnn:imagenet:bf16
                resnet18:imagenet:bf16 resnet50:imagenet:bf16)
            conditions+=(--rounds 1 --seconds 2)
            cases=("${cases[@]:0:6}")
            ;;
        *)
            sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
            exit 2
            ;;
    esac
    shift
done

cmake --preset release
cmake --build --preset release --target ops startup step
for case in "${cases[@]}"; do
    read -r model stem precision <<<"$case"
    echo "ops: $case"
    "${prefix[@]}" build/release/bench/ops --model "$model" --stem "$stem" --precision "$precision" --threads "$threads" \
        --seconds "$seconds" --json "bench/results/cpu/ops-$model-$stem-$precision.json" >/dev/null
done
python3 bench/conditions_cpu.py --build build/release/bench --threads "$threads" "${conditions[@]}"
bench/compare_cpu.sh --threads "$threads" "${compare[@]}"
bench/report_cpu.py
