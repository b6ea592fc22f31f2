"""Pointwise functions on a grid of numbers, infinities, NaN and both zeros: values, dtypes and gradients are PyTorch's, as
pytorch_cases/make_pointwise_cases.py recorded them."""

import json
import math
import pathlib

import pytest

import weft

path = pathlib.Path(__file__).parent / "pytorch_cases" / "pointwise_cases.jsonl"
cases = [json.loads(line) for line in path.open()]

# Where Weft answers otherwise on purpose, by op and what is compared, with the operands there. Gradients where an
# operand or the value is NaN are compared nowhere: there is no derivative.
anywhere = lambda *_: True  # noqa: E731
infinite = lambda *operands: any(math.isinf(x) for x in operands)  # noqa: E731
DIFFERENT = {
    ("sign", "value"): math.isnan,  # NaN stays NaN, as in NumPy; PyTorch gives 0
    ("heaviside", "value"): lambda a, b: math.isnan(a),  # the same
    # At -infinity the limit, -0, where PyTorch's -inf * 0 is NaN.
    ("silu", "value"): infinite, ("gelu", "value"): infinite, ("mish", "value"): infinite,
    ("hardswish", "value"): infinite,
    # The limit of the gradient, where PyTorch's quotient of infinities is NaN.
    ("softsign", "gradient 0"): infinite, ("copysign", "gradient 0"): infinite,
    ("logaddexp", "gradient 0"): infinite, ("logaddexp", "gradient 1"): infinite,
    ("logaddexp2", "gradient 0"): infinite, ("logaddexp2", "gradient 1"): infinite,
    ("hypot", "gradient 0"): lambda a, b: infinite(a, b) or a == b == 0,
    ("hypot", "gradient 1"): lambda a, b: infinite(a, b) or a == b == 0,
    ("atan2", "gradient 0"): lambda a, b: infinite(a, b) or a == b == 0,
    ("atan2", "gradient 1"): lambda a, b: infinite(a, b) or a == b == 0,
    # 0 times an infinite logarithm, which is NaN in PyTorch.
    ("xlogy", "gradient 1"): lambda a, b: a == b == 0, ("xlog1py", "gradient 1"): lambda a, b: a == 0 and b == -1,
    ("silu", "gradient 0"): infinite, ("gelu", "gradient 0"): infinite, ("mish", "gradient 0"): infinite,
    ("acosh", "gradient 0"): lambda x: x > 1e15,  # x * x overflows in PyTorch
    # PyTorch's constant 1/6 is a float's.
    ("hardsigmoid", "gradient 0"): anywhere,
    # Near 0 the series, where PyTorch's difference of nearly equal numbers keeps few digits.
    ("sinc", "gradient 0"): lambda x: abs(x) < 0.6,
    # 1 - tanh(x)^2 cancels near 0 in PyTorch; Weft has tanh(x)^2.
    ("tanhshrink", "gradient 0"): lambda x: abs(x) < 0.3,
}
# Differences of nearly equal numbers have fewer correct digits in both libraries.
CANCELS = {"tanhshrink", "selu", "elu", "celu", "gelu", "tanh", "sigmoid", "erfc", "mish", "logaddexp2", "logaddexp", "asin",
           "acos", "softsign", "sinc", "tan"}


def find(name):
    return getattr(weft, name, None) or getattr(weft.nn.functional, name)


def compare(got, want, dtype, what, case):
    exact = {"float64": 2e-13, "float32": 2e-6}.get(dtype, 0)
    tolerance = exact * 100 if case["op"] in CANCELS else exact
    tiny = exact if case["op"] in CANCELS else {"float32": 2.0**-126}.get(dtype, 2.0**-1022)
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        operands = [column[i] for column in case["operands"]]
        if DIFFERENT.get((case["op"], what), lambda *_: False)(*operands):
            continue
        if what != "value" and any(isinstance(x, float) and math.isnan(x) for x in (*operands, case["values"][i])):
            continue
        if isinstance(w, bool) or not exact:
            same = g == w
        elif math.isnan(w) or math.isnan(g):
            same = math.isnan(w) and math.isnan(g)
        elif math.isinf(w) or w == 0:
            same = g == w or abs(g - w) <= tiny
        else:
            same = abs(g - w) <= tolerance * abs(w) + tiny
        assert same, f"{case['op']}{tuple(operands)} {what}: {g}, not {w}"


@pytest.mark.parametrize("case", cases, ids=[f"{case['op']}-{case['dtype']}-{len(case['operands'])}" for case in cases])
def test_values_and_gradients_are_pytorchs(case):
    dtype = getattr(weft, case["dtype"])
    operands = [weft.tensor(column, dtype=dtype) for column in case["operands"]]
    taken = operands[:1] if case["numbers"] else operands
    for t in taken:
        t.requires_grad_(dtype.is_floating_point)
    function = find(case["op"])
    if case["numbers"]:
        rest = zip(*case["operands"][1:])
        result = weft.cat([function(operands[0][i:i + 1], *values) for i, values in enumerate(rest)])
    else:
        result = function(*operands)
    assert result.dtype is getattr(weft, case["result"])
    compare(result.tolist(), case["values"], case["result"], "value", case)
    if "gradients" not in case or not result.requires_grad:
        return
    grads = weft.autograd.grad(result.sum(), taken, allow_unused=True)
    for number, (g, wanted) in enumerate(zip(grads, case["gradients"])):
        if wanted is not None:
            got = [0.0] * len(wanted) if g is None else g.tolist()
            compare(got, wanted, case["dtype"], f"gradient {number}", case)
