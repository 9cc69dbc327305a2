#!/usr/bin/env bash
# Runs what README and docs tell a reader to run, as written:
#   docs/check.sh [FILE.md ...]
# Blocks marked ```sh run in order, in one shell per file, from the root of the repository; a block right after the line
# <!-- not run --> is left out. Blocks marked ```cpp in a file that begins with <!-- one program --> are joined to one
# program, which is compiled against build/release and run. Needs that build (cmake --preset release && cmake --build
# --preset release), or another that FULCRUM_BUILD names.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
build=$(cd "${FULCRUM_BUILD:-build/release}" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/fulcrum-docs.XXXXXX")
trap 'rm -rf "$work"' EXIT

# blocks LANGUAGE FILE: the lines of the blocks in that language.
blocks() {
    awk -v fence="\`\`\`$1" '
        /^<!-- not run -->$/ { skip = 1; next }
        !inside && $0 == fence { inside = 1; next }
        !inside && /^```/ { inside = 2; skip = 0; next }
        inside && /^```$/ { if (inside == 1) skip = 0; inside = 0; print ""; next }
        inside == 1 && !skip { print }' "$2"
}

run_commands() {
    blocks sh "$1" >"$work/commands.sh"
    grep -q '[^[:space:]]' "$work/commands.sh" || return 0
    echo "---- commands of $1"
    rm -rf build/first # what the documents write, from an earlier run
    bash -euo pipefail -x "$work/commands.sh"
}

run_program() {
    [[ $(head -n 1 "$1") == "<!-- one program -->" ]] || return 0
    echo "---- program of $1"
    {
        blocks cpp "$1" | grep '^#include'
        echo "int main() try {"
        blocks cpp "$1" | grep -v '^#include'
        echo "} catch (const std::exception& error) { std::printf(\"%s\\n\", error.what()); return 1; }"
    } >"$work/program.cpp"
    mkdir -p "$work/build"
    cat >"$work/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(docs LANGUAGES CXX)
find_package(fulcrum REQUIRED)
add_executable(program program.cpp)
target_link_libraries(program PRIVATE fulcrum::fulcrum)
CMAKE
    cmake --install "$build" --prefix "$work/installed" >/dev/null
    cmake -S "$work" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/installed" >/dev/null
    cmake --build "$work/build"
    (cd "$work" && build/program)
}

files=("$@")
((${#files[@]})) || files=(README.md docs/*.md)
for file in "${files[@]}"; do
    run_commands "$file"
    run_program "$file"
done
echo "---- the commands of ${files[*]} run as written"
