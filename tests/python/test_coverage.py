"""docs/pytorch.md says which of PyTorch's names there are. `python tests/python/test_coverage.py` writes it anew."""

import json
import pathlib

import weft

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


if __name__ == "__main__":
    (ROOT / "docs" / "pytorch.md").write_text(page())
