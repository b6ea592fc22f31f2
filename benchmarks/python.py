"""Cost of single calls from Python: weft compared with PyTorch and NumPy, in one run.

usage: python benchmarks/python.py [--json FILE] [--budget]     (with the built module on PYTHONPATH)

Cases are measured as in pyperf: the loop count is calibrated to a few milliseconds, the case runs alternately with its
peers, and the result is the median of the runs. CPU time is measured, to reduce the effect of other programs. Peers that
are not installed are skipped. --budget fails if weft exceeds the budget of a case, or of the size of its module."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import timeit

import numpy

import weft

try:
    import torch

    torch.set_num_threads(1)
except ImportError:
    torch = None

RUNS = 15
LARGEST = 6  # MB, without CUDA
SECONDS = 0.005

# name: statement, peers that support it, maximum nanoseconds for weft
CASES = {
    "add": ("m.add(a, b)", "weft torch numpy", 250),
    "operator +": ("a + b", "weft torch numpy", 200),
    "operator * number": ("a * 2.0", "weft torch numpy", None),
    "x[0]": ("x[0]", "weft torch numpy", 250),
    "x[1:, 0]": ("x[1:, 0]", "weft torch numpy", None),
    "exp": ("m.exp(a)", "weft torch numpy", None),
    "sum": ("x.sum()", "weft torch numpy", None),
    "reshape": ("x.reshape(16)", "weft torch numpy", None),
    "matmul 4x4": ("x @ x", "weft torch numpy", None),
    "x*y+z forward": ("p * q + r", "weft torch", None),
    "x*y+z forward and backward": ("(p * q + r).backward()", "weft torch", 2000),
}


def names_of(m):
    one = lambda v: m.ones(1, dtype=m.float32) * v  # noqa: E731
    names = {"m": m, "a": one(1), "b": one(2), "x": m.ones((4, 4), dtype=m.float32)}
    if m is not numpy:
        names.update(p=m.tensor(1.5, requires_grad=True), q=m.tensor(2.0), r=m.tensor(3.0))
    return names


def measure():
    peers = {"weft": weft, "torch": torch, "numpy": numpy}
    rows = {}
    for case, (statement, wanted, _) in CASES.items():
        timers = {n: timeit.Timer(statement, timer=time.process_time, globals=names_of(peers[n]))
                  for n in wanted.split() if peers[n]}
        loops = {}
        for name, timer in timers.items():
            count, taken = timer.autorange()
            loops[name] = max(1, int(count * SECONDS / taken))
        times = {name: [] for name in timers}
        for _ in range(RUNS):
            for name, timer in timers.items():
                times[name].append(timer.timeit(loops[name]) / loops[name] * 1e9)
        rows[case] = {name: statistics.median(t) for name, t in times.items()}
    return rows


def import_time(module):
    code = f"import time; t = time.process_time(); import {module}; print(time.process_time() - t)"
    return min(float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
               for _ in range(5)) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", help="write the figures to this file")
    parser.add_argument("--budget", action="store_true", help="fail where weft needs more than it is held to")
    options = parser.parse_args()
    rows = measure()
    peers = ["weft"] + (["torch"] if torch else []) + ["numpy"]
    print(f"{'ns per call':32}" + "".join(f"{p:>10}" for p in peers) + f"{'at most':>10}")
    over = []
    for case, row in rows.items():
        most = CASES[case][2]
        print(f"{case:32}" + "".join(f"{row[p]:10.0f}" if p in row else f"{'':10}" for p in peers) +
              (f"{most:10}" if most else ""))
        if most and row["weft"] > most:
            over.append(f"{case}: {row['weft']:.0f} ns, at most {most}")
    imports = {p: import_time(p) for p in peers}
    print(f"{'import, ms':32}" + "".join(f"{imports[p]:10.1f}" for p in peers) + f"{60:10}")
    if imports["weft"] > 60:
        over.append(f"import: {imports['weft']:.1f} ms, at most 60")
    size = os.path.getsize(weft._core.__file__)
    print(f"{'extension, MB':32}{size / 1e6:10.2f}" + f"{'':10}" * (len(peers) - 1) + f"{LARGEST:10}")
    if size > LARGEST * 1e6:
        over.append(f"extension: {size / 1e6:.2f} MB, at most {LARGEST}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump({"ns": rows, "import_ms": imports, "extension_bytes": size}, f, indent=1)
    if options.budget and over:
        sys.exit("over budget: " + "; ".join(over))


if __name__ == "__main__":
    main()
