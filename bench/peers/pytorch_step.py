#!/usr/bin/env python3
"""Time one training step of the study's networks in PyTorch, as bench/step does in Fulcrum.

A step is forward, cross-entropy, backward and an SGD step with momentum on one fixed batch of random images
[N, 3, 32, 32]. Prints one JSON object: every step's milliseconds, their median, images per second, peak memory and
the environment. With --compile the step goes through torch.compile (inductor); compilation happens in the warm-up, which is
timed apart. SGD is the fused one where this PyTorch has it for the CPU, as that is its fastest.
"""
import argparse
import json
import platform
import resource
import statistics
import sys
import time

import torch
from torch import nn
import torch.nn.functional as F


class SmallCnn(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.fc1 = nn.Linear(4096, 128)
        self.fc2 = nn.Linear(128, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))


def conv_bn(inputs, outputs, kernel, stride=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs)
    )


class Residual(nn.Module):
    """Basic (two 3x3) or bottleneck (1x1, 3x3, 1x1) block; the stride sits in the (first) 3x3."""

    def __init__(self, inputs, width, stride, bottleneck):
        super().__init__()
        outputs = width * 4 if bottleneck else width
        if bottleneck:
            self.parts = nn.ModuleList(
                [conv_bn(inputs, width, 1), conv_bn(width, width, 3, stride), conv_bn(width, outputs, 1)]
            )
        else:
            self.parts = nn.ModuleList([conv_bn(inputs, width, 3, stride), conv_bn(width, width, 3)])
        self.shortcut = conv_bn(inputs, outputs, 1, stride) if stride != 1 or inputs != outputs else None
        self.outputs = outputs

    def forward(self, x):
        y = x
        for part in self.parts[:-1]:
            y = F.relu(part(y), inplace=True)
        y = self.parts[-1](y)
        y += x if self.shortcut is None else self.shortcut(x)
        return F.relu(y, inplace=True)


class ResNet(nn.Module):
    def __init__(self, blocks, bottleneck, classes, stem):
        super().__init__()
        self.stem = conv_bn(3, 64, 7, 2) if stem == "imagenet" else conv_bn(3, 64, 3)
        self.pool = stem == "imagenet"
        layers, inputs = [], 64
        for stage, count in enumerate(blocks):
            for i in range(count):
                block = Residual(inputs, 64 << stage, 2 if stage > 0 and i == 0 else 1, bottleneck)
                layers.append(block)
                inputs = block.outputs
        self.layers = nn.Sequential(*layers)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = F.relu(self.stem(x), inplace=True)
        if self.pool:
            x = F.max_pool2d(x, 3, 2, 1)
        return self.fc(self.layers(x).mean((2, 3)))


def make_model(name, classes, stem):
    if name == "small_cnn":
        return SmallCnn(classes)
    if name == "resnet18":
        return ResNet((2, 2, 2, 2), False, classes, stem)
    return ResNet((3, 4, 6, 3), True, classes, stem)


def build_facts():
    """What PyTorch says of its oneDNN, its BLAS and the instructions that it uses."""
    wanted = ("MKL-DNN", "Math Kernel Library", "OpenMP", "CPU capability", "BLAS_INFO")
    lines = [line.strip(" -") for line in torch.__config__.show().splitlines()]
    facts = [line.split(":")[0] + ": BLAS_INFO=" + line.split("BLAS_INFO=")[1].split(",")[0] if "BLAS_INFO=" in line
             else line for line in lines if any(word in line for word in wanted)]
    return facts


def make_optimizer(parameters, fused):
    """SGD with momentum, and whether it is the fused one."""
    settings = {"lr": 0.01, "momentum": 0.9, "weight_decay": 5e-4}
    if fused != "off":
        try:
            return torch.optim.SGD(parameters, fused=True, **settings), True
        except (TypeError, RuntimeError):  # before 2.2 no such argument, before 2.4 not on the CPU
            if fused == "on":
                raise
    return torch.optim.SGD(parameters, **settings), False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=["small_cnn", "resnet18", "resnet50"], default="small_cnn")
    parser.add_argument("--stem", choices=["imagenet", "cifar"], default="imagenet")
    parser.add_argument("--num-classes", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--format", choices=["contiguous", "channels_last"], default="channels_last")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model and its loss")
    parser.add_argument("--fused", choices=["auto", "on", "off"], default="auto", help="the fused SGD")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=float("inf"),
                        help="warm up and measure no longer than this each, but for two and three steps at least")
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    layout = torch.channels_last if args.format == "channels_last" else torch.contiguous_format
    model = make_model(args.model, args.num_classes, args.stem).to(memory_format=layout)
    optimizer, fused = make_optimizer(list(model.parameters()), args.fused)
    images = torch.randn(args.batch_size, 3, 32, 32).to(memory_format=layout)
    labels = torch.arange(args.batch_size) % args.num_classes

    def loss_of(batch, classes):
        with torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "bf16"):
            return F.cross_entropy(model(batch), classes)

    if args.compile:
        if not hasattr(torch, "compile"):
            sys.exit(f"PyTorch {torch.__version__} has no torch.compile")
        loss_of = torch.compile(loss_of)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(images, labels)
        loss.backward()
        optimizer.step()
        return loss

    def timed_steps(count, least):
        times = []
        while len(times) < count and (len(times) < least or sum(times) < args.seconds * 1e3):
            begin = time.perf_counter()
            loss = step()
            times.append((time.perf_counter() - begin) * 1e3)
        return times, loss

    warmup, _ = timed_steps(max(1, args.warmup), 2)
    times, loss = timed_steps(args.steps, 3)
    median = statistics.median(times)
    json.dump(
        {
            "framework": "pytorch",
            "version": torch.__version__,
            "model": args.model,
            "stem": args.stem,
            "parameters": sum(p.numel() for p in model.parameters()),
            "batch_size": args.batch_size,
            "precision": args.precision,
            "format": args.format,
            "compile": args.compile,
            "fused_optimizer": fused,
            "threads": torch.get_num_threads(),
            "step_ms": [round(t, 3) for t in times],
            "warmup_ms": [round(t, 3) for t in warmup],
            "median_ms": round(median, 3),
            "images_per_second": round(args.batch_size / median * 1e3, 1),
            "loss": loss.item(),
            "peak_rss_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
            "python": platform.python_version(),
            "build": build_facts(),
        },
        sys.stdout,
    )
    print()


if __name__ == "__main__":
    main()
