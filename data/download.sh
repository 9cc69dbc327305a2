#!/usr/bin/env bash
# Fetches CIFAR-10 (binary version, 162 MiB) and unpacks it, checked, into DIR/cifar-10-batches-bin.
#
# usage: data/download.sh [DIR]        DIR: where the data go; by default FULCRUM_DATA, else ./cifar10
#
# May be interrupted and started again at any time: the download goes on where it stopped, and the folder appears
# only when everything in it is whole. When it is there already nothing is done and no network is touched.
# Needs curl or wget, and tar. FULCRUM_CIFAR10_URL names another place of the archive; its md5 must be the official
# one.
set -euo pipefail

readonly md5=c32a1d4ab5d03f1284b67883e8d87530
readonly url=${FULCRUM_CIFAR10_URL:-https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz}
readonly folder=cifar-10-batches-bin
readonly files="data_batch_1.bin data_batch_2.bin data_batch_3.bin data_batch_4.bin data_batch_5.bin test_batch.bin"

fail() {
    echo "download.sh: $*" >&2
    exit 1
}

# True when every file of the set is in $1, holds whole records, and is named as CIFAR-10.
complete() {
    local file size
    for file in $files; do
        [ -f "$1/$file" ] || return 1
        size=$(wc -c < "$1/$file")
        { [ "$size" -gt 0 ] && [ $((size % 3073)) -eq 0 ]; } || return 1
    done
    [ ! -f "$1/batches.meta.txt" ] || grep -q '^airplane' "$1/batches.meta.txt"
}

# True when the set is in DIR already, which may also be the folder of the files itself.
present() {
    local place
    for place in "$dir" "$dir/$folder"; do
        if complete "$place"; then
            echo "CIFAR-10 is in $place"
            return 0
        fi
    done
    return 1
}

intact() {
    [ -f "$1" ] && [ "$(md5sum < "$1")" = "$md5  -" ]
}

# Fetches the rest of the archive into $1. \return 0 when the transfer ended well, 2 when what is there cannot be gone
# on from, 1 when the archive cannot be had.
fetch() {
    local answer status=0
    if command -v curl > /dev/null; then
        answer=$(curl --fail --location --retry 2 --connect-timeout 10 --speed-time 60 --speed-limit 1 --progress-bar \
            --write-out '%{http_code}' --continue-at - --output "$1" "$url") || status=$?
        # 33 and 36: the server cannot resume; 416: there is nothing after what we have.
        if [ $status -eq 33 ] || [ $status -eq 36 ] || [ "$answer" = 416 ]; then return 2; fi
    elif command -v wget > /dev/null; then
        wget --continue --tries=2 --dns-timeout=10 --connect-timeout=10 --read-timeout=60 --no-verbose \
            --output-document="$1" "$url" || status=$?
    else
        fail "needs curl or wget: apt-get install curl"
    fi
    [ $status -eq 0 ] || return 1
}

case ${1:-} in
    -h | --help)
        sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"
        exit 0
        ;;
    -*) fail "unknown option $1 (usage: data/download.sh [DIR])" ;;
esac
[ $# -le 1 ] || fail "takes one folder, not $# (usage: data/download.sh [DIR])"
readonly dir=${1:-${FULCRUM_DATA:-cifar10}}

if present; then exit 0; fi
mkdir -p "$dir" || fail "cannot make the folder $dir"
[ -w "$dir" ] || fail "cannot write into the folder $dir"
# One download at a time; whoever waited finds the set there.
exec 9< "$dir"
flock 9
if present; then exit 0; fi
[ ! -e "$dir/$folder" ] || fail "$dir/$folder is there but holds no complete CIFAR-10: move it away, then run this again"

readonly archive=$dir/cifar-10-binary.tar.gz
readonly part=$archive.part
if ! intact "$archive"; then
    echo "Fetching $url"
    status=0
    fetch "$part" || status=$?
    if [ $status -eq 2 ] && ! intact "$part"; then
        echo "Starting anew"
        rm -f "$part"
        status=0
        fetch "$part" || status=$?
    fi
    if ! intact "$part"; then
        [ $status -eq 0 ] || fail "cannot fetch $url (no network?); what has come is kept, and the next run goes on" \
            "from there. Without a network use --data synthetic"
        rm -f "$part"
        fail "the archive's md5 is not $md5: it was damaged on its way, or $url is another archive;" \
            "it was removed, run this again"
    fi
    mv -f "$part" "$archive"
fi

# Unpacked beside its place and moved there in one step.
rm -rf "$dir"/.unpack-*
fresh=$(mktemp -d "$dir/.unpack-XXXXXX")
trap 'rm -rf "$fresh"' EXIT
tar -xzf "$archive" -C "$fresh" || fail "cannot unpack $archive into $dir (disk full?)"
complete "$fresh/$folder" || fail "$archive does not hold the six files of $folder"
mv -T "$fresh/$folder" "$dir/$folder"
rm -f "$archive"
echo "CIFAR-10 is in $dir/$folder"
