#!/usr/bin/env python3
"""Public headers compile in any order, with their templates instantiated after them.

usage: header_orders.py COMPILER INCLUDE_FOLDER PROGRAM HEADER...

All of them in random orders, the same in each run; and each one that programs include beside <weft/weft.hpp>, or with
WEFT_TEST_LARGE every one, before the program.
"""
import concurrent.futures
import functools
import os
import pathlib
import random
import re
import subprocess
import sys

compiler, include, program, *headers = sys.argv[1:]
root = pathlib.Path(include, "weft").resolve()


@functools.cache
def includes(path):
    names = re.findall(r'^#include "([^"]+)"', path.read_text(), re.M)
    return [p for p in (pathlib.Path(os.path.normpath(path.parent / name)) for name in names) if p.exists()]


def brought_by(header):
    """All headers of Weft that come along with this one, itself included."""
    found, left = set(), [root / header]
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += includes(path)
    return found


def outermost():
    """Headers that <weft/weft.hpp> does not include, except those that another of them includes and internal ones."""
    inner = ("autograd/", "backends/", "bench", "tensor/")
    rest = {h: brought_by(h) for h in headers if root / h not in brought_by("weft.hpp") and not h.startswith(inner)}
    return [h for h in rest if not any(root / h in brought for other, brought in rest.items() if other != h)]


def orders():
    for seed in range(2):
        yield random.Random(seed).sample(headers, len(headers))
    yield from ([h] for h in (headers if os.environ.get("WEFT_TEST_LARGE") else outermost()))


def check(order):
    text = "".join(f"#include <weft/{h}>\n" for h in order) + f'#include "{program}"\n'
    done = subprocess.run([compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-Wno-unused-result", "-fsyntax-only", f"-I{include}", "-x",
                           "c++", "-"], input=text, capture_output=True, text=True)
    if done.returncode != 0:
        lines = "\n".join(done.stderr.splitlines()[:20])
        print(f"headers in the order {' '.join(order[:8])} … do not compile:\n{lines}")
    return done.returncode == 0


with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    fit = list(pool.map(check, orders()))
print(f"{len(headers)} headers in {len(fit)} orders")
sys.exit(not all(fit))
