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


PYTHON_CASES = {
    "heads": (lambda: weft.nn.MultiheadAttention(4, 2)(*[weft.ones(2, 3, 5)] * 3), ValueError),
    "sizes": (lambda: weft.ones(2, 3).sum_to_size(4), ValueError),
    "in place": (lambda: weft.ones(2).cumsum_(0, dtype=weft.int32), TypeError),
    "order": (lambda: weft.linalg.norm(weft.ones(2, 2, 2), "fro"), ValueError),
    "softmax": (lambda: weft.nn.Softmax2d()(weft.ones(2)), ValueError),
    "recurrent": (lambda: weft.nn.GRU(2, 3)(weft.ones(2)), ValueError),
    "padding": (lambda: weft.nn.ZeroPad2d((1, 2)), ValueError),
    "names": (lambda: weft.func.functional_call(weft.nn.Linear(2, 2), {"none": weft.ones(1)}, weft.ones(2), strict=True), KeyError),
}


@pytest.mark.parametrize("name", PYTHON_CASES)
def test_an_error_of_python_is_of_both_kinds(name):
    fails, kind = PYTHON_CASES[name]
    with pytest.raises(kind) as caught:
        fails()
    assert isinstance(caught.value, weft.Error)


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
    for module in ("weft", "weft.nn", "weft.nn.functional", "weft.linalg", "weft.special", "weft.fft", "weft.func", "weft.optim"):
        exec(f"from {module} import *", names)
    assert names.get("ValueError", ValueError) is ValueError and names.get("KeyError", KeyError) is KeyError
