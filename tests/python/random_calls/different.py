"""Where Weft answers otherwise than PyTorch on purpose. Each rule quotes the line of docs/from_pytorch.md that says so."""

import dataclasses
import math
import re
import typing


@dataclasses.dataclass
class Rule:
    page: str  # text of docs/from_pytorch.md
    calls: str  # names of functions, or "" for all
    what: str  # "value", "gradient", "refused", "accepted", "recorded", "no gradient"; several with |
    text: str = ""  # a regular expression for the difference in words
    when: typing.Callable = lambda call: True


def numbers(call):
    """All numbers in the tensors of a call."""
    for tensor in call.inputs.values():
        for v in tensor.data:
            yield from v if isinstance(v, list) else [v]


def dtypes(call):
    return {tensor.dtype for tensor in call.inputs.values()}


def has_ties(call):
    data = [str(v) for v in next(iter(call.inputs.values())).data]
    return len(set(data)) < len(data)


def has_zero(call):
    return any(v == 0 for v in numbers(call))


def meets_a_bound(call):
    """Whether an element of the first tensor, as its dtype holds it, equals a bound, a tensor or a number of the call."""
    first, *others = call.inputs.values()
    digits = {"float16": 2**-10, "bfloat16": 2**-7}.get(first.dtype, 0)
    bounds = [float(v) for v in re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", call.expression)]
    bounds += [float(v) for t in others for v in t.data]
    return any(math.isclose(float(v), bound, rel_tol=digits) for v in first.data for bound in bounds)


def is_complex(call):
    return any(dtype.startswith("complex") for dtype in dtypes(call))


def is_empty(call):
    return any(0 in tensor.shape for tensor in call.inputs.values())


def is_scalar(call):
    return any(tensor.shape == [] for tensor in call.inputs.values())


RULES = [
    Rule("Calls that PyTorch refuses", "", "accepted",
         "view size is not compatible|divisible by 2|INTERNAL ASSERT|invalid combination|missing 1 required|did not match|must not be a floating point"),
    Rule("Calls that PyTorch refuses", "lstsq isin unique kron min max median nanmedian aminmax vector_norm index_add flatten "
         "fftshift ifftshift softmax log_softmax amin amax", "accepted",
         when=lambda call: is_empty(call) or is_scalar(call) or "lstsq" in call.expression),
    Rule("The gradient where the value is NaN", "acosh arccosh asin arcsin acos arccos atanh arctanh log log2 log10 log1p sqrt rsqrt logit erfinv ndtri xlogy "
         "xlog1py entr", "gradient", "nan"),
    Rule("poles of `digamma` and `polygamma`", "digamma polygamma psi lgamma gammaln mvlgamma", "gradient|value",
         when=lambda call: any(float(v) <= 0 and float(v).is_integer() for v in numbers(call))),
    Rule("| `clamp`: an element equal to a bound |", "clamp clip clamp_min clamp_max", "gradient", "", meets_a_bound),
    Rule("constants of PyTorch's own gradients", "hardsigmoid celu", "gradient"),
    Rule("the gradient of `polar` by the length", "polar", "gradient", "", has_zero),
    Rule("`logical_and_` and its like", "logical_and logical_or logical_xor logical_not eq ne lt le gt ge greater greater_equal less "
         "less_equal not_equal", "gradient|recorded", "", lambda call: ".clone()" in call.expression),
    Rule("| complex to real: ", "", "refused", "does not hold the imaginary parts", is_complex),
    Rule("| `any`, `all` of uint8 |", "any all", "value", "dtype bool; expected uint8"),
    Rule("which of equal elements", "kthvalue topk mode median nanmedian sort argsort max min quantile nanquantile", "value|gradient",
         "", has_ties),
    Rule("the gradient of `pow` at a base of 0", "pow float_power", "gradient", "", lambda call: is_complex(call) and has_zero(call)),
    Rule("the variance of one complex element", "var std var_mean std_mean", "gradient", "nan", is_complex),
    Rule("derivatives at the poles", "asin acos asinh acosh atan atanh arcsin arccos arcsinh arccosh arctan arctanh reciprocal div divide "
         "true_divide addcdiv", "gradient", "inf|nan", is_complex),
    Rule("a number with a fraction among integers", "addcmul index_add add sub", "refused", "among int|among uint|among bool"),
    Rule("`median`, `nanmedian` of no integers", "median nanmedian", "refused"),
    Rule("`cumsum_`, `cumprod_` of integers", "cumsum cumprod", "refused", "do not fit in place|cannot be written into"),
    Rule("the imaginary part of complex `logcumsumexp`", "logcumsumexp", "value", "j\\)", is_complex),
    Rule("the gradient of `nextafter` where both operands are equal", "nextafter", "gradient", "expected -?0.0$"),
    Rule("the gradient of `index_add` by its source with a complex", "index_add", "gradient", "", lambda call: is_complex(call) and "j" in call.expression),
    Rule("the gradient of `addcmul` by a factor beside an integer", "addcmul addcdiv", "gradient", "",
         lambda call: any("int" in dtype or dtype == "bool" for dtype in dtypes(call))),
    Rule("`kl_div` with a target of 0", "kl_div xlogy xlog1py", "gradient", "expected nan"),
    Rule("a complex 0 to a negative power", "pow float_power", "value", "nan", lambda call: is_complex(call) and has_zero(call)),
    Rule("`cumprod(dtype=bool)`", "cumprod", "refused", "expected a dtype of numbers, got bool"),
    Rule("| comparisons with a number out of the dtype's range", "eq ne lt le gt ge less less_equal greater greater_equal not_equal isin",
         "value", "(True|False); expected", lambda call: "uint8" in dtypes(call) and any(v < 0 for v in numbers(call))),
    Rule("the gradient of `scatter_reduce` and `index_reduce`", "scatter_reduce index_reduce", "gradient", "",
         lambda call: "include_self=False" in call.expression and re.search("amax|amin", call.expression)),
    Rule("`lp_pool` with norm 1", "lp_pool1d lp_pool2d lp_pool3d", "gradient", "expected -?0.0$",
         lambda call: re.search(r", 1[,)]", call.expression)),
    Rule("functions of floats, given integers without elements", "softmax log_softmax", "refused", "expected a floating-point", is_empty),
    Rule("numbers out of the dtype's range as the threshold", "threshold", "value|accepted", "", lambda call: "uint8" in dtypes(call)),
    Rule("0-d tensors out of the dtype's range as bounds", "maximum minimum fmax fmin clamp clip", "value", "", lambda call: "uint8" in dtypes(call) and
         any(v < 0 for v in numbers(call))),
    Rule("| a number out of the dtype's range in", "", "refused", "is out of the range of"),
    Rule("`quantile` of nothing", "quantile nanquantile", "accepted"),
    Rule("float16 with a complex64 of no dimensions", "", "value", "dtype (complex64|float32); expected (b?complex32|b?float16)", is_complex),
    Rule("| `special.ndtr`, `log_ndtr`, `erfcx` |", "ndtr log_ndtr erfcx ndtri", "value|gradient", "", lambda call: "float64" not in dtypes(call)),
    Rule("| `erf`, `gelu` of 16-bit floats |", "erf gelu", "value", when=lambda call: "float64" not in dtypes(call)),
    Rule("| gradients of `atan2` of tiny", "atan2 arctan2 hypot", "gradient", "",
         lambda call: has_zero(call) or "uint8" in dtypes(call)),
    Rule("bool in products of matrices", "inner matmul mm dot", "refused", "bool cannot be multiplied"),
]


def documented(call, what, text):
    """Whether a difference is one that the page documents."""
    called = set(re.findall(r"(\w+?)_?\(", call.expression)) | set(re.findall(r" (//|%|\*\*) ", call.expression))
    return any(what in rule.what.split("|") and (not rule.calls or called & set(rule.calls.split())) and
               re.search(rule.text, text) and rule.when(call) for rule in RULES)
