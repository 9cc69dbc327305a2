#!/usr/bin/env bash
# A run that was stopped, in whatever way, and continued ends with the bits of the run that never was.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Draws from every source of randomness and state: order, augmentation, momentum, a moving rate.
run_options=("${tiny[@]}" --epochs 3 --augment crop,flip --schedule cosine --warmup 0.5 --label-smoothing 0.1 --seed 7)
run "${run_options[@]}" --export straight.safetensors --log straight.jsonl --checkpoint straight.ckpt
grep -q SYNTHETIC out || fail "the output does not say that the images are synthetic"
[[ $(wc -l <straight.jsonl) == 4 ]] || fail "the log has not one line for the run and three for the epochs"
head -n 1 straight.jsonl | grep -q '"type":"run".*"synthetic":true.*"environment":' || fail "first line of the log"
[[ $(losses straight.jsonl | wc -l) == 3 ]] || fail "losses of three epochs"

# The same seed again: the same losses, the same weights; another seed: others.
run "${run_options[@]}" --export again.safetensors --log again.jsonl
same_bits straight.safetensors again.safetensors "the same seed"
[[ $(losses straight.jsonl) == "$(losses again.jsonl)" ]] || fail "the same seed gave other losses"
run "${run_options[@]:0:${#run_options[@]}-1}" 8 --export other.safetensors
if cmp -s straight.safetensors other.safetensors; then fail "the seed changes nothing"; fi

# Stopped after every possible step, epoch boundaries (6, 12) among them; the settings come from the checkpoint.
for steps in 1 5 6 7 12 17 18; do
    rm -f run.ckpt run.jsonl
    run "${run_options[@]}" --steps $steps --checkpoint run.ckpt --log run.jsonl
    run --resume run.ckpt --export resumed.safetensors --log run.jsonl
    same_bits straight.safetensors resumed.safetensors "stopped after step $steps"
    [[ $(losses straight.jsonl) == "$(losses run.jsonl)" ]] || fail "log of the run stopped after step $steps"
    same_bits straight.ckpt run.ckpt "checkpoint of the run stopped after step $steps"
done
cp run.ckpt finished.ckpt

# A drop of the rate comes at its epoch, wherever the run was continued.
steps_options=("${tiny[@]:0:${#tiny[@]}-2}" --lr 0.1 --schedule multistep --milestones 4 --epochs 6)
for steps in 6 12 18 24 30; do
    rm -f run.ckpt run.jsonl
    run "${steps_options[@]}" --steps $steps --checkpoint run.ckpt --log run.jsonl
    run --resume run.ckpt --log run.jsonl
    rates=$(losses run.jsonl | awk '{ printf "%.4g ", $2 }')
    [[ $rates == "0.1 0.1 0.1 0.1 0.01 0.01 " ]] || fail "rates $rates of the run stopped after step $steps"
done

# A finished run has nothing left; its weights can still be exported.
run --resume finished.ckpt --export once-more.safetensors
same_bits straight.safetensors once-more.safetensors "a finished run resumed"

# Worker threads change nothing.
run "${run_options[@]}" --workers 2 --export workers.safetensors
same_bits straight.safetensors workers.safetensors "two loader workers"

# Settings that would change the run are refused, others are taken.
run "${run_options[@]}" --steps 7 --checkpoint fixed.ckpt
refused 2 "other settings: --lr 0.5 \(there 0.02\)" --resume fixed.ckpt --lr 0.5
refused 2 "--epochs 9 \(there 3, and the cosine schedule depends on it\)" --resume fixed.ckpt --epochs 9
refused 2 "--batch-size 8 \(there 16\), --seed 1 \(there 7\)" --resume fixed.ckpt --batch-size 8 --seed 1
run --resume fixed.ckpt --lr 0.02 --workers 1 --export taken.safetensors
same_bits straight.safetensors taken.safetensors "settings repeated on resume"
run --resume fixed.ckpt --epochs 3

# Ctrl-C finishes the step, saves, tells how to go on, and ends with code 3.
long_options=("${tiny[@]}" --epochs 3000 --augment crop,flip --seed 7)
"$train" "${long_options[@]}" --checkpoint stopped.ckpt --log stopped.jsonl >out 2>err &
pid=$!
undo+=("kill -9 $pid 2>/dev/null")
for ((i = 0; i < 600; ++i)); do
    if grep -q '"type":"epoch"' stopped.jsonl 2>/dev/null; then break; fi
    sleep 0.05
done
kill -INT $pid
code=0
wait $pid || code=$?
[[ $code == 3 ]] || fail "exit code $code after SIGINT"
grep -q -- "--resume stopped.ckpt --log stopped.jsonl" out || fail "no word on how to resume"
grep -q "once more to end at once" err || fail "no word on a second Ctrl-C"
step=$(sed -n 's/^stopped after step \([0-9]*\).*/\1/p' out)
run --resume stopped.ckpt --steps $((step + 9)) --export a.safetensors
run "${long_options[@]}" --steps $((step + 9)) --export b.safetensors
same_bits a.safetensors b.safetensors "resumed after SIGINT"

# A damaged checkpoint is refused, wherever it is cut or changed.
size=$(stat -c %s fixed.ckpt)
for part in 0 1 2 3 4 5 6 7 8 9; do
    head -c $((size * part / 10)) fixed.ckpt >cut.ckpt
    refused 1 "cut.ckpt" --resume cut.ckpt
done
for place in 3 100 $((size / 2)) $((size - 1)); do
    cp fixed.ckpt changed.ckpt
    byte=$(od -An -tu1 -j "$place" -N 1 fixed.ckpt | tr -d ' ')
    printf "\\x$(printf %02x $((byte ^ 1)))" | dd of=changed.ckpt bs=1 seek="$place" conv=notrunc status=none
    refused 1 "changed.ckpt" --resume changed.ckpt
done
