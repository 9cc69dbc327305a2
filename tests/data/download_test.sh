#!/usr/bin/env bash
# Runs data/download.sh against an archive made here, through file:// and, where python3 is there, a local server.
# usage: tests/data/download_test.sh
set -euo pipefail

script=$(cd "$(dirname "$0")/../../data" && pwd)/download.sh
readonly script
readonly official=c32a1d4ab5d03f1284b67883e8d87530
work=$(mktemp -d)
server=""
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
cd "$work"

grep -q "^readonly md5=$official\$" "$script" || { echo "FAILED: the script does not check the official md5"; exit 1; }
command -v curl > /dev/null || { echo "skipped: curl is not installed"; exit 77; }

# A small archive of the official layout, and a copy of the script that knows its md5 instead.
mkdir -p made/cifar-10-batches-bin
for file in data_batch_1 data_batch_2 data_batch_3 data_batch_4 data_batch_5 test_batch; do
    head -c 61460 /dev/urandom > "made/cifar-10-batches-bin/$file.bin"
done
printf 'airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n' > made/cifar-10-batches-bin/batches.meta.txt
tar -czf cifar.tar.gz -C made cifar-10-batches-bin
sed "s/$official/$(md5sum < cifar.tar.gz | cut -d ' ' -f 1)/" "$script" > download.sh
size=$(wc -c < cifar.tar.gz)
export FULCRUM_CIFAR10_URL="file://$work/cifar.tar.gz"
unset FULCRUM_DATA

check() { # check WHAT COMMAND...: the command must succeed
    local what=$1
    shift
    "$@" || { echo "FAILED: $what"; cat log; exit 1; }
    echo "ok: $what"
}
run() { bash download.sh "$@" > log 2>&1; }
refuse() { ! run "$@"; }
says() { grep -q -- "$1" log; }
same() { diff -r made/cifar-10-batches-bin "$1/cifar-10-batches-bin" && [ "$(ls -A "$1")" = cifar-10-batches-bin ]; }

check "a fresh folder gets the set" run new
check "and nothing else" same new
FULCRUM_CIFAR10_URL=file:///nowhere check "a second run touches no network" run new
FULCRUM_CIFAR10_URL=file:///nowhere check "nor does one that names the folder of the files" run new/cifar-10-batches-bin
FULCRUM_DATA=$work/env check "FULCRUM_DATA names the folder" run
check "which holds the set" same env

mkdir half && head -c $((size / 2)) cifar.tar.gz > half/cifar-10-binary.tar.gz.part
check "a download goes on where it stopped" run half
check "and is whole" same half
mkdir all && cp cifar.tar.gz all/cifar-10-binary.tar.gz.part
check "a download that only lacked its check is taken" run all
check "and is whole" same all
mkdir long && { cat cifar.tar.gz; echo rubbish; } > long/cifar-10-binary.tar.gz.part
check "a part that is too long is fetched anew" run long
check "and is whole" same long
mkdir own && cp cifar.tar.gz own/cifar-10-binary.tar.gz
FULCRUM_CIFAR10_URL=file:///nowhere check "an archive put there by hand is unpacked without a network" run own
check "and is whole" same own

mkdir bad && head -c $((size / 2)) /dev/zero > bad/cifar-10-binary.tar.gz.part
check "a damaged archive is refused" refuse bad
check "by its md5" says "md5 is not"
check "and not unpacked" test ! -e bad/cifar-10-batches-bin
check "and the next run starts anew" run bad
check "and is whole" same bad

FULCRUM_CIFAR10_URL=http://127.0.0.1:9/cifar.tar.gz check "no network is an error" refuse offline
check "that tells the way out" says "--data synthetic"
mkdir keep && head -c 1000 cifar.tar.gz > keep/cifar-10-binary.tar.gz.part
FULCRUM_CIFAR10_URL=http://127.0.0.1:9/cifar.tar.gz check "no network on the way is an error" refuse keep
check "and what has come is kept" test "$(wc -c < keep/cifar-10-binary.tar.gz.part)" -eq 1000

mkdir -p other/cifar-10-batches-bin && echo mine > other/cifar-10-batches-bin/notes
check "a folder with something else is left alone" refuse other
check "and named" says "move it away"
check "and intact" test "$(cat other/cifar-10-batches-bin/notes)" = mine
mkdir killed && mkdir -p killed/.unpack-abc/cifar-10-batches-bin
check "what a killed run left behind is swept" run killed
check "and the set is whole" same killed
echo > file
check "a file in place of the folder is an error" refuse file
check "an unknown option is an error" refuse --frobnicate
check "two folders are an error" refuse a b
check "help is given" run --help
check "with the usage" says "usage: data/download.sh"

if command -v python3 > /dev/null; then
    python3 -u -m http.server --bind 127.0.0.1 0 > server.log 2>&1 &
    server=$!
    for _ in $(seq 100); do grep -q 'port [0-9]' server.log && break; sleep 0.1; done
    port=$(sed -n 's/.*port \([0-9]*\).*/\1/p' server.log | head -1)
    export FULCRUM_CIFAR10_URL="http://127.0.0.1:$port/cifar.tar.gz"
    check "the set comes through HTTP" run http
    check "and is whole" same http
    mkdir stubborn && head -c $((size / 2)) cifar.tar.gz > stubborn/cifar-10-binary.tar.gz.part
    check "a server that cannot resume sends it anew" run stubborn
    check "and is whole" same stubborn
    FULCRUM_CIFAR10_URL=${FULCRUM_CIFAR10_URL}x check "a page that is not there is an error" refuse missing
    if command -v wget > /dev/null; then
        mkdir bin
        for tool in bash cut cat flock grep gzip head ls md5sum mkdir mktemp mv rm sed tar wc wget; do
            ln -s "$(command -v $tool)" bin/
        done
        PATH=$work/bin check "wget serves where there is no curl" run wget
        check "and is whole" same wget
    fi
fi
echo "all passed"
