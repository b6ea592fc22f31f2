"""Every op through the trampoline: values against NumPy, keywords, promotion, gradients."""

import math

import numpy as np
import pytest

import weft

f64, f32, i64 = weft.float64, weft.float32, weft.int64

unary = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "square": np.square, "floor": np.floor, "ceil": np.ceil,
    "round": np.round, "trunc": np.trunc, "reciprocal": np.reciprocal, "sqrt": np.sqrt, "exp": np.exp,
    "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "asinh": np.arcsinh, "atanh": np.arctanh, "log2": np.log2, "log10": np.log10, "exp2": np.exp2,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "logical_not": np.logical_not,
    "relu": lambda x: np.maximum(x, 0), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "rsqrt": lambda x: 1 / np.sqrt(x), "erf": np.vectorize(math.erf),
    "gelu": lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
}
binary = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power,
    "maximum": np.maximum, "minimum": np.minimum, "atan2": np.arctan2, "eq": np.equal, "ne": np.not_equal,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "logical_and": np.logical_and,
    "logical_or": np.logical_or, "logical_xor": np.logical_xor, "floor_divide": np.floor_divide,
    "remainder": np.remainder, "hypot": np.hypot, "copysign": np.copysign, "fmod": np.fmod,
}
reductions = {"sum": np.sum, "mean": np.mean, "prod": np.prod, "amax": np.max, "amin": np.min, "any": np.any,
              "all": np.all}


def there(names):
    return [n for n in names if hasattr(weft, n)]


def near(got, want, dtype=f64):
    got = got.to("cpu").numpy()
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got, want, rtol=1e-12 if dtype is f64 else 2e-5, atol=1e-12 if dtype is f64 else 2e-6)


@pytest.mark.parametrize("name", there(unary))
def test_unary_values_are_numpys(name, device, rng):
    a = rng.uniform(0.1, 0.9, (3, 4)).astype(np.float32)
    x = weft.tensor(a).to(device)
    want = unary[name](a)
    near(getattr(weft, name)(x), want, f32)
    near(getattr(x, name)(), want, f32)


@pytest.mark.parametrize("name", there(binary))
def test_binary_values_are_numpys_with_broadcasting(name, device, rng):
    a = rng.uniform(0.2, 2, (2, 1, 3)).astype(np.float32)
    b = rng.uniform(0.2, 2, (4, 1)).astype(np.float32)
    near(getattr(weft, name)(weft.tensor(a).to(device), weft.tensor(b).to(device)), binary[name](a, b), f32)


@pytest.mark.parametrize("name", reductions)
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions_are_numpys(name, axis, keepdims, device, rng):
    a = rng.uniform(-2, 2, (2, 3, 4)).astype(np.float32)
    x = weft.tensor(a).to(device)
    want = reductions[name](a, axis=axis, keepdims=keepdims)
    near(getattr(weft, name)(x, dim=axis, keepdim=keepdims), want, f32)
    near(getattr(x, name)(axis=axis, keepdims=keepdims), want, f32)


def test_every_op_has_a_signature_and_a_document():
    for name, op in weft._core._ops.items():
        assert op.__text_signature__.startswith("("), name
        assert len(op.__doc__.split("\n\n", 1)[1]) > 1, name


@pytest.mark.parametrize("name", sorted(n for n in weft._core._ops if not n.startswith("_")))
def test_every_op_names_its_argument_in_a_type_error(name):
    op = weft._core._ops[name]
    bad = object()
    first = op.__text_signature__[1:].split(",")[0].split("=")[0].strip("()* ")
    with pytest.raises(TypeError) as error:
        op(*[bad] * 8) if op.__text_signature__.startswith("(*") else op(bad)
    assert name.rstrip("_") in str(error.value) and (first in str(error.value) or "misses" in str(error.value))


