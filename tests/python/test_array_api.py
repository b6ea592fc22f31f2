"""weft.array_api: what is there behaves as the standard says; what is not is listed."""

import numpy as np
import pytest

import weft
import weft.array_api as xp


def test_namespace_and_inspection():
    x = xp.asarray([1.0, 2.0])
    assert x.__array_namespace__() is xp and x.__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(ValueError):
        x.__array_namespace__(api_version="1999.01")
    info = xp.__array_namespace_info__()
    assert info.capabilities()["max dimensions"] == 8 and info.default_dtypes()["integral"] is weft.int64
    assert weft.device("cpu") in info.devices() and info.dtypes(kind="bool") == {"bool": weft.bool}
    assert xp.__array_api_version__ == "2024.12"


def test_dtypes():
    assert xp.isdtype(xp.int8, "signed integer") and xp.isdtype(xp.uint8, ("bool", "integral"))
    assert not xp.isdtype(xp.bool, "numeric") and xp.isdtype(xp.float32, xp.float32)
    assert xp.result_type(xp.int8, xp.int32) is xp.int32 and xp.can_cast(xp.int8, xp.float32)
    assert not xp.can_cast(xp.float32, xp.int64)
    assert xp.finfo(xp.float32).eps == np.finfo(np.float32).eps and xp.iinfo(xp.int16).min == -32768
    assert xp.finfo(xp.float64).max == np.finfo(float).max and xp.finfo(xp.float32).smallest_normal == \
        np.finfo(np.float32).smallest_normal
    with pytest.raises(TypeError):
        xp.finfo(xp.int8)


def test_missing_is_told_and_nothing_else_is_missing():
    for name in xp.missing():
        with pytest.raises(AttributeError, match="not there yet"):
            getattr(xp, name)
    for name in set(xp._standard) - set(xp.missing()):
        assert callable(getattr(xp, name)), name


same = {
    "sum": lambda m, a: m.sum(a, axis=0), "max": lambda m, a: m.max(a, axis=1, keepdims=True), "std": lambda m, a: m.std(a),
    "var": lambda m, a: m.var(a, axis=0, correction=1), "prod": lambda m, a: m.prod(a), "mean": lambda m, a: m.mean(a, axis=1),
    "cumulative_sum": lambda m, a: m.cumulative_sum(a, axis=1, include_initial=True),
    "permute_dims": lambda m, a: m.permute_dims(a, (1, 0)), "expand_dims": lambda m, a: m.expand_dims(a, axis=1),
    "concat": lambda m, a: m.concat([a, a], axis=None), "stack": lambda m, a: m.stack([a, a], axis=-1),
    "matrix_transpose": lambda m, a: m.matrix_transpose(a), "vecdot": lambda m, a: m.vecdot(a, a),
    "tensordot": lambda m, a: m.tensordot(a, a, axes=((0, 1), (0, 1))), "clip": lambda m, a: m.clip(a, 0.5, 1.5),
    "take": lambda m, a: m.take(a, m.asarray([1, 0]), axis=1), "astype": lambda m, a: m.astype(a, m.int32),
    "where": lambda m, a: m.where(a > 1, a, -a), "eye": lambda m, a: m.eye(3, 4, k=1), "linspace":
    lambda m, a: m.linspace(0, 1, 5, endpoint=False), "tile": lambda m, a: m.tile(a, (2, 1)), "squeeze":
    lambda m, a: m.squeeze(m.expand_dims(a, axis=0), axis=0), "moveaxis": lambda m, a: m.moveaxis(a, 0, 1),
    "broadcast_to": lambda m, a: m.broadcast_to(a, (2, 2, 3)), "floor_divide": lambda m, a: m.floor_divide(a, 0.4),
    "argmax": lambda m, a: m.argmax(a, axis=1), "pow": lambda m, a: m.pow(a, a), "flip": lambda m, a: m.flip(a, axis=1),
    "sort": lambda m, a: m.sort(-a, axis=1), "roll": lambda m, a: m.roll(a, 1, axis=1),
    "unique_values": lambda m, a: m.unique_values(m.floor(a)), "nonzero": lambda m, a: m.nonzero(m.floor(a))[1],
    "unique_counts": lambda m, a: m.unique_counts(m.floor(a)).counts,
    "unstack": lambda m, a: m.unstack(a, axis=1)[1], "tril": lambda m, a: m.tril(a), "remainder": lambda m, a: m.remainder(a, 0.4),
}


@pytest.mark.parametrize("name", same)
def test_values_are_numpys(name, rng):
    if name in xp.missing() or not hasattr(np, name):
        pytest.skip(f"{name} is not there")
    a = rng.uniform(0.1, 2, (2, 3))
    got, want = same[name](xp, xp.asarray(a)), same[name](np, a)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
