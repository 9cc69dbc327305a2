#!/usr/bin/env bash
# SIGINT and SIGTERM reach no thread but the one that waits for them: generated matrix kernels use the stack pointer as
# an ordinary register, and a signal's frame on the stack of a thread that computes would destroy what it points to.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# begin ARGUMENTS: starts train-cifar10 as $pid.
begin() {
    "$train" "$@" >out 2>err &
    pid=$!
    undo+=("kill -9 $pid 2>/dev/null")
}

# until_true COMMAND: waits for it to succeed, a minute at most.
until_true() {
    local i
    for ((i = 0; i < 1200; ++i)); do
        if "$@" 2>/dev/null; then return; fi
        sleep 0.05
    done
    fail "waited for: $*"
}

# open_threads: prints the threads of $pid that SIGINT or SIGTERM could interrupt, one a line. A thread that waits for
# signals shows them open, though they are blocked before and after.
open_threads() {
    local task blocked mask=$(((1 << 2 - 1) | (1 << 15 - 1)))
    for task in /proc/"$pid"/task/*; do
        blocked=$(sed -n 's/^SigBlk:[[:space:]]*//p' "$task/status" 2>/dev/null) || true
        [[ -n $blocked ]] || continue # the thread has ended
        if (((16#$blocked & mask) != mask)); then echo "${task##*/}"; fi
    done
}

one_is_open() {
    local open
    open=$(open_threads)
    [[ -n $open && $open != *$'\n'* && $open != "$pid" ]]
}

# The threads of OpenMP and of the loaders start after the signals are blocked, and inherit that.
begin --data synthetic --train-limit 88 --test-limit 50 --batch-size 16 --epochs 100000 --threads 3 --workers 2 \
    --augment crop,flip --log run.jsonl
until_true grep -q '"type":"epoch"' run.jsonl
for ((i = 0; i < 20; ++i)); do
    threads=(/proc/"$pid"/task/*)
    ((${#threads[@]} >= 6)) || fail "only ${#threads[@]} threads"
    one_is_open || fail "SIGINT or SIGTERM is open in these of ${#threads[@]} threads: $(open_threads | xargs)"
done

# Each of them asks for an end after the step, with the same exit code.
for signal in INT TERM; do
    if [[ $signal == TERM ]]; then
        begin "${tiny[@]}" --epochs 100000 --log term.jsonl
        until_true grep -q '"type":"epoch"' term.jsonl
    fi
    kill -$signal $pid
    code=0
    wait $pid || code=$?
    [[ $code == 3 ]] || fail "exit code $code after SIG$signal"
    grep -q "once more to end at once" err || fail "no word on a second SIG$signal"
done

# A program that never comes to a step, since nobody reads its log, ends at the second one, whichever it is.
mkfifo unread
for signal in INT TERM; do
    begin "${tiny[@]}" --epochs 1 --log unread
    until_true one_is_open
    kill -INT $pid
    until_true grep -q "once more to end at once" err
    kill -$signal $pid
    code=0
    wait $pid || code=$?
    ((code == 128 + $(kill -l $signal))) || fail "exit code $code after SIGINT and SIG$signal"
done