def test_keywords_follow_pytorch():
    a, b = weft.tensor([1.0, 2.0]), weft.tensor([10.0, 20.0])
    assert weft.add(input=a, other=b).tolist() == [11, 22]
    assert weft.add(a, b, alpha=2).tolist() == [21, 42]
    assert weft.sub(a, b, alpha=0.5).tolist() == [-4, -8]
    assert weft.add(weft.ones(1, dtype=f64), weft.tensor([3]), alpha=0.1).item() == 1 + 3 * 0.1
    whole = weft.tensor([1, 2])
    for call in (lambda: whole.add_(a, alpha=2), lambda: whole.add(whole, alpha=0.5), lambda: whole.add_(a)):
        with pytest.raises(TypeError):
            call()
    assert whole.tolist() == [1, 2]
    assert weft.div(weft.tensor([7.0, -7.0]), 2, rounding_mode="floor").tolist() == [3, -4]
    assert weft.div(weft.tensor([7, -7]), 2, rounding_mode="trunc").tolist() == [3, -3]
    assert weft.var(b, correction=0).item() == 25
    assert weft.sum(a, dtype=f64).dtype is f64
    assert weft.clamp(b, max=15).tolist() == [10, 15]
    assert weft.clamp(b, min=weft.tensor([11.0, 0.0])).tolist() == [11, 20]
    assert weft.nn.functional.gelu is weft.gelu
    out = weft.empty(2)
    assert weft.add(a, b, out=out) is out and out.tolist() == [11, 22]
    with pytest.warns(UserWarning, match="resized"):
        assert weft.add(a, b, out=weft.empty(3)).tolist() == [11, 22]
    with pytest.raises(ValueError, match="rounding_mode"):
        weft.div(a, b, rounding_mode="up")


def test_max_along_a_dimension_gives_values_and_indices():
    x = weft.tensor([[1.0, 5.0], [7.0, 2.0]])
    r = weft.max(x, 1)
    assert r.values.tolist() == [5, 7] and r.indices.tolist() == [1, 0]
    values, indices = x.min(dim=0)
    assert values.tolist() == [1, 2] and indices.tolist() == [0, 1]
    assert x.max().item() == 7


@pytest.mark.parametrize("call, text", [
    (lambda x: weft.sum(x, dim="a"), "'dim'"), (lambda x: weft.sum(x, bogus=1), "bogus"),
    (lambda x: weft.softmax(x, 1.5), "'dim'"), (lambda x: weft.cat(x), "'tensors'"),
    (lambda x: weft.cat([x, 3]), "'tensors'"), (lambda x: weft.matmul(x, 2), "'b'"),
    (lambda x: weft.add(x), "'b'"), (lambda x: weft.add(x, x, x), "positional"),
    (lambda x: weft.add(x, x, a=x), "several values"), (lambda x: x.reshape("a"), "'shape'"),
    (lambda x: x.to(3), "'other'"), (lambda x: weft.zeros(2, dtype="float32"), "'dtype'"),
])
def test_wrong_arguments_are_type_errors_that_name_them(call, text):
    with pytest.raises(TypeError, match=text):
        call(weft.zeros(2, 2))


def test_errors_are_pythons_kinds_with_the_python_line():
    with pytest.raises(ValueError, match=r"test_ops.py:\d+"):
        weft.ones(2) + weft.ones(3)
    with pytest.raises(IndexError, match=r"test_ops.py:\d+"):
        weft.ones(2).sum(dim=4)
    with pytest.raises(TypeError):
        weft.exp_(weft.tensor([1, 2]))
    with pytest.raises(MemoryError):
        weft.empty(1 << 60)
    with pytest.raises(ValueError):
        weft.empty(1 << 62, 1 << 62)
    with pytest.raises(IndexError):
        weft.ones(2).sum(dim=2**40)
    with pytest.raises(IndexError):
        weft.ones(2).select(2**32, 0)


