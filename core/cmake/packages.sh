#!/usr/bin/env bash
# Installs what fulcrum is built from on Debian and Ubuntu, where it is not there yet:
#   core/cmake/packages.sh [build] [checks]
#     build    the compiler, CMake and the libraries, for everything that the release preset builds (the default)
#     checks   clang with its sanitizers, fuzzer and OpenMP, and clang-format
# Touches neither apt nor the network when everything is there; uses sudo only when not root.
set -euo pipefail

packages=()
for group in "${@:-build}"; do
    case "$group" in
        build)
            packages+=(g++ cmake ninja-build libdnnl-dev libeigen3-dev libfmt-dev nlohmann-json3-dev libcli11-dev
                catch2 curl ca-certificates)
            ;;
        checks) packages+=(clang libclang-rt-dev libomp-dev clang-format) ;;
        *)
            echo "packages.sh: unknown group '$group' (build, checks)" >&2
            exit 2
            ;;
    esac
done

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "packages.sh: no apt here; the configuration step will say what is missing. Debian's names of what is" >&2
    echo "needed: ${packages[*]}" >&2
    exit 0
fi

missing=()
for package in "${packages[@]}"; do
    if [[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" != installed ]]; then
        missing+=("$package")
    fi
done
if ((${#missing[@]} == 0)); then
    exit 0
fi

as_root=()
if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
        echo "packages.sh: neither root nor sudo; have an administrator run" >&2
        echo "    apt-get install ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi
echo "Installing with apt: ${missing[*]}"
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
