#!/usr/bin/env bash
# Installs what is missing, builds everything in build/release and runs the whole test suite:
#   tests/run.sh [ctest options]      for instance: tests/run.sh -R ops/
# FULCRUM_WERROR=ON turns compiler warnings into errors.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

core/cmake/packages.sh build
cmake --preset release -DFULCRUM_WERROR="${FULCRUM_WERROR:-OFF}"
cmake --build --preset release
ctest --preset release --parallel "$(nproc)" "$@"
