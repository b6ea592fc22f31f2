"""Random calls of PyTorch and Weft side by side.

usage: python beside_pytorch.py [--count N] [--seed S] [--only TEXT] [--show N]     (with PyTorch; written for 2.15)

Draws N calls from calls.txt, evenly over its lines, and compares results, dtypes, shapes and gradients. A result that is
nearer to PyTorch's own in 64 bits than PyTorch's is counted as right; so is a call that PyTorch does not implement.
different.py lists the differences that docs/from_pytorch.md documents. Status 1 if there is another one."""

import argparse
import collections
import pathlib
import sys
import warnings

import torch

import weft

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from answer import answer  # noqa: E402
from different import documented  # noqa: E402
from draw import draw, lines  # noqa: E402
from judge import compare  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=100000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="lines of calls.txt that contain this text")
    parser.add_argument("--show", type=int, default=2, help="differences shown for a line")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    table = [line for line in lines(pathlib.Path(__file__).parent / "calls.txt") if options.only in line]
    counted, found = collections.Counter(), collections.defaultdict(list)
    for i in range(options.count):
        line = table[i % len(table)]
        call = draw(line, options.seed + i // len(table))
        ours = answer(weft, call)
        outcomes = list(compare(call, ours, answer(torch, call), lambda: answer(torch, call, wide=True)))
        told = [(what, text) for what, text in outcomes if text and not documented(call, what, text, ours)]
        counted.update(["different" if told else "documented" if any(text for _, text in outcomes) else
                        outcomes[0][0] if outcomes and outcomes[0][0] in ("both refuse", "not implemented in PyTorch") else "agree"])
        found[line] += [(call, what, text) for what, text in told]
        if i % 5000 == 4999:
            print(f"{i + 1} of {options.count} calls", file=sys.stderr)
    for line, differing in found.items():
        if differing:
            print(f"\n{line}: {len(differing)}")
            for call, what, text in sorted(differing, key=lambda d: len(str(d[0])))[:options.show]:
                print(f"  {what}: {text}\n    {call}")
    print("\n" + ", ".join(f"{name} {count}" for name, count in counted.most_common()))
    return 1 if counted["different"] else 0


if __name__ == "__main__":
    sys.exit(main())
