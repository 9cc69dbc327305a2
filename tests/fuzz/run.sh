#!/usr/bin/env bash
# Runs every fuzz target for SECONDS (60 unless told), from the kept corpus:
#   tests/fuzz/run.sh [SECONDS]
# Builds them in build/fuzz with clang's libFuzzer under the address and undefined-behaviour sanitizers. Inputs found
# on the way stay in build/fuzz/corpus; one that breaks a reader is left in build/fuzz/findings and fails the run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
seconds=${1:-60}

core/cmake/packages.sh build checks
cmake --preset fuzz
shopt -s nullglob
names=()
for source in tests/fuzz/*.cpp; do
    names+=("$(basename "$source" .cpp)")
done
if ((${#names[@]} == 0)); then
    echo "No fuzz targets"
    exit 0
fi
cmake --build --preset fuzz --target "${names[@]/#/fuzz-}"

failed=()
mkdir -p build/fuzz/findings
for name in "${names[@]}"; do
    echo "== fuzz-$name for $seconds s"
    mkdir -p "build/fuzz/corpus/$name" "tests/fuzz/corpus/$name"
    if ! "build/fuzz/tests/fuzz/fuzz-$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 \
        -print_final_stats=1 -verbosity=0 -artifact_prefix="build/fuzz/findings/$name-" \
        "build/fuzz/corpus/$name" "tests/fuzz/corpus/$name"; then
        failed+=("$name")
    fi
done
if ((${#failed[@]})); then
    echo "Fuzzing found faults: ${failed[*]}; the inputs are in build/fuzz/findings" >&2
    exit 1
fi
