"""Loaders: samples per second of weft.data and torch.utils.data, in one run.

usage: python benchmarks/loader.py [--seconds N] [--json FILE]     (with the built module on PYTHONPATH)

Both use the same datasets, including user code. Each case runs alternately for N seconds in total. Each run starts a new
epoch and does not count the first batch; the result is the fastest run. PyTorch is skipped if it is not installed. Its
workers are processes; Weft's are threads, and processes in the column weft-fork."""

import argparse
import json
import time

import numpy

import weft
import weft.data

try:
    import torch
    import torch.utils.data

    torch.set_num_threads(1)
except ImportError:
    torch = None

COUNT, CONTEXT = 20000, 256
ROUNDS = 4

generator = numpy.random.default_rng(0)
pictures = generator.integers(0, 256, (COUNT, 3, 32, 32), dtype=numpy.uint8)
labels = generator.integers(0, 10, COUNT)
tokens = generator.integers(0, 50000, COUNT * CONTEXT + 1)
MEAN = numpy.array([0.49, 0.48, 0.45], dtype="f4").reshape(3, 1, 1) * 255
DEVIATION = numpy.array([0.25, 0.24, 0.26], dtype="f4").reshape(3, 1, 1) * 255


class Pictures:
    """Padding and random crop, flip and normalisation, as in user code with NumPy."""

    def __len__(self):
        return COUNT

    def __getitem__(self, i):
        top, left, flip = numpy.random.randint(0, 9), numpy.random.randint(0, 9), numpy.random.randint(0, 2)
        padded = numpy.zeros((3, 40, 40), dtype=numpy.uint8)
        padded[:, 4:36, 4:36] = pictures[i]
        x = padded[:, top:top + 32, left:left + 32]
        if flip:
            x = x[:, :, ::-1]
        return (x - MEAN) / DEVIATION, labels[i]


class Windows:
    """Tokens, and the same shifted by one."""

    def __len__(self):
        return COUNT

    def __getitem__(self, i):
        window = tokens[i * CONTEXT:(i + 1) * CONTEXT + 1]
        return window[:-1], window[1:]


def cases(of):
    """Datasets as {name: (dataset, batch size)}; `of` is weft or torch."""
    data = weft.data if of is weft else torch.utils.data
    rows = data.TensorDataset(of.from_numpy(pictures), of.from_numpy(labels))
    windows = of.from_numpy(tokens[:-1]).reshape(COUNT, CONTEXT), of.from_numpy(tokens[1:]).reshape(COUNT, CONTEXT)
    return {"pictures, tensors": (rows, 128), "pictures, transformed in Python": (Pictures(), 128),
            "text, tensors": (data.TensorDataset(*windows), 64), "text, windows in Python": (Windows(), 64)}


def rate(loader, batch_size, seconds):
    """Samples per second after the first batch."""
    batches = iter(loader)
    next(batches)
    begun, count = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        if next(batches, None) is None:
            break
        count += batch_size
    took = time.perf_counter() - begun
    del batches
    return count / took


def loader_of(name, dataset, size, workers):
    options = {"batch_size": size, "shuffle": True, "num_workers": workers}
    if name == "torch":
        return torch.utils.data.DataLoader(dataset, **options)
    if name == "weft":
        return weft.data.DataLoader(dataset, **options)
    # TensorDatasets are gathered in C++ in this process, so the option has no effect.
    if workers == 0 or isinstance(dataset, weft.data.TensorDataset):
        return None
    return weft.data.DataLoader(dataset, **options, multiprocessing_context="fork")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--json")
    options = parser.parse_args()
    peers = {"weft": weft, "weft-fork": weft, "torch": torch}
    made = {name: cases(of) for name, of in peers.items() if of is not None}
    results = []
    print(f"{'samples a second':34}workers" + "".join(f"{name:>12}" for name in made) + "   best/torch")
    for case in made["weft"]:
        for workers in (0, 1, 2):
            rates = dict.fromkeys(made, 0.0)
            for _ in range(ROUNDS):
                for name, of in made.items():
                    dataset, size = of[case]
                    loader = loader_of(name, dataset, size, workers)
                    if loader is None:
                        continue
                    rates[name] = max(rates[name], rate(loader, size, options.seconds / ROUNDS))
            ratio = max(rates["weft"], rates["weft-fork"]) / rates["torch"] if "torch" in rates else float("nan")
            print(f"{case:34}{workers:7}" + "".join(f"{r:12,.0f}" for r in rates.values()) + f"{ratio:13.2f}x",
                  flush=True)
            results.append({"case": case, "workers": workers, **rates})
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
