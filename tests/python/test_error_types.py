"""Errors are Python's kinds and RuntimeErrors, as PyTorch's programs expect."""

import pickle

import pytest

import weft
from weft import errors

CASES = {
    "ShapeError": (lambda: weft.ones(2) + weft.ones(3), ValueError),
    "DTypeError": (lambda: weft.linalg.inv(weft.ones(2, 2, dtype=weft.int64)), TypeError),
    "DeviceError": (lambda: weft.ones(2, device="cuda:63"), RuntimeError),
    "ValueError": (lambda: weft.ones(2).item(), ValueError),
    "ZeroDivisionError": (lambda: weft.tensor([1]) // weft.tensor([0]), ZeroDivisionError),
    "AutogradError": (lambda: weft.ones(2).sum().backward(), RuntimeError),
    "LinAlgError": (lambda: weft.linalg.inv(weft.zeros(2, 2)), RuntimeError),
    "OutOfMemoryError": (lambda: weft.empty(2**45, dtype=weft.float64), MemoryError),
    "FormatError": (lambda: weft.io.loads(b"no safetensors") if hasattr(weft.io, "loads") else weft.Generator().set_state(b"x"),
                    ValueError),
}


@pytest.mark.parametrize("name", CASES)
def test_an_error_is_of_both_kinds(name):
    fails, kind = CASES[name]
    with pytest.raises(getattr(errors, name)) as caught:
        fails()
    assert isinstance(caught.value, kind) and isinstance(caught.value, RuntimeError) and isinstance(caught.value, weft.Error)
    assert type(caught.value) is getattr(errors, name)


def test_other_errors_are_pythons():
    with pytest.raises(IndexError) as caught:
        weft.ones(2)[5]
    assert type(caught.value) is IndexError
    with pytest.raises(FileNotFoundError if False else OSError):
        weft.load_file("/nowhere/x.safetensors")


def test_errors_are_pickled():
    for name in CASES:
        made = getattr(errors, name)("text")
        copied = pickle.loads(pickle.dumps(made))
        assert type(copied) is type(made) and str(copied) == str(made)


def test_a_star_import_hides_no_builtin():
    names = {}
    exec("from weft import *", names)
    assert names.get("ValueError", ValueError) is ValueError and names.get("KeyError", KeyError) is KeyError
