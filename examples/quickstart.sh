#!/usr/bin/env bash
# From a clean checkout to a trained network: installs what is missing, builds the training program and trains the
# small CNN on CIFAR-10.
#   examples/quickstart.sh [--data FOLDER|synthetic] [--epochs N] [more options of train-cifar10]
# Images come from --data or FULCRUM_DATA, else from the official download, kept in build/cifar10; with neither data nor
# network from the synthetic set, and then every output says so.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
default_folder=$root/build/cifar10

data=${FULCRUM_DATA:-}
epochs=3
options=()
while (($#)); do
    case "$1" in
        --data | --epochs)
            if (($# < 2)); then
                echo "quickstart.sh: $1 needs a value" >&2
                exit 2
            fi
            if [[ $1 == --data ]]; then data=$2; else epochs=$2; fi
            shift 2
            ;;
        --data=*) data=${1#*=}; shift ;;
        --epochs=*) epochs=${1#*=}; shift ;;
        *) options+=("$1"); shift ;;
    esac
done

"$root/core/cmake/packages.sh" build
(
    cd "$root"
    cmake --preset release -DFULCRUM_WERROR="${FULCRUM_WERROR:-OFF}"
    cmake --build --preset release --target train-cifar10
)

if [[ -z $data ]]; then
    if "$root/data/download.sh" "$default_folder"; then
        data=$default_folder
    else
        echo "No CIFAR-10 here and no download: training on the synthetic set instead." >&2
        data=synthetic
    fi
fi
exec "$root/build/release/examples/train-cifar10" --model small_cnn --data "$data" --epochs "$epochs" "${options[@]}"