def test_device_errors_are_runtime_errors():
    for wrong in (lambda: weft.ones(2) + weft.ones(2, device="meta"), lambda: weft.ones(2, device="hpu:77"),
                  lambda: weft.ones(2).to("nowhere"), lambda: weft.device("gpu"), lambda: weft.device_count("gpu")):
        with pytest.raises(RuntimeError) as error:
            wrong()
        assert not isinstance(error.value, (ValueError, NotImplementedError))


def test_promotion_is_pytorchs():
    x = weft.tensor([1, 2], dtype=weft.int32)
    assert (x + 1).dtype is weft.int32 and (x + 1.5).dtype is f32 and (x / 2).dtype is f32
    assert (weft.tensor([True]) + 1).dtype is i64
    assert (weft.tensor([1.0], dtype=weft.float16) + weft.tensor(1.0, dtype=f64)).dtype is weft.float16
    assert weft.result_type(x, weft.float16) is weft.float16
    assert weft.result_type(weft.float32, 3) is f32
    assert (x + (2**30)).dtype is weft.int32
    assert (weft.tensor([0]) + (2**62)).item() == 2**62


def test_integers_are_divided_exactly():
    numbers = [0, 1, -1, 7, -7, 2**53 + 1, -(2**53) - 1, 2**62 + 1, -(2**62) - 1, 2**63 - 1, -(2**63)]
    divisors = [1, -1, 2, -2, 3, -3, 10, 2**53 - 1, 2**62 + 3, 2**63 - 1, -(2**63)]
    x, y = weft.tensor(numbers).unsqueeze(1), weft.tensor(divisors)

    def wrapped(n):
        return (n + 2**63) % 2**64 - 2**63

    assert (x // y).tolist() == [[wrapped(a // b) for b in divisors] for a in numbers]
    assert (x % y).tolist() == [[a % b for b in divisors] for a in numbers]
    towards_zero = [[wrapped(abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)) for b in divisors] for a in numbers]
    assert weft.div(x, y, rounding_mode="trunc").tolist() == towards_zero
    assert (100 // weft.tensor([7, -7])).tolist() == [14, -15] and (weft.tensor([7], dtype=weft.int8) % 4).dtype is weft.int8
    with pytest.raises(ZeroDivisionError):
        x // 0
    with pytest.raises(ZeroDivisionError):
        x % weft.tensor([1, 0, *divisors[2:]])


def test_unsupported_functions_raise():
    for missing in (lambda: weft.linalg.ldl_factor, lambda: weft.ones(1).sparse,
                    lambda: weft.nn.functional.adaptive_log_softmax, lambda: weft.nn.DataParallel):
        with pytest.raises(AttributeError):
            missing()
    x = weft.ones(2, 2)
    for unfinished in (lambda: x.lu(pivot=False), lambda: weft.zeros(2, pin_memory=True)):
        with pytest.raises(NotImplementedError):
            unfinished()


def test_paths_lead_to_one_object():
    for name in ("gelu", "softplus", "one_hot", "cross_entropy", "layer_norm", "scaled_dot_product_attention"):
        assert getattr(weft.nn.functional, name) is getattr(weft, name), name
    assert weft.linalg.matmul is weft.matmul and weft.concat is weft.cat and weft.multiply is weft.mul
    q, k = weft.randn(1, 4, 3, 8), weft.randn(1, 2, 3, 8)
    grouped = weft.nn.functional.scaled_dot_product_attention(q, k, k, scale=0.5, enable_gqa=True)
    repeated = k.index_select(1, weft.tensor([0, 0, 1, 1]))
    near(grouped, weft.nn.functional.scaled_dot_product_attention(q, repeated, repeated, scale=0.5).numpy(), f32)


torch_calls = {
    "softmax": lambda m, x: m.softmax(x, dim=1), "log_softmax": lambda m, x: m.log_softmax(x, dim=-1),
    "logsumexp": lambda m, x: m.logsumexp(x, dim=(0, 1)), "var": lambda m, x: m.var(x, dim=0, correction=1),
    "std": lambda m, x: m.std(x, dim=1, keepdim=True), "cumsum": lambda m, x: m.cumsum(x, dim=0),
    "matmul": lambda m, x: m.matmul(x, x.T), "layer_norm": lambda m, x: m.nn.functional.layer_norm(x, (4,)),
    "rms_norm": lambda m, x: m.nn.functional.rms_norm(x, (4,)), "gelu": lambda m, x: m.nn.functional.gelu(x),
    "gelu_tanh": lambda m, x: m.nn.functional.gelu(x, approximate="tanh"), "silu": lambda m, x: m.nn.functional.silu(x),
    "softplus": lambda m, x: m.nn.functional.softplus(x), "stack": lambda m, x: m.stack([x, 2 * x], dim=1),
    "where": lambda m, x: m.where(x > 0, x, 0.0), "argmax": lambda m, x: m.argmax(x, dim=1),
    "prod": lambda m, x: m.prod(x, dim=1), "tile": lambda m, x: m.tile(x, (2, 1, 2)), "repeat": lambda m, x: x.repeat(2, 1),
    "lerp": lambda m, x: m.lerp(x, 2 * x, 0.25), "addmm": lambda m, x: m.addmm(x, x @ x.T, x, beta=2, alpha=0.5),
    "sdpa": lambda m, x: m.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True),
    "cross_entropy": lambda m, x: m.nn.functional.cross_entropy(x, m.tensor([0, 3, 1]), label_smoothing=0.1),
    "huber": lambda m, x: m.nn.functional.huber_loss(x, 0 * x, delta=0.7, reduction="sum"),
    "unflatten": lambda m, x: x.unflatten(1, (2, 2)), "movedim": lambda m, x: m.movedim(x, 0, 1),
    "meshgrid": lambda m, x: m.meshgrid([x[0], x[1]], indexing="ij")[1], "norm": lambda m, x: x.norm(),
    "outer": lambda m, x: m.outer(x[0], x[1]), "floor_divide": lambda m, x: x.detach() // 0.3, "remainder": lambda m, x: x % 0.3,
    "isclose": lambda m, x: m.isclose(x, x + 1e-9), "diagonal": lambda m, x: m.diagonal(x, 1),
}


