#!/usr/bin/env bash
# A batch that does not fit into memory is one line that tells the way out, not a crash.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

for size in 4000 20000; do # the activations do not fit, not even the first ones
    code=0
    (
        ulimit -v 1500000
        "$train" --data synthetic --train-limit $size --test-limit 16 --batch-size $size --threads 1 >out 2>err
    ) || code=$?
    [[ $code == 1 ]] || fail "exit code $code"
    [[ $(wc -l <err) == 1 ]] || fail "not one line"
    grep -qE "no memory for a request of .*smaller batch" err || fail "the message"
done
