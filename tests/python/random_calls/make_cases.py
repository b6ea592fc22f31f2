"""Records PyTorch's answers to a few random calls of each line of calls.txt, so that the tests need no PyTorch.

usage: python make_cases.py     (with PyTorch; written for 2.15)

Kept are the first two small calls of a line whose answer PyTorch does not change when it computes in 64 bits."""

import json
import pathlib
import sys
import warnings

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from answer import answer  # noqa: E402
from draw import draw, lines  # noqa: E402
from judge import compare  # noqa: E402

CASES_OF_A_LINE, TRIES, MOST_ELEMENTS = 2, 12, 40


def is_exact(call, got):
    """Whether PyTorch's answer is that of its computation in 64 bits, but for dtypes."""
    return all(text is None or ": dtype " in text for _, text in compare(call, got, answer(torch, call, wide=True)))


def plain_numbers(value):
    """Complex numbers as pairs, and all floats with as many digits as tell them apart."""
    if isinstance(value, complex):
        return {"re": value.real, "im": value.imag}
    if isinstance(value, dict):
        return {key: plain_numbers(v) for key, v in value.items()}
    return [plain_numbers(v) for v in value] if isinstance(value, (list, tuple)) else value


def main():
    warnings.simplefilter("ignore")
    folder = pathlib.Path(__file__).parent
    with (folder / "cases.jsonl").open("w") as out:
        for line in lines(folder / "calls.txt"):
            found = 0
            for seed in range(TRIES):
                call = draw(line, seed)
                small = sum(len(t.data) for t in call.inputs.values()) <= MOST_ELEMENTS or seed >= TRIES - CASES_OF_A_LINE
                if found == CASES_OF_A_LINE or not small:
                    continue
                got = answer(torch, call)
                if "refused" in got or not is_exact(call, got):
                    continue
                found += 1
                print(json.dumps({"line": line, "seed": seed, "answer": plain_numbers(got)}), file=out)


if __name__ == "__main__":
    main()
