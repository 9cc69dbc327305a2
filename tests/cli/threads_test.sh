#!/usr/bin/env bash
# The program runs exactly the threads it was told to, and their number changes results in the last bits at most.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

options=(--data synthetic --train-limit 88 --test-limit 50 --batch-size 16 --epochs 2000)

# tasks EXPECTED ENVIRONMENT ARGUMENTS: how many threads a run is seen with most of the time. (OpenMP replaces threads
# when it changes the size of a team, so a single look may find one more or less.)
tasks() {
    local expected=$1 environment=$2 usual pid i
    shift 2
    rm -f run.jsonl counts
    env "$environment" "$train" "${options[@]}" "$@" --log run.jsonl >out 2>err &
    pid=$!
    undo+=("kill -9 $pid 2>/dev/null")
    for ((i = 0; i < 600; ++i)); do
        if grep -q '"type":"epoch"' run.jsonl 2>/dev/null; then break; fi
        sleep 0.05
    done
    for ((i = 0; i < 15; ++i)); do
        find /proc/$pid/task -mindepth 1 -maxdepth 1 | wc -l >>counts
        sleep 0.02
    done
    kill -9 $pid
    wait $pid 2>/dev/null || true
    usual=$(sort counts | uniq -c | sort -rn | awk 'NR == 1 { print $2 }')
    ((usual == expected)) || fail "$usual threads instead of $expected with $environment $*"
}
# One more waits for Ctrl-C.
tasks 2 A=B --threads 1
tasks 3 A=B --threads 2
tasks 4 A=B --threads 3
tasks 3 OMP_NUM_THREADS=2
tasks 2 OMP_NUM_THREADS=1
tasks 2 OMP_NUM_THREADS=3 --threads 1
tasks 5 A=B --threads 1 --workers 2

first_loss() {
    rm -f run.jsonl
    run "${options[@]}" "$@" --steps 1 --log run.jsonl
    sed -n 's/.*"type":"epoch".*"train_loss":\([^,]*\),.*/\1/p' run.jsonl
}
one=$(first_loss --threads 1)
two=$(first_loss --threads 2)
awk -v a="$one" -v b="$two" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(a > 0 && d <= 1e-5 * a) }' ||
    fail "first losses $one with one thread and $two with two"
[[ $(first_loss --threads 2) == "$two" ]] || fail "two threads do not repeat their bits"
