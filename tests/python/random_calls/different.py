"""Where Weft answers otherwise than PyTorch on purpose. Each rule quotes the line of docs/from_pytorch.md that says so."""

import dataclasses
import itertools
import math
import re
import struct
import typing

WORDS = {"nan": math.nan, "inf": math.inf, "nanj": complex(0, math.nan), "infj": complex(0, math.inf)}


class Difference:
    """A difference between two answers to a call: `what` and `text` are judge.compare's. Of an element of a result or a gradient,
    `key` is the number of the result or the name of the input, `place` the element, `got` and `want` are its two values."""

    def __init__(self, call, what, text, ours):
        self.call, self.what, self.text, self.ours = call, what, text, ours
        found = re.match(r"(\w+): element (\d+) is (.*); expected (.*)", text)
        self.key, self.place, self.got, self.want = None, None, None, None
        if found:
            self.key, self.place = found[1], int(found[2])
            self.got, self.want = (eval(number, dict(WORDS)) for number in found.groups()[2:])  # noqa: S307

    def among(self, *names):
        """Whether the element is of the gradient of one of these inputs."""
        return self.key in names

    def within(self, relative):
        return self.place is not None and abs(self.got - self.want) <= relative * abs(self.want)

    def operands(self):
        """For each result of a pointwise call that the element belongs to: the elements of the inputs, and those of the results."""
        inputs = self.call.inputs
        if self.place is None:
            return
        full = broadcast([t.shape for t in inputs.values()])
        if full is None:
            return
        own = inputs[self.key].shape if self.key in inputs else full
        results = [v[2] for v in self.ours["values"] if isinstance(v, tuple) and v[1] == full]
        for position in itertools.product(*map(range, full)):
            if offset(position, own) == self.place:
                yield ([stored(t.data[offset(position, t.shape)], t.dtype) for t in inputs.values()],
                       [values[offset(position, full)] for values in results])

    def any(self, test):
        """Whether `test` holds for the inputs' elements of one of the results."""
        return any(test(*given) for given, _ in self.operands())


def broadcast(shapes):
    full = []
    for sizes in itertools.zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1):
        larger = {size for size in sizes if size != 1}
        if len(larger) > 1:
            return None
        full.insert(0, larger.pop() if larger else 1)
    return full


def offset(position, shape):
    """The row-major number of the element of a tensor that broadcasting puts there."""
    place = 0
    for at, size in zip(position[len(position) - len(shape):], shape):
        place = place * size + (at if size != 1 else 0)
    return place


