#!/usr/bin/env bash
# A full disk is told with the path, and costs nothing that was saved before.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

refuse_log() {
    local code=0
    "$train" "${tiny[@]}" --epochs 1 --log /dev/full >out 2>err || code=$?
    [[ $code == 1 ]] || fail "exit code $code for a log on a full device"
    [[ $(wc -l <err) == 1 ]] || fail "not one line"
    grep -q "log '/dev/full': cannot write: No space left on device" err || fail "the message"
}
refuse_log

run "${tiny[@]}" --epochs 2 --export straight.safetensors --checkpoint elsewhere.ckpt

mkdir small
if ! mount -t tmpfs -o size=7m tmpfs small 2>/dev/null; then skip "a small tmpfs cannot be mounted here"; fi
undo+=("umount '$work/small'")

# The first checkpoint (4.4 MB) fits, the second beside it does not.
code=0
"$train" "${tiny[@]}" --epochs 2 --checkpoint small/run.ckpt >out 2>err || code=$?
[[ $code == 1 ]] || fail "exit code $code on a full disk"
[[ $(wc -l <err) == 1 ]] || fail "not one line"
grep -q "small/run.ckpt" err || fail "the message does not name the path"
grep -qi "no space" err || fail "the message does not tell that the disk is full"
[[ $(ls -A small) == run.ckpt ]] || fail "there is more than the checkpoint: $(ls -A small)"
cp small/run.ckpt copy.ckpt
run --resume copy.ckpt --export resumed.safetensors
same_bits straight.safetensors resumed.safetensors "resumed from before the full disk"

# A disk that is too small from the start is noticed before the first step.
rm small/run.ckpt
head -c 5M /dev/zero >small/filler
code=0
"$train" "${tiny[@]}" --epochs 2 --checkpoint small/run.ckpt >out 2>err || code=$?
[[ $code == 1 ]] || fail "exit code $code on a disk that is too small"
if grep -q "^epoch 1" out; then fail "trained before the checkpoint was tried"; fi
[[ $(ls -A small) == filler ]] || fail "something is left on the full disk: $(ls -A small)"

# So is an export that does not fit; the old one stays.
echo old >small/weights.safetensors
code=0
"$train" "${tiny[@]}" --epochs 1 --export small/weights.safetensors >out 2>err || code=$?
[[ $code == 1 ]] || fail "exit code $code for an export that does not fit"
grep -q "small/weights.safetensors" err || fail "the message does not name the path"
[[ $(cat small/weights.safetensors) == old ]] || fail "the old export is gone"
