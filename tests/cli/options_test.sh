#!/usr/bin/env bash
# Every wrong command line is refused in one line, before anything is written.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$train" --help >out 2>err || fail "--help"
for option in model data epochs batch-size lr momentum weight-decay optimizer schedule warmup label-smoothing augment \
    precision device threads seed num-classes stem checkpoint resume export log eval-only deterministic; do
    grep -q -- "--$option" out || fail "--help does not tell of --$option"
done
[[ ! -s err ]] || fail "--help writes to stderr"
"$train" --version >out || fail "--version"
grep -qE '^[0-9]+\.[0-9]+\.[0-9]+$' out || fail "--version is no version"

ok=(--data synthetic --train-limit 16 --test-limit 16)

# Values, one by one.
refused 2 "--modle" --modle small_cnn
refused 2 "surplus" "${ok[@]}" surplus
refused 2 "--model: 'vgg' is not one of small_cnn, resnet18, resnet50" "${ok[@]}" --model vgg
refused 2 "--epochs: '0' is not a whole number from 1" "${ok[@]}" --epochs 0
refused 2 "--epochs: '-3'" "${ok[@]}" --epochs -3
refused 2 "--epochs: '2.5'" "${ok[@]}" --epochs 2.5
refused 2 "--epochs: '99999999999999999999'" "${ok[@]}" --epochs 99999999999999999999
refused 2 "--epochs" "${ok[@]}" --epochs
refused 2 "--epochs" "${ok[@]}" --epochs 1 --epochs 2
refused 2 "--steps: '0'" "${ok[@]}" --steps 0
for value in 0 -1 1e2 0x10 ten ''; do
    refused 2 "--batch-size: '$value'" "${ok[@]}" --batch-size "$value"
done
for value in -0.1 nan inf 1e999 fast 0.1x; do
    refused 2 "--lr: '$value' is not a number" "${ok[@]}" --lr "$value"
done
refused 2 "--momentum: '1'" "${ok[@]}" --momentum 1
refused 2 "--momentum: '-0.5'" "${ok[@]}" --momentum -0.5
refused 2 "--weight-decay: '-1e-4'" "${ok[@]}" --weight-decay -1e-4
refused 2 "--optimizer: 'lion' is not one of sgd, adam, adamw" "${ok[@]}" --optimizer lion
refused 2 "--schedule: 'linear' is not one of constant" "${ok[@]}" --schedule linear
refused 2 "--warmup: '-1'" "${ok[@]}" --warmup -1
refused 2 "--label-smoothing: '1.5'" "${ok[@]}" --label-smoothing 1.5
refused 2 "--augment: 'rotate'" "${ok[@]}" --augment rotate
refused 2 "--augment: 'crop,,flip'" "${ok[@]}" --augment crop,,flip
refused 2 "--augment: '99'" "${ok[@]}" --augment cutout=99
refused 2 "--precision: 'f16' is not f32 or bf16" "${ok[@]}" --precision f16
refused 2 "--device: 'tpu' is not one of auto, cpu, cuda" "${ok[@]}" --device tpu
refused 2 "--threads: '0'" "${ok[@]}" --threads 0
refused 2 "--threads: '100000'" "${ok[@]}" --threads 100000
refused 2 "--workers: '-1'" "${ok[@]}" --workers -1
refused 2 "--seed: '-1'" "${ok[@]}" --seed -1
refused 2 "--seed: '18446744073709551616'" "${ok[@]}" --seed 18446744073709551616
refused 2 "--num-classes: '0'" "${ok[@]}" --num-classes 0
refused 2 "--num-classes: 9 are fewer than the 10 classes" "${ok[@]}" --num-classes 9
refused 2 "--stem: 'big'" "${ok[@]}" --model resnet18 --stem big
refused 2 "--milestones: '1;2'" "${ok[@]}" --schedule multistep --milestones '1;2'
refused 2 "--gamma: '-1'" "${ok[@]}" --schedule step --gamma -1
refused 2 "--train-limit: '-1'" "${ok[@]:0:2}" --train-limit -1
refused 2 "--save-every: 'often'" "${ok[@]}" --checkpoint run.ckpt --save-every often

# Combinations.
refused 2 "--stem needs a ResNet" "${ok[@]}" --stem cifar
refused 2 "--momentum needs --optimizer sgd" "${ok[@]}" --optimizer adam --momentum 0.5
refused 2 "--nesterov needs" "${ok[@]}" --momentum 0 --nesterov
refused 2 "--milestones needs --schedule multistep" "${ok[@]}" --milestones 1,2
refused 2 "--step-size needs --schedule step" "${ok[@]}" --step-size 1
refused 2 "--gamma needs --schedule step or multistep" "${ok[@]}" --schedule cosine --gamma 0.5
refused 2 "--warmup does not go with --schedule one_cycle" "${ok[@]}" --schedule one_cycle --warmup 1
refused 2 "--warmup: 2 epochs leave nothing" "${ok[@]}" --epochs 2 --warmup 2
refused 2 "--save-every needs --checkpoint" "${ok[@]}" --save-every 5
refused 2 "--eval-only needs weights" "${ok[@]}" --eval-only
refused 2 "--export does not go with --eval-only" "${ok[@]}" --eval-only --weights w.safetensors --export e.safetensors
refused 2 "--weights and --resume" "${ok[@]}" --weights w.safetensors --resume "$0"
refused 2 "--batch-size: 16 leaves a last batch of one image .*'layer4.0.bn1'" --data synthetic --train-limit 17 \
    --test-limit 16 --batch-size 16 --model resnet18
refused 1 "no CUDA device can be used: .*--device cpu works" "${ok[@]}" --device cuda

# Images.
refused 2 "no images: give --data"
refused 2 "--data: the path is empty" --data ''
refused 1 "nowhere" --data nowhere
mkdir empty-folder
refused 1 "empty-folder" --data empty-folder
echo text >a-file
refused 1 "a-file" --data a-file
FULCRUM_DATA=$work/also-nowhere refused 1 "also-nowhere"

# Files.
refused 1 "missing.ckpt" --resume missing.ckpt
refused 1 "a-file" "${ok[@]}" --resume a-file
refused 1 "missing.safetensors" "${ok[@]}" --weights missing.safetensors
refused 1 "a-file" "${ok[@]}" --weights a-file
for option in checkpoint export log; do
    refused 2 "--$option: folder 'no/such' does not exist" "${ok[@]}" --$option no/such/file
    refused 2 "--$option: 'empty-folder' is a folder" "${ok[@]}" --$option empty-folder
    refused 2 "--$option: the path is empty" "${ok[@]}" --$option ''
done
refused 2 "not a regular file" "${ok[@]}" --checkpoint /dev/null
refused 2 "--export and --log name the same file" "${ok[@]}" --export same --log ./same
refused 2 "'a-file' exists: continue it with --resume" "${ok[@]}" --checkpoint a-file
refused 2 "--log would replace 'a-file', which --weights reads" "${ok[@]}" --weights a-file --log a-file
if [[ $EUID != 0 ]]; then
    mkdir locked
    chmod a-w locked
    refused 2 "cannot write into folder 'locked'" "${ok[@]}" --checkpoint locked/run.ckpt
fi

# Standard output that cannot be written is an error too.
code=0
"$train" --help >/dev/full 2>err || code=$?
[[ $code != 0 ]] || fail "--help to a full device succeeds"
