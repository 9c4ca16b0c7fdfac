"""The training of train_cifar10.py against the plain DataLoader loop, in interleaved rounds of one run.

    python benchmarks/reference_speed.py [ROUNDS]      (in a Python that has torch and torchvision)

Prints the median images a second of each way, and the ratio. "plain": PIL images, transforms one by one, a DataLoader
without workers, contiguous memory, ordinary SGD. "memory": uint8 on the device, batched augmentation, channels_last,
fused SGD. Rounds alternate, so that other work on the machine slows both.
"""

import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "envcheck", "payloads"))
import torch
import train_cifar10 as T

STEPS = 3


def ready(device):
    if device.type != "cpu":
        getattr(torch, device.type).synchronize()


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    device = T.pick_device("auto")
    train, _ = T.made_dataset()
    plain_options = T.parse(["--loader", "--workers", "0", "--steps", "10000"])
    fast_options = T.parse(["--channels-last", "--fused", "--steps", "10000"])
    ways = {
        "plain": (T.Trainer(plain_options, device, 10000), T.loader_batches(plain_options, train, device)),
        "memory": (T.Trainer(fast_options, device, 10000), T.Batches(train, device, 0, torch.float32, True)),
    }
    rates = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, (trainer, batches) in ways.items():
            chunks = [c for c in batches.order(0)[: STEPS * 128].split(128)]
            ready(device)
            begun = time.perf_counter()
            for images, labels in batches.epoch_of(chunks, 0):
                trainer.train_step(images, labels)
            ready(device)
            if number:  # the first round warms up
                rates[name].append(STEPS * 128 / (time.perf_counter() - begun))
    for name, values in rates.items():
        print(
            "%-7s %7.1f images/s (%.1f to %.1f, %d rounds)"
            % (name, statistics.median(values), min(values), max(values), len(values))
        )
    ratios = [b / a for a, b in zip(rates["plain"], rates["memory"])]
    print("ratio   %.2f (median of rounds; %.2f to %.2f)" % (statistics.median(ratios), min(ratios), max(ratios)))


if __name__ == "__main__":
    main()
