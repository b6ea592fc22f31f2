"""Records PyTorch's pointwise functions on a grid of numbers, infinities, NaN and both zeros among them, and the
gradients there: pointwise_cases.jsonl, a line for each function and dtype.

usage: python make_pointwise_cases.py     (with PyTorch; written for 2.15)
"""

import json
import pathlib

import torch
import torch.nn.functional as F

inf, nan = float("inf"), float("nan")
GRID = [0.0, -0.0, 0.25, -0.25, 0.5, -0.5, 0.75, -0.75, 1.0, -1.0, 1.5, -1.5, 2.0, -2.0, 2.5, 3.0, -3.0, 4.0, -5.0, 6.0,
        -6.0, 7.3, 10.0, -10.0, 20.0, -20.0, 50.0, -50.0, 90.0, -90.0, 1e-3, -1e-3, 1e-8, -1e-8, 1e-30, 1e30, -1e30, inf,
        -inf, nan, 123.456]
FEW = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, inf, -inf, nan]
PAIRS = [[a, b] for a in FEW for b in FEW]
# A second operand that is above 0.
WIDTHS = [[a, b] for a in GRID for b in (0.25, 1.0, 2.0)]
TRIPLES = [[a, b, c] for a in FEW for b in (-1.0, 0.5) for c in (0.75, 2.0)]
WHOLE = [0, 1, 2, 3, -4, 7, -1, 100]

UNARY = """neg abs sign square floor ceil round trunc reciprocal sqrt rsqrt exp expm1 log log1p exp2 log2 log10 sin cos tan
asin acos atan sinh cosh asinh acosh atanh tanh erf erfc sinc frac deg2rad rad2deg sigmoid relu relu6 silu softplus gelu
logsigmoid hardsigmoid hardswish selu mish softsign tanhshrink logit nan_to_num isnan isinf isfinite isposinf isneginf
isreal signbit logical_not elu celu leaky_relu hardtanh softshrink hardshrink""".split()
BINARY = """add sub mul div pow maximum minimum fmax fmin hypot copysign logaddexp logaddexp2 xlogy heaviside atan2
floor_divide remainder fmod ldexp float_power eq ne lt le gt ge logical_and logical_or logical_xor isclose""".split()
WITH_WIDTH = "elu celu leaky_relu softshrink hardshrink".split()
TERNARY = "addcmul addcdiv lerp hardtanh".split()


def find(module, functional, name):
    return getattr(module, name, None) or getattr(functional, name)


def call(name, operands, numbers):
    """The operands are columns; `numbers` says that all but the first go in as Python's numbers, row by row."""
    function = find(torch, F, name)
    if not numbers:
        return function(*operands)
    rest = [column.tolist() for column in operands[1:]]
    return torch.cat([function(operands[0][i:i + 1], *values) for i, values in enumerate(zip(*rest))])


def record(name, rows, dtype, numbers=False):
    columns = list(map(list, zip(*rows))) if isinstance(rows[0], list) else [rows]
    operands = [torch.tensor(column, dtype=dtype) for column in columns]
    taken = 1 if numbers else len(operands)
    for t in operands[:taken]:
        if dtype.is_floating_point:
            t.requires_grad_()
    try:
        result = call(name, operands, numbers)
    except (RuntimeError, TypeError, NotImplementedError, ValueError):
        return None
    case = {"op": name, "dtype": str(dtype).removeprefix("torch."), "operands": columns, "numbers": numbers,
            "result": str(result.dtype).removeprefix("torch."), "values": result.detach().tolist()}
    if result.requires_grad:
        try:
            grads = torch.autograd.grad(result.sum(), operands[:taken], allow_unused=True)
            case["gradients"] = [None if g is None else g.tolist() for g in grads]
        except (RuntimeError, NotImplementedError):
            pass
    return case


def main():
    cases = []
    for dtype in (torch.float64, torch.float32):
        for names, rows, numbers in ((UNARY, GRID, False), (BINARY, PAIRS, False), (WITH_WIDTH, WIDTHS, True),
                                     (TERNARY, TRIPLES, False)):
            cases += [record(name, rows, dtype, numbers or (name == "hardtanh" and rows is TRIPLES)) for name in names]
    for dtype in (torch.int64, torch.int32, torch.uint8, torch.bool):
        whole = [bool(v) if dtype == torch.bool else abs(v) if dtype == torch.uint8 else v for v in WHOLE]
        pairs = [[a, b] for a in whole for b in whole if b != 0]
        cases += [record(name, whole, dtype) for name in UNARY]
        cases += [record(name, pairs, dtype) for name in BINARY if not (name == "pow" and dtype != torch.uint8)]
    cases = [case for case in cases if case is not None]
    path = pathlib.Path(__file__).parent / "pointwise_cases.jsonl"
    path.write_text("".join(json.dumps(case, separators=(",", ":")) + "\n" for case in cases))
    print(len(cases), "cases,", sum(len(case["values"]) for case in cases), "values of", torch.__version__)


if __name__ == "__main__":
    main()
