# What the script tests of the programs share. A test is called with the folder of the programs:
#   NAME_test.sh FOLDER
# and runs in a folder of its own, which is removed at the end.
set -euo pipefail

bin=$(cd "$1" && pwd)
train=$bin/train-cifar10
unset FULCRUM_DATA
work=$(mktemp -d "${TMPDIR:-/tmp}/fulcrum-cli.XXXXXX")
trap 'cleanup' EXIT
cd "$work"

# Things to undo before the folder goes, newest first.
undo=()
cleanup() {
    local i
    for ((i = ${#undo[@]} - 1; i >= 0; --i)); do
        eval "${undo[i]}" || true
    done
    cd /
    rm -rf "$work"
}

fail() {
    echo "FAILED: $*" >&2
    for file in out err; do
        if [[ -s $work/$file ]]; then
            echo "--- $file" >&2
            tail -n 20 "$work/$file" >&2
        fi
    done
    exit 1
}

skip() {
    echo "SKIPPED: $*"
    exit 77
}

# A run of a few steps that takes about a second: 88 images in batches of 16, the last one of 8.
tiny=(--data synthetic --train-limit 88 --test-limit 50 --batch-size 16 --threads 1 --momentum 0.9 --lr 0.02)

# run ARGUMENTS: train-cifar10 must succeed; its output is in out and err.
run() {
    "$train" "$@" >out 2>err || fail "exit code $? of train-cifar10 $*"
}

# refused CODE PATTERN ARGUMENTS: train-cifar10 must end with CODE, tell why in one line that matches PATTERN, and leave
# the folder as it was.
refused() {
    local code=$1 pattern=$2 before after got=0
    shift 2
    rm -f out err
    before=$(find . -mindepth 1 -printf '%p %s\n' | sort)
    "$train" "$@" >"$work.out" 2>"$work.err" || got=$?
    after=$(find . -mindepth 1 -printf '%p %s\n' | sort)
    mv "$work.out" out
    mv "$work.err" err
    [[ $got == "$code" ]] || fail "exit code $got instead of $code of train-cifar10 $*"
    [[ $(wc -l <err) == 1 ]] || fail "not one line on stderr of train-cifar10 $*"
    grep -qE -- "^train-cifar10: .*$pattern" err || fail "no '$pattern' in the message of train-cifar10 $*"
    [[ $before == "$after" ]] || fail "files changed by the refused train-cifar10 $*"
}

# losses LOG: what each complete epoch of a log reached, to the last bit: epoch, rate, training loss and accuracy, test loss
# and accuracy.
losses() {
    local field number='\([^,]*\)' pattern='.*"type":"epoch","epoch":\([0-9]*\),"complete":true'
    for field in learning_rate train_loss train_accuracy test_loss test_accuracy; do
        pattern+=".*\"$field\":$number"
    done
    sed -n "s/$pattern,.*/\\1 \\2 \\3 \\4 \\5 \\6/p" "$1"
}

same_bits() {
    cmp -s "$1" "$2" || fail "$1 and $2 differ: $3"
}
