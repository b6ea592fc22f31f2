"""Calls agree with PyTorch, recorded by pytorch_cases/make_cases.py."""

import json
import math
import pathlib

import numpy as np
import pytest

import weft

FOLDER = pathlib.Path(__file__).parent / "pytorch_cases"
FAMILIES = ["cases", *(path.stem for path in sorted(FOLDER.glob("*.txt")))]


def cases():
    for family in FAMILIES:
        inputs, *listed = map(json.loads, (FOLDER / f"{family}.jsonl").open())
        for case in listed:
            yield pytest.param(inputs["inputs"], case, id=case["expression"])


# Of values with equal indices the last one has the gradient, where PyTorch gives each the gradient of their place.
REPLACED = {"m.scatter(input=x, dim=0, index=j, src=y)", "m.index_put(x,[c.flip(0)*0],v)",
            "m.index_put(x,[c.flip(0)*0],v, accumulate=False)", "m.scatter(x,0,j,y)", "m.scatter(x,0,j,y, out=None)",
            "x.scatter(0,j,y)", "x.clone().scatter_(0,j,y)", "x.clone().index_put_([c*0],v)",
            "x.clone().index_put_([c*0],v, accumulate=False)",
            "F.max_unpool2d(*F.max_pool2d(big, 3, 2, 1, return_indices=True), 3, 2, 1, (4, 5))",
            "F.max_unpool3d(*F.max_pool3d(cube, 2, 1, return_indices=True), 2, 1)",
            "F.max_unpool3d(*F.max_pool3d(cube[0], 2, 1, return_indices=True), 2, 1)"}
# Numbers that the dtype does not hold, which PyTorch wraps.
REFUSED = {"m.bitwise_left_shift(u8, -1)", "m.bitwise_right_shift(u8, -1)"}


def near(got, want):
    if not isinstance(want, dict):
        assert type(got) is type(want) and (got == want or math.isclose(got, want, rel_tol=1e-12))
        return
    values = np.asarray(want["values"])
    if want["dtype"].startswith("complex"):
        values = values.reshape(*want["shape"], 2)
        values = values[..., 0] + 1j * values[..., 1]
    assert got.dtype is getattr(weft, want["dtype"])
    assert list(got.shape) == want["shape"]
    exact = want["dtype"] in ("float64", "complex128")
    wide = weft.complex128 if got.is_complex() else weft.float64
    np.testing.assert_allclose(got.detach().to(wide).numpy(),
                               values.astype(complex if got.is_complex() else float).reshape(got.shape),
                               rtol=1e-10 if exact else 1e-5, atol=1e-12 if exact else 1e-6)


def check(got, want):
    if isinstance(want, list):
        assert isinstance(got, (tuple, list)) and len(got) == len(want)
        for g, w in zip(got, want):
            check(g, w)
    else:
        near(got, want)


def ramp(t):
    return weft.arange(1, t.numel() + 1, dtype=weft.float64).reshape(t.shape)


def weighted(t):
    if not t.is_complex():
        return (t.to(weft.float64) * ramp(t)).sum()
    return (t.real.to(weft.float64) * ramp(t)).sum() + (t.imag.to(weft.float64) * (ramp(t) + 0.5)).sum()


def tensor(dtype, data):
    if dtype.startswith("complex"):
        return weft.view_as_complex(weft.tensor(data, dtype=weft.float64)).to(getattr(weft, dtype))
    return weft.tensor(data, dtype=getattr(weft, dtype))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("inputs, case", list(cases()))
def test_results_and_gradients_are_pytorchs(inputs, case):
    given = {name: tensor(dtype, data) for name, (dtype, data) in inputs.items()}
    leaves = {name: t.requires_grad_() for name, t in given.items() if t.dtype in (weft.float64, weft.complex128)}
    names = {"m": weft, "F": weft.nn.functional, **given}
    if "refused" in case or case["expression"] in REFUSED:
        with pytest.raises(Exception):
            eval(case["expression"], names)
        return
    result = eval(case["expression"], names)
    check(result, case["result"])
    if "gradients" not in case or case["expression"] in REPLACED:
        return
    outputs = result if isinstance(result, (tuple, list)) else [result]
    outputs = [t for t in outputs if isinstance(t, weft.Tensor) and t.requires_grad and not t.is_leaf]
    wide = all(t.dtype in (weft.float64, weft.complex128) for t in outputs)
    tolerance = {"rtol": 1e-9, "atol": 1e-11} if wide else {"rtol": 1e-5, "atol": 1e-6}
    wanted = case["gradients"]
    total = sum(map(weighted, outputs))
    grads = weft.autograd.grad(total, [leaves[name] for name in wanted], allow_unused=True) if wanted else ()
    for name, g in zip(wanted, grads):
        expected = np.asarray(wanted[name])
        if g is not None and g.is_complex():
            g = weft.view_as_real(g)
        got = np.zeros(expected.shape) if g is None else g.numpy()
        if case["expression"].startswith("F.binary_cross_entropy("):  # bounded logarithms have finite gradients
            assert np.isfinite(got).all()
            got, expected = got[np.isfinite(expected)], expected[np.isfinite(expected)]
        np.testing.assert_allclose(got, expected, **tolerance, err_msg=name)