def stored(value, dtype):
    """The value as a tensor of this dtype holds it."""
    if isinstance(value, list):
        return complex(*(stored(part, "float32" if dtype == "complex64" else "float64") for part in value))
    if dtype == "bfloat16":
        bits, = struct.unpack("<I", struct.pack("<f", value))
        return struct.unpack("<f", struct.pack("<I", (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000))[0]
    form = {"float16": "<e", "float32": "<f"}.get(dtype)
    return struct.unpack(form, struct.pack(form, value))[0] if form else value


@dataclasses.dataclass
class Rule:
    page: str  # text of docs/from_pytorch.md
    calls: str  # names of functions, or "" for all
    what: str  # "value", "gradient", "refused", "accepted", "recorded", "no gradient"; several with |
    text: str = ""  # a regular expression for the difference in words
    when: typing.Callable = lambda d: True  # of a Difference


def dtypes(d):
    return {tensor.dtype for tensor in d.call.inputs.values()}


def first(d):
    return next(iter(d.call.inputs.values()))


def is_complex(d):
    return any(dtype.startswith("complex") for dtype in dtypes(d))


def is_integer(dtype):
    return "int" in dtype or dtype == "bool"


def is_empty(d):
    return any(0 in tensor.shape for tensor in d.call.inputs.values())


def is_scalar(d):
    return first(d).shape == []


def numbers_in(expression):
    return [float(v) for v in re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?", expression)]


def has_nan_value(d):
    return any(v != v for _, values in d.operands() for v in values)


def is_pole_of_gamma(d):
    return d.any(lambda a: a <= 0 and float(a).is_integer())


def meets_a_bound(d):
    """Whether the element, as its dtype holds it, equals a bound, a tensor or a number of the call."""
    digits = {"float16": 2**-10, "bfloat16": 2**-7, "float32": 2**-23}.get(first(d).dtype, 0)
    literals = numbers_in(d.call.expression)
    return d.any(lambda a, *bounds: any(math.isclose(a, bound, rel_tol=digits) for bound in (*bounds, *literals)))


def line_through(d):
    """The elements of the first tensor that the call compares with the differing one: a line along its dimension, or all."""
    shape, data = first(d).shape, first(d).data
    along = re.search(r"\(a(?:, [\d.]+)?, (?:dim=)?(-?\d+)[,)]", d.call.expression)
    if not along or not shape or d.key == "a" and d.place >= len(data):
        return data
    dim = int(along[1]) % len(shape)
    inner, n = math.prod(shape[dim + 1:]), shape[dim]
    line = d.place // inner // n * inner + d.place % inner if d.key == "a" else d.place
    return [data[(line // inner * n + i) * inner + line % inner] for i in range(n)]


def has_ties(d):
    line = [str(stored(v, first(d).dtype)) for v in line_through(d)]
    return len(set(line)) < len(line)


def is_pole(d):
    """Whether the element is a pole of a complex function's derivative, or is divided by zero."""
    name = re.search(r"(\w+?)_?\(", d.call.expression.replace("a.clone().", ""))[1]
    if re.search("div|reciprocal", name):
        return d.any(lambda *given: given[-1] == 0)
    imaginary = re.search("asinh|arcsinh|atan$|arctan$", name)
    return d.any(lambda z: z in ((1j, -1j) if imaginary else (1, -1)))


def is_full_turn(d):
    turns = (complex(d.got).imag - complex(d.want).imag) / (2 * math.pi)
    return math.isclose(complex(d.got).real, complex(d.want).real, rel_tol=1e-5, abs_tol=1e-5) and abs(turns - round(turns)) < 1e-5


def target_is_zero(d):
    """Of kl_div, whose results may be reduced, the element of the target; of xlogy and xlog1py that of the first factor."""
    given = list(d.call.inputs.values())
    if "kl_div" in d.call.expression:
        return d.among("b") and given[1].data[d.place] == 0
    return d.any(lambda a, *b: a == 0)


RULES = [
    Rule("Calls that PyTorch refuses", "kron isin conv_tbc", "accepted", "view size is not compatible"),
    Rule("Calls that PyTorch refuses", "view_as_complex", "accepted", "storage_offset divisible by 2"),
    Rule("Calls that PyTorch refuses", "isclose allclose", "accepted", " did not match "),
    Rule("Calls that PyTorch refuses", "sum", "accepted", 'missing 1 required positional arguments: "dim"'),
    Rule("Calls that PyTorch refuses", "add sub", "accepted", "argument alpha must not be a floating point", lambda d: ".0)" in d.call.expression),
    Rule("Calls that PyTorch refuses", "lstsq", "accepted", "lstsq: input.dim|size of tensor a"),
    Rule("Calls that PyTorch refuses", "index_reduce", "accepted", "INTERNAL ASSERT"),
    Rule("Calls that PyTorch refuses", "flatten fftshift ifftshift index_add", "accepted", "out of range|shifts|source tensor shape", is_scalar),
    Rule("Calls that PyTorch refuses", "unique min max median nanmedian aminmax vector_norm softmax log_softmax amin amax", "accepted",
         "zero sized|0 sized|non-zero size|dimension|empty tensor", is_empty),
    Rule("The gradient where the value is NaN", "acosh arccosh asin arcsin acos arccos atanh arctanh log log2 log10 log1p sqrt rsqrt logit erfinv ndtri xlogy "
         "xlog1py entr", "gradient", "nan", has_nan_value),
    Rule("poles of `digamma` and `polygamma`", "digamma polygamma psi", "gradient|value", "is -?(inf|nan);", is_pole_of_gamma),
    Rule("| `clamp`: an element equal to a bound |", "clamp clip clamp_min clamp_max", "gradient", "", meets_a_bound),
    Rule("constants of PyTorch's own gradients", "hardsigmoid celu", "gradient", "", lambda d: dtypes(d) == {"float64"} and d.within(2**-23)),
    Rule("the gradient of `polar` by the length", "polar", "gradient", "expected -?0.0$",
         lambda d: d.among("a") and d.any(lambda length, angle: length == 0)),
    Rule("`logical_and_` and its like", "logical_and logical_or logical_xor logical_not eq ne lt le gt ge greater greater_equal less "
         "less_equal not_equal", "gradient|recorded", r"is (0\.0|0j);|by PyTorch alone", lambda d: ".clone()" in d.call.expression),
    Rule("| complex to real: ", "", "refused", "does not hold the imaginary parts", is_complex),
    Rule("| `any`, `all` of uint8 |", "any all", "value", "dtype bool; expected uint8"),
    Rule("which of equal elements", "kthvalue topk mode median nanmedian sort argsort max min", "value", r"^1: element \d+ is \d+; expected \d+$",
         has_ties),
    Rule("which of equal elements", "kthvalue topk mode median nanmedian sort argsort max min quantile nanquantile", "gradient", "", has_ties),
    Rule("the gradient of `pow` at a base of 0", "pow float_power", "gradient", "expected .*nan",
         lambda d: is_complex(d) and d.any(lambda *given: given[0] == 0)),
    Rule("the variance of one complex element", "var std var_mean std_mean", "gradient", r"is \(nan.nanj\); expected \(nan",
         lambda d: is_complex(d) and "correction=0" not in d.call.expression),
    Rule("derivatives at the poles", "asin acos asinh acosh atan atanh arcsin arccos arcsinh arccosh arctan arctanh reciprocal div divide "
         "true_divide addcdiv", "gradient", "inf|nan", lambda d: is_complex(d) and is_pole(d)),
    Rule("a number with a fraction among integers", "addcmul index_add add sub", "refused", "among int|among uint|among bool"),
    Rule("`median`, `nanmedian` of no integers", "median nanmedian", "refused", "no integers", is_empty),
    Rule("`cumsum_`, `cumprod_` of integers", "cumsum cumprod", "refused", "do not fit in place|cannot be written into"),
    Rule("the imaginary part of complex `logcumsumexp`", "logcumsumexp", "value", "j\\)", is_full_turn),
    Rule("the gradient of `nextafter` where both operands are equal", "nextafter", "gradient", "expected -?0.0$",
         lambda d: d.among("b") and d.any(lambda a, b: math.isclose(a, b, rel_tol=2**-20))),
    Rule("the gradient of `index_add` by its source with a complex", "index_add", "gradient", "",
         lambda d: d.among("c") and is_complex(d) and re.search(r"alpha=\(?[^,)]*j", d.call.expression)),
    Rule("the gradient of `addcmul` by a factor beside an integer", "addcmul addcdiv", "gradient", "",
         lambda d: any(map(is_integer, dtypes(d))) and d.within(2**-20)),
    Rule("`kl_div` with a target of 0", "kl_div xlogy xlog1py", "gradient", "expected nan", target_is_zero),
    Rule("a complex 0 to the power 0 or to a negative one", "pow float_power", "value", "nan",
         lambda d: is_complex(d) and d.any(lambda *given: given[0] == 0)),
    Rule("`cumprod(dtype=bool)`", "cumprod", "refused", "expected a dtype of numbers, got bool"),
    Rule("| comparisons with a number out of the dtype's range", "eq ne lt le gt ge less less_equal greater greater_equal not_equal isin",
         "value", "is (True|False|0|1); expected", lambda d: "uint8" in dtypes(d) and any(v < 0 for t in d.call.inputs.values() for v in t.data)),
    Rule("the gradient of `scatter_reduce` and `index_reduce`", "scatter_reduce index_reduce", "gradient", "",
         lambda d: "include_self=False" in d.call.expression and re.search("amax|amin", d.call.expression)),
    Rule("`lp_pool` with norm 1", "lp_pool1d lp_pool2d lp_pool3d", "gradient", "expected -?0.0$",
         lambda d: re.search(r", 1[,)]", d.call.expression)),
    Rule("functions of floats, given integers without elements", "softmax log_softmax", "refused", "expected a floating-point", is_empty),
    Rule("numbers out of the dtype's range as the threshold", "threshold", "value|accepted", "",
         lambda d: "uint8" in dtypes(d) and any(not 0 <= v <= 255 for v in numbers_in(d.call.expression))),
    Rule("0-d tensors out of the dtype's range as bounds", "maximum minimum fmax fmin clamp clip", "value", "",
         lambda d: "uint8" in dtypes(d) and d.any(lambda *given: min(given) < 0)),
    Rule("| a number out of the dtype's range in", "", "refused", "is out of the range of"),
    Rule("`quantile` of nothing", "quantile nanquantile", "accepted", "must be non-empty", is_empty),
    Rule("float16 with a complex64 of no dimensions", "", "value", "dtype (complex64|float32); expected (b?complex32|b?float16)", is_complex),
    Rule("| `special.ndtr`, `log_ndtr`, `erfcx` |", "ndtr log_ndtr erfcx", "value|gradient", "", lambda d: "float64" not in dtypes(d)),
    Rule("| `gelu` of float32 far below 0 |", "gelu", "value", "", lambda d: d.any(lambda a: a < -2 and abs(d.got - d.want) <= 2**-23 * abs(a))),
    Rule("| gradients of `atan2` of tiny", "atan2 arctan2 hypot", "gradient", "expected -?(nan|inf)", lambda d: d.any(lambda *given: given == (0, 0))),
    Rule("| the gradient of `atan2` by its second operand beside uint8 |", "atan2 arctan2", "gradient", "",
         lambda d: first(d).dtype == "uint8" and d.among("b") and d.any(lambda a, b: a != 0)),
    Rule("bool in products of matrices", "inner matmul mm dot", "refused", "bool cannot be multiplied"),
]


def documented(call, what, text, ours):
    """Whether a difference is one that the page documents; `ours` is Weft's answer."""
    called = set(re.findall(r"(\w+?)_?\(", call.expression)) | set(re.findall(r" (//|%|\*\*) ", call.expression))
    d = Difference(call, what, text, ours)
    return any(what in rule.what.split("|") and (not rule.calls or called & set(rule.calls.split())) and
               re.search(rule.text, text) and rule.when(d) for rule in RULES)
