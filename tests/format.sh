#!/usr/bin/env bash
# Checks that every source file is formatted as .clang-format says:
#   tests/format.sh [--fix]
# Versions of clang-format differ in details; the project's is 14 (Debian 12), and another one only reports.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tool=$(command -v clang-format-14 || command -v clang-format || true)
if [[ -z $tool ]]; then
    echo "format.sh: no clang-format here (package clang-format)" >&2
    exit 1
fi
mapfile -t files < <(git ls-files '*.h' '*.cpp')
if [[ ${1:-} == --fix ]]; then
    exec "$tool" -i "${files[@]}"
fi
if "$tool" --dry-run --Werror "${files[@]}"; then
    echo "${#files[@]} files are formatted"
elif [[ $("$tool" --version) == *" version 14."* ]]; then
    echo "format.sh: run tests/format.sh --fix" >&2
    exit 1
else
    echo "format.sh: differences, but this is not clang-format 14: not counted" >&2
fi
