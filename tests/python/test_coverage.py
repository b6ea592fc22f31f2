"""docs/pytorch.md says which of PyTorch's names there are. `python tests/python/test_coverage.py` writes it anew."""

import functools
import json
import pathlib
import sys

import weft
import weft.utils.data

sys.path.insert(0, str(pathlib.Path(__file__).parent / "pytorch_cases"))
from make_signatures import positional  # noqa: E402

ROOT = pathlib.Path(__file__).parent.parent.parent
RECORDED = json.loads((pathlib.Path(__file__).parent / "pytorch_cases" / "names.json").read_text())
PLACES = {"torch": ("weft", weft), "torch.Tensor": ("weft.Tensor", weft.Tensor),
          "torch.nn.functional": ("weft.nn.functional", weft.nn.functional), "torch.linalg": ("weft.linalg", weft.linalg),
          "torch.special": ("weft.special", weft.special), "torch.fft": ("weft.fft", weft.fft),
          "torch.nn": ("weft.nn", weft.nn)}


def listed(names):
    return " ".join(f"`{name}`" for name in names) if names else "none"


def page():
    lines = ["# PyTorch's names", "",
             f"Which functions, methods and modules of PyTorch {RECORDED['torch']} Weft's Python package has under the same "
             "name. What is there", "answers as PyTorch does, or [from_pytorch.md](from_pytorch.md) says where not. A test "
             "holds this page current;", "`python tests/python/test_coverage.py` writes it anew. Names that ask for the state "
             "of PyTorch's own kinds of tensor", "(sparse, quantised, nested, of other devices) are left out.", "",
             "| PyTorch | Weft | there | of |", "|---|---|---|---|"]
    sections = []
    for theirs, names in RECORDED["names"].items():
        ours, place = PLACES[theirs]
        there = [name for name in names if hasattr(place, name)]
        absent = [name for name in names if name not in there]
        lines.append(f"| `{theirs}` | `{ours}` | {len(there)} | {len(names)} |")
        sections += ["", f"## {theirs}", "", f"There: {listed(there)}", "", f"Not there: {listed(absent)}"]
    return "\n".join(lines + sections) + "\n"


def test_the_page_of_pytorchs_names_is_current():
    assert (ROOT / "docs" / "pytorch.md").read_text() == page(), "python tests/python/test_coverage.py writes it anew"


# Names of the same argument: theirs, ours.
SAME = {("input", "x"), ("target", "y"), ("input", "logits"), ("input", "log_probabilities"), ("target", "targets"),
        ("input1", "x1"), ("input2", "x2"), ("tensor", "x"), ("value", "parameter"), ("values", "parameters"),
        ("data", "sample"), ("input_", "input"), ("target_", "target"), ("prob", "value"), ("x", "value"), ("x", "input"),
        ("sequential", "modules"),
        ("size_average", "reduction")}  # a loss refuses a bool there
INTERNAL = "distributions.Distribution", "distributions.Transform"  # which nobody constructs


def test_positional_arguments_have_pytorchs_order():
    different, compared = [], 0
    for line in (pathlib.Path(__file__).parent / "pytorch_cases" / "signatures.list").read_text().splitlines():
        path, *theirs = line.split()
        if path in INTERNAL:
            continue
        try:
            ours = functools.reduce(getattr, path.split("."), weft)
        except AttributeError:
            continue
        ours = positional(ours)
        compared += bool(ours)
        different += [f"{path}: argument {i} is {b}, PyTorch's is {a}" for i, (a, b) in enumerate(zip(theirs, ours))
                      if a != b and (a, b) not in SAME]
    assert compared > 400 and not different, "\n".join(different)


if __name__ == "__main__":
    (ROOT / "docs" / "pytorch.md").write_text(page())
