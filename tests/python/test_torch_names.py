"""docs/torch.md ends with a table of PyTorch's names. `python tests/python/test_torch_names.py` writes it anew."""

import doctest
import functools
import json
import pathlib
import re

import weft.torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
CASES = pathlib.Path(__file__).parent / "pytorch_cases"
RECORDED = json.loads((CASES / "module_names.json").read_text())
SCRIPTS = json.loads((pathlib.Path(__file__).parent / "torch_scripts" / "losses.json").read_text())
PAGE = ROOT / "docs" / "torch.md"


def missing(path, names):
    place = functools.reduce(getattr, path.split(".")[1:], weft.torch)
    return [name for name in names if not hasattr(place, name)]


def table():
    lines = ["| module | there | of | missing |", "|---|---|---|---|"]
    for path, names in RECORDED["names"].items():
        absent = missing(path, names)
        listed = " ".join(f"`{name}`" for name in absent)
        lines.append(f"| `{path}` | {len(names) - len(absent)} | {len(names)} | {listed} |")
    return "\n".join(lines)


def page():
    text = PAGE.read_text()
    text = re.sub(r"has \d+ scripts", f"has {len(SCRIPTS)} scripts", text)
    text = re.sub(r"PyTorch [\d.]+'s modules", f"PyTorch {RECORDED['torch']}'s modules", text)
    return text[:text.index("| module | there |")] + table() + "\n"


def test_the_table_of_modules_is_current():
    assert PAGE.read_text() == page(), "python tests/python/test_torch_names.py writes it anew"


def test_the_examples_of_the_page_run():
    try:
        result = doctest.testfile(str(PAGE), module_relative=False)
        assert result.attempted >= 6 and result.failed == 0
    finally:
        weft.torch.uninstall()


def test_modules_that_scripts_use_most_are_complete():
    for path in ("torch.optim.lr_scheduler", "torch.nn.init", "torch.distributions", "torch.distributions.transforms",
                 "torch.nn.utils.prune", "torch.nn.utils.rnn", "torch.autograd.functional", "torch.amp", "torch.signal.windows"):
        assert missing(path, RECORDED["names"][path]) == [], path


if __name__ == "__main__":
    PAGE.write_text(page())
