"""The lines of docs/from_pytorch.md that are PyTorch's run as Weft's."""

import pathlib
import re
import shutil

import pytest

root = pathlib.Path(__file__).resolve().parents[2]
page = (root / "docs" / "from_pytorch.md").read_text(encoding="utf-8")
setup = re.search(r"```python\n(.*?)```", page, re.S).group(1)


def pieces():
    for line in page.splitlines():
        cells = line.strip().strip("|").split(" | ")
        if line.startswith("| ") and len(cells) == 2:
            yield from re.findall(r"`([^`]+)`", cells[0])


def test_the_page_has_lines():
    assert len(list(pieces())) > 80


@pytest.mark.parametrize("code", list(pieces()))
def test_line_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(setup, names)
    exec(code, names)


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", page, re.S)[1:])
def test_block_runs(block, tmp_path, monkeypatch):
    shutil.copy(root / "tests" / "io" / "pt_cases" / "training.pt", tmp_path)
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(setup, names)
    try:
        exec(block, names)
    except OSError as error:
        if "no zip archives" not in str(error):
            raise
        pytest.skip("built without libzip")