@pytest.mark.parametrize("name", torch_calls)
def test_values_and_gradients_are_pytorchs(name, rng):
    torch = pytest.importorskip("torch")
    a = rng.standard_normal((3, 4))
    x, t = weft.tensor(a), torch.tensor(a)
    got, want = torch_calls[name](weft, x.requires_grad_()), torch_calls[name](torch, t.requires_grad_())
    assert got.numpy(force=True).shape == tuple(want.shape)
    np.testing.assert_allclose(got.numpy(force=True), want.detach().numpy(), rtol=1e-10, atol=1e-12)
    if want.requires_grad:
        got.sum().backward()
        want.sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), t.grad.numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ("add", "sin", "matmul", "cumsum", "sum", "cat"))
def test_out_is_resized_and_gets_the_result_converted(name):
    x = weft.arange(4.0).reshape(2, 2)
    arguments = {"add": (x, x), "sin": (x,), "matmul": (x, x), "cumsum": (x, 0), "sum": (x, 0), "cat": ([x, x],)}[name]
    function = getattr(weft, name)
    expected = function(*arguments)
    for dtype in (weft.float32, weft.float64, weft.complex64):
        out = weft.empty(0, dtype=dtype)
        assert function(*arguments, out=out) is out and weft.equal(out, expected.to(dtype)) and out.dtype is dtype
    with pytest.warns(UserWarning, match="resized"):
        function(*arguments, out=weft.empty(5, 5))
    with pytest.raises(RuntimeError, match=name):
        function(*arguments, out=weft.empty(0, dtype=weft.int64))
    assert weft.arange(3, out=weft.empty(0)).dtype is weft.float32
