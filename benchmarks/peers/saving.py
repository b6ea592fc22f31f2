"""Saving and loading compared with safetensors and NumPy, alternating in one process: medians in seconds.

usage: PYTHONPATH=build/release/python python benchmarks/peers/saving.py [--gigabytes 2] [--rounds 5] [--folder /tmp]

Requires torch and safetensors. Every loaded element is read once, so that mapping a file does not count as loading it;
another column has the time of the mapping alone. The files are in the system's cache, as after a save.
"""

import argparse
import os
import statistics
import tempfile
import time

import numpy as np
import safetensors.numpy
import safetensors.torch
import torch

import weft


def timed(action):
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", default=tempfile.gettempdir())
    options = parser.parse_args()
    count = max(1, int(options.gigabytes * 2**30 / (64 * 2**20)))
    arrays = {f"layer.{i}.weight": np.full((4096, 4096), i, np.float32) for i in range(count)}
    tensors = {name: torch.from_numpy(a) for name, a in arrays.items()}
    ours = {name: weft.from_numpy(a) for name, a in arrays.items()}
    path = os.path.join(options.folder, f"weft-saving-{os.getpid()}.")

    def read(values, total):
        return [total(v) for v in values.values()]

    save = {"weft": lambda: weft.io.save_file(ours, path + "weft"),
            "safetensors.torch": lambda: safetensors.torch.save_file(tensors, path + "torch"),
            "safetensors.numpy": lambda: safetensors.numpy.save_file(arrays, path + "numpy")}
    open_ = {"weft": lambda: weft.io.load_file(path + "weft"),
             "safetensors.torch": lambda: safetensors.torch.load_file(path + "torch"),
             "safetensors.numpy": lambda: safetensors.numpy.load_file(path + "numpy")}
    total = {"weft": lambda t: t.numpy().sum(), "safetensors.torch": lambda t: t.numpy().sum(),
             "safetensors.numpy": lambda t: t.sum()}
    seconds = {kind: {name: [] for name in save} for kind in ("save", "load", "load and read")}
    try:
        for _ in range(options.rounds):
            for name, action in save.items():
                seconds["save"][name].append(timed(action)[0])
            for name, action in open_.items():
                opening, values = timed(action)
                reading, _ = timed(lambda: read(values, total[name]))
                seconds["load"][name].append(opening)
                seconds["load and read"][name].append(opening + reading)
                del values
    finally:
        for suffix in ("weft", "torch", "numpy"):
            if os.path.exists(path + suffix):
                os.remove(path + suffix)
    print(f"{count * 64} MiB in {count} tensors, medians of {options.rounds}")
    for kind, by_name in seconds.items():
        medians = {name: statistics.median(times) for name, times in by_name.items()}
        print(f"{kind:14}" + "".join(f"  {name} {t:.3f} ({t / medians['weft']:.2f} x)" for name, t in medians.items()))


if __name__ == "__main__":
    main()
