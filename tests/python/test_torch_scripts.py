"""Training scripts of the field run unchanged on Weft, with the losses that PyTorch gives from the same weights."""

import json
import pathlib
import subprocess
import sys

import pytest

import weft
import weft.torch

FOLDER = pathlib.Path(__file__).parent / "torch_scripts"
sys.path.insert(0, str(FOLDER))
import record  # noqa: E402

RECORDED = json.loads(record.RECORDED.read_text())
NEED_CPP = {"detection": "Tensor.squeeze_ changes the layout of a tensor"}


def test_every_script_is_recorded():
    assert sorted(RECORDED) == record.scripts() and len(RECORDED) >= 40
    assert all(len(losses) >= 20 for losses in RECORDED.values())


@pytest.mark.parametrize("name", record.scripts())
def test_losses_of_pytorch(name, installed, monkeypatch):
    if name in NEED_CPP and not hasattr(weft.Tensor, "squeeze_"):
        pytest.xfail(NEED_CPP[name])
    monkeypatch.setattr(sys, "argv", [name])
    losses = record.run(name)
    assert losses == pytest.approx(RECORDED[name], rel=1e-4, abs=1e-4)


def test_recorded_losses_are_those_of_the_installed_pytorch():
    if subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode:
        pytest.skip("PyTorch is not installed")
    code = f"import sys; sys.path.insert(0, {str(FOLDER)!r}); import record, json; " \
           "sys.stdout = sys.stderr; found = {n: record.run(n) for n in record.scripts()}; " \
           "print(json.dumps(found), file=sys.__stdout__)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for name, losses in json.loads(run.stdout).items():
        assert losses == pytest.approx(RECORDED[name], rel=1e-4, abs=1e-4), name
