#!/usr/bin/env bash
# Killed at random moments while it saves after every step, a run always leaves a checkpoint to continue from, and ends
# with the bits of the run that was never killed. FULCRUM_KILLS sets how many kills (12).
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

kills=${FULCRUM_KILLS:-12}
run_options=("${tiny[@]}" --epochs 4 --augment crop,flip --save-every 1)
run "${run_options[@]}" --checkpoint straight.ckpt --export straight.safetensors --log straight.jsonl

begun=$(date +%s%N)
run --resume straight.ckpt
startup=$((($(date +%s%N) - begun) / 1000000))  # milliseconds of a start without training

count=0
finished=0
while ((count < kills || finished == 0)); do
    if [[ -f run.ckpt ]]; then
        command=(--resume run.ckpt)
    else
        command=("${run_options[@]}" --checkpoint run.ckpt)
    fi
    "$train" "${command[@]}" --export killed.safetensors --log run.jsonl >out 2>err &
    pid=$!
    if ((count < kills)); then
        delay=$((RANDOM % (startup + 400)))
        sleep "$(printf '%d.%03d' $((delay / 1000)) $((delay % 1000)))"
        if kill -9 $pid 2>/dev/null; then count=$((count + 1)); fi
    fi
    code=0
    wait $pid 2>/dev/null || code=$?
    if ((code == 0)); then
        same_bits straight.safetensors killed.safetensors "after $count kills"
        [[ $(losses straight.jsonl) == "$(losses run.jsonl)" ]] || fail "the log of a killed run"
        [[ -z $(find . -name '*.tmp') ]] || fail "temporary files are left"
        finished=$((finished + 1))
        rm -f run.ckpt run.jsonl killed.safetensors
    elif ((code != 137)); then
        fail "exit code $code after $count kills"
    fi
done
echo "$count kills, $finished runs finished"
