#!/usr/bin/env bash
# Builds the release preset and sets its training step beside PyTorch's on this CPU:
#   bench/compare_cpu.sh [--python PYTHON]... [options of bench/compare_cpu.py]
# PYTHON is an interpreter that has torch; give one for each PyTorch to compare with. Without --python the peers are
# Debian's (/usr/bin/python3, package python3-torch) and the newest that pip brings, in a virtual environment under
# build/peers that is made on the first run. Figures go to bench/results/cpu/step.json.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cmake --preset release
cmake --build --preset release --target step

peers=()
if [[ " $* " != *" --python"* && " $* " != *" --help "* && " $* " != *" -h "* ]]; then
    if /usr/bin/python3 -c 'import torch' 2>/dev/null; then peers+=(--python /usr/bin/python3); fi
    venv=build/peers/newest
    if [[ ! -x $venv/bin/python ]]; then
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet torch --index-url https://download.pytorch.org/whl/cpu ||
            "$venv/bin/pip" install --quiet torch
    fi
    peers+=(--python "$venv/bin/python")
fi
exec python3 bench/compare_cpu.py --step build/release/bench/step "${peers[@]}" "$@"
