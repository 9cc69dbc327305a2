#!/usr/bin/env bash
# Testing counts every image once, whatever the batch size, and agrees with what training reported.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

data=(--data synthetic --train-limit 96 --test-limit 672 --threads 1)
# What changes the training images leaves those of the test alone: the tests below know nothing of it.
run "${data[@]}" --batch-size 32 --epochs 2 --augment crop,flip,cutout --checkpoint run.ckpt --export w.safetensors --log run.jsonl
reported=$(losses run.jsonl | tail -n 1 | cut -d ' ' -f 5,6)

# tested ARGUMENTS: prints "loss correct".
tested() {
    run "$@" --eval-only
    sed -n 's/^test loss \([0-9.]*\)  test accuracy [0-9.]*% (\([0-9]*\) of 672).*/\1 \2/p' out
}
whole=$(tested --resume run.ckpt --batch-size 672)
[[ -n $whole ]] || fail "no result of the evaluation"
for size in 1 100; do
    part=$(tested --resume run.ckpt --batch-size $size)
    awk -v a="$whole" -v b="$part" 'BEGIN {
        split(a, x); split(b, y); d = x[1] - y[1]; if (d < 0) d = -d
        exit !(x[2] == y[2] && d <= 2e-6 * x[1])
    }' || fail "batch size $size gives $part, 672 gives $whole"
done
awk -v a="$whole" -v b="$reported" 'BEGIN {
    split(a, x); split(b, y); d = x[1] - y[1]; if (d < 0) d = -d
    exit !(x[2] / 672 == y[2] && d <= 2e-6 * x[1])
}' || fail "evaluation gives $whole, training reported $reported"

# The exported weights say the same; what does not fit them is refused.
[[ $(tested "${data[@]}" --weights w.safetensors --batch-size 672) == "$whole" ]] || fail "exported weights"
refused 1 "w.safetensors" "${data[@]}" --weights w.safetensors --model resnet18 --eval-only
refused 1 "w.safetensors" "${data[@]}" --weights w.safetensors --num-classes 1000 --eval-only

# A head wider than the data has classes is fine.
run "${data[@]}" --num-classes 1000 --batch-size 96 --epochs 1 --export wide.safetensors
# So is a batch larger than the set, and bf16.
run "${data[@]}" --batch-size 5000 --epochs 1 --precision bf16
