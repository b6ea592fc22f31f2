"""Steps of every optimizer: weft compared with PyTorch's fused form, else its foreach form, in one run.

usage: python benchmarks/optimizers.py [--json FILE] [NAME...]     (with the built module on PYTHONPATH)

100 parameters of 10,000 float32 each, matrices of 100 x 100 for Adafactor and Muon. Both run alternately on one thread.
A round is a few milliseconds of steps; the result is the median of the rounds' CPU times."""

import argparse
import json
import os
import statistics
import time

os.environ["WEFT_NUM_THREADS"] = "1"

import weft  # noqa: E402

try:
    import torch

    torch.set_num_threads(1)
except ImportError:
    torch = None

ROUNDS = 21
CASES = [("SGD", {}), ("SGD", {"momentum": 0.9}), ("Adam", {}), ("AdamW", {}), ("AdamW", {"amsgrad": True}),
         ("Adamax", {}), ("NAdam", {}), ("RAdam", {}), ("Adagrad", {}), ("Adadelta", {}), ("RMSprop", {}),
         ("RMSprop", {"momentum": 0.9, "centered": True}), ("Rprop", {}), ("Lion", {}), ("Adafactor", {}), ("Muon", {})]
FUSED = ("SGD", "Adam", "AdamW", "Adagrad")


def stepper(m, name, keywords, shape):
    parameters = []
    for i in range(100):
        p = m.full(shape, 0.5 + i).requires_grad_()
        p.grad = m.full(shape, 0.25)
        parameters.append(p)
    optimizer = getattr(m.optim, name)(parameters, lr=1e-3, **keywords)
    optimizer.step()
    return optimizer.step


def timed(step, count):
    begin = time.process_time()
    for _ in range(count):
        step()
    return (time.process_time() - begin) / count


def measure(steps):
    counts = [max(1, int(0.01 / max(timed(s, 2), 1e-6))) for s in steps]
    rounds = [[timed(s, n) for s, n in zip(steps, counts)] for _ in range(ROUNDS)]
    return [statistics.median(r[i] for r in rounds) for i in range(len(steps))]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--json")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    lines = []
    for name, keywords in CASES:
        if given.names and name not in given.names:
            continue
        shape = (100, 100) if name in ("Adafactor", "Muon") else (10000,)
        steps, form = [stepper(weft, name, keywords, shape)], None
        if torch is not None and hasattr(torch.optim, name):
            form = "fused" if name in FUSED else "foreach" if name != "Muon" else "plain"
            more = {} if form == "plain" else {form: True}
            steps.append(stepper(torch, name, {**keywords, **more}, shape))
        times = measure(steps)
        label = name + "".join(f" {k}" for k in keywords)
        ratio = f"{times[1] / times[0]:6.2f}x  {form}" if len(times) > 1 else ""
        print(f"{label:28} {times[0] * 1e6:9.1f} us  {ratio}", flush=True)
        lines.append({"case": label, "weft": times[0], "torch": times[1] if len(times) > 1 else None, "form": form})
    if given.json:
        with open(given.json, "w") as file:
            json.dump(lines, file, indent=1)
