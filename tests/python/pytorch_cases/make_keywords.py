"""Records a call of every keyword of PyTorch's functions with a value that is not the default: keywords.jsonl.

usage: python make_keywords.py     (with PyTorch; written for 2.15; make_cases.py first)

A call is a recorded case of make_cases.py, or a line of keywords.calls, with the keyword added. Its value is the first of
those that VALUES has for the name, or for function.name, that PyTorch takes and that changes the result. Functions that
draw record dtype and shape alone. keywords.jsonl also has every keyword by function, so that the test can tell which of
them no case covers."""

import ast
import inspect
import json
import pathlib

import torch

import make_cases

FOLDER = pathlib.Path(__file__).parent
SPACES = {"torch": ("m", torch, ""), "torch.Tensor": ("x", torch.Tensor, ""),
          "torch.nn.functional": ("F", torch.nn.functional, ""), "torch.linalg": ("m.linalg", torch.linalg, "linalg_"),
          "torch.special": ("m.special", torch.special, "special_"), "torch.fft": ("m.fft", torch.fft, "fft_")}
DRAWS = """bernoulli bernoulli_ dropout dropout_ dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout rrelu
rrelu_ rand randn randint rand_like randn_like randint_like randperm normal normal_ uniform_ exponential_ cauchy_ geometric_
log_normal_ random_ multinomial poisson gumbel_softmax empty empty_like empty_strided empty_permuted new_empty
new_empty_strided feature_dropout scaled_dot_product_attention.dropout_p svd_lowrank pca_lowrank binomial""".split()

# In turn until PyTorch takes one that changes the result.
VALUES = {
    "dim": ["1", "0", "-2", "(0, 1)", "None"], "dims": ["(0,)", "1"], "keepdim": ["True"], "keepdims": ["True"],
    "dtype": ["m.float64", "m.float32", "m.int64", "m.complex128", "m.int32"], "alpha": ["2", "0.5"], "beta": ["0.5", "2"],
    "stride": ["2", "1", "3"], "padding": ["1", "'same'"], "dilation": ["2"], "reduction": ["'sum'", "2"], "p": ["1", "3", "0.25"],
    "eps": ["0.25"], "bias": ["v.detach()", "v.detach()[:2]", "v.detach()[:1]"], "weight": ["w.detach()", "w.detach()[:1]", "v.detach()", "x.detach()"],
    "norm": ["'ortho'", "'forward'"], "ceil_mode": ["True"], "reduce": ["'add'", "'amax'", "'sum'", "'prod'"],
    "min": ["0", "-0.5"], "max": ["1", "0.5"], "groups": ["2", "1"], "s": ["(2, 2)", "(3,)", "4"], "n": ["4", "2", "3"],
    "upper": ["True", "False"], "margin": ["0.5", "2.0"], "training": ["True", "False"], "offset": ["1"], "offsets": ["m.tensor([0, 2])"], "value": ["0.5", "2"],
    "correction": ["0", "2"], "diagonal": ["1", "-1"], "return_indices": ["True"], "dim1": ["0", "1", "-1"],
    "dim2": ["0", "1", "-1"], "output_size": ["(4, 4)", "(5, 5)", "(9,)", "(4, 4, 4)"], "rtol": ["0.5"], "atol": ["0.5", "10.0"],
    "output_padding": ["1"], "rounding_mode": ["'floor'", "'trunc'"], "mode": ["'sum'", "'bilinear'", "'reflect'", "'complete'", "'r'"],
    "device": ["'cpu'"], "accumulate": ["True"], "include_self": ["False"], "left": ["False"], "unbiased": ["False"],
    "lambd": ["0.75", "1.5"], "equal_nan": ["True"], "descending": ["True"], "stable": ["True"], "count_include_pad": ["False"],
    "hop_length": ["2"], "win_length": ["3"], "window": ["m.ones(4, dtype=m.float64) / 2", "m.ones(4) / 2"], "center": ["False"],
    "normalized": ["True"], "onesided": ["False"], "return_complex": ["True"], "transpose": ["True"], "decimals": ["1"],
    "get_infos": ["True"], "check_errors": ["True"], "dx": ["0.5"], "padding_idx": ["1"], "nan": ["0.5"], "posinf": ["2.0"],
    "neginf": ["-2.0"], "rcond": ["0.5"], "k": ["0", "1"], "sorted": ["False"], "unitriangular": ["True"], "swap": ["True"],
    "align_corners": ["True"], "ignore_index": ["0", "2"], "driver": ["'gels'", "'gelsd'"], "ord": ["1", "'nuc'", "'fro'", "3"],
    "pos_weight": ["w.detach()"], "weights": ["w.detach()", "v.detach() + 1"], "minlength": ["6"], "out_int32": ["True"],
    "right": ["True"], "pad": ["1"], "fweights": ["m.tensor([1, 2, 3])"], "aweights": ["w.detach()"], "blank": ["1"],
    "zero_infinity": ["True"], "prepend": ["y"], "append": ["y"], "include_last_offset": ["True"], "start_dim": ["1"],
    "end_dim": ["0", "1"], "density": ["True"], "range": ["(-1.0, 2.0)", "[-1.0, 2.0, -1.0, 2.0]"], "length": ["3"],
    "log_target": ["True"], "replacement": ["True"], "fill_value": ["7", "0.5"], "lower": ["0.2"], "upper ": ["0.5"],
    "start": ["1", "0.5"], "end": ["2"], "step": ["2"], "reverse": ["True"], "b_ih": ["m.ones(12, dtype=m.float64)", "m.ones(9, dtype=m.float64)", "m.ones(3, dtype=m.float64)"],
    "b_hh": ["m.ones(12, dtype=m.float64) / 2", "m.ones(9, dtype=m.float64) / 2", "m.ones(3, dtype=m.float64) / 2"], "some": ["False"], "compute_uv": ["False"],
    "largest": ["False"], "non_blocking": ["True"], "mean": ["2.0"], "std": ["0.5"], "return_inverse": ["True"],
    "return_counts": ["True"], "divisor_override": ["3"], "momentum": ["0.5"], "label_smoothing": ["0.2"], "full": ["True"],
    "attn_mask": ["m.tensor([[True, False], [True, True]])"], "is_causal": ["True"], "UPLO": ["'U'"], "hermitian": ["True"],
    "r": ["3"], "with_replacement": ["True"], "spacing": ["0.5"], "edge_order": ["2"], "assume_unique": ["True"],
    "invert": ["True"], "unpack_data": ["False"], "unpack_pivots": ["False"], "indexing": ["'xy'"], "pow": ["1"],
    "side": ["'right'"], "sorter": ["m.tensor([4, 3, 2, 1, 0])"], "storage_offset": ["1"], "median": ["1.0"], "sigma": ["2.0"],
    "wrap": ["True"], "requires_grad": ["True"], "copy": ["True"], "from": ["1"], "to": ["5"], "approximate": ["'tanh'"],
    "tau": ["2"], "hard": ["True"], "min_val": ["-0.5"], "max_val": ["0.5"], "delta": ["0.5"], "inplace": ["True"],
    "negative_slope": ["0.5"], "threshold": ["0.5"], "bins": ["4"], "inputs": ["[x]"], "size": ["1"],
    "memory_format": ["m.contiguous_format"], "layout": ["m.strided"], "other": ["y"],
    "as_tuple": ["True"], "interpolation": ["'lower'", "'nearest'"], "generator": ["m.Generator()"],
    "running_mean": ["w.detach()"], "running_var": ["w.detach()"], "scale_factor": ["2"], "antialias": ["True"],
    "recompute_scale_factor": ["True"], "enable_gqa": ["True"], "scale": ["0.5", "2.0"], "dropout_p": ["0.5"],
    "use_input_stats": ["False"], "norm_type": ["1"], "num_classes": ["5"], "log_input": ["False"],
    "distance_function": ["lambda a, b: (a - b).abs().sum(-1)"], "full_matrices": ["False"], "compute_mode": ["'donot_use_mm_for_euclid_dist'"],
    "ndigits": ["1"], "dim0": ["1"], "nbins": ["3"], "base": ["2.0"], "steps": ["4"], "periodic": ["False"], "sym": ["True"],
    "output_ratio": ["0.5", "(0.5, 0.5)"], "N": ["4"], "increasing": ["True"], "increase": ["True"], "maximize": ["True"],
    "repeats": ["2"],
    "niter": ["3"], "q": ["2"], "elementwise_affine": ["True"], "size_average": ["False"],
    "cudnn_enable": ["False"], "cudnn_enabled": ["False"], "align_to_window": ["True"], "pad_mode": ["'constant'"],
}

# Schema arguments that no Python function takes, or that only PyTorch's compilers use.
UNOFFERED = ("names", "reverse")


def space_of(function):
    head, _, name = function.rpartition(".")
    return next((s, head, name) for s, (prefix, *_) in SPACES.items() if prefix == head)


def keywords_of(place, name, prefix):
    """The names of the arguments that may be left out."""
    function = getattr(place, name)
    try:
        parameters = list(inspect.signature(function).parameters.values())
        if not any(p.kind == p.VAR_POSITIONAL for p in parameters):
            return {p.name: repr(p.default) for p in parameters if p.default is not p.empty and p.name != "self"}
    except (TypeError, ValueError):
        pass
    found = {}
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{prefix}{name}"):
        outs = [a.name for a in schema.arguments if a.is_out]
        if len(outs) == 1 and place is not torch.Tensor:
            found["out"] = "None"
        for a in schema.arguments:
            if (a.has_default_value() or a.kwarg_only) and not a.is_out and a.name not in UNOFFERED and not outs:
                found.setdefault(a.name, repr(a.default_value) if a.has_default_value() else None)
    return found


def table():
    """Every keyword with its default, by function."""
    names = json.loads((FOLDER / "names.json").read_text())["names"]
    return {f"{prefix}.{name}": keywords_of(place, name, schema)
            for space, (prefix, place, schema) in SPACES.items() for name in names[space]
            if callable(getattr(place, name, None))}


def called(node):
    """m.linalg.norm of `m.linalg.norm(...)`; x.norm of a method of anything."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    head = ast.unparse(node.func.value)
    return f"{head if head in ('m', 'F', 'm.linalg', 'm.special', 'm.fft') else 'x'}.{node.func.attr}"


def other_forms(function, calls):
    """Calls of a method, an in-place form or a function in another place, made of those that there are."""
    _, head, name = space_of(function)
    bare = name.removesuffix("_")
    for other in dict.fromkeys([f"x.{bare}", f"m.{bare}", f"F.{bare}", f"m.special.{bare}", f"m.linalg.{bare}"]):
        if other == function:
            continue
        for family, node in list(calls.get(other, ())):
            method = other.startswith("x.")
            operands = [ast.unparse(a) for a in node.args]
            named = [f"{k.arg}={ast.unparse(k.value)}" for k in node.keywords]
            if method:
                operands.insert(0, ast.unparse(node.func.value))
            if not operands or operands[0].startswith(("'", "[", "(", "*")):
                continue
            first = f"({operands[0]})" + (".detach().clone()" if name != bare else "")
            text = f"{first}.{name}({', '.join(operands[1:] + named)})" if head == "x" else \
                f"{function}({', '.join(operands + named)})"
            try:
                yield family, ast.parse(text, mode="eval").body
            except SyntaxError:
                continue


def families():
    """The inputs and the recorded expressions of each family, and of keywords.calls."""
    for path in sorted(FOLDER.glob("*.jsonl")):
        if path.stem in ("keywords", "pointwise_cases"):
            continue
        first, *cases = map(json.loads, path.open())
        if "inputs" in first:
            yield path.stem, first["inputs"], [c["expression"] for c in cases if "result" in c]
    inputs, lines = make_cases.family(FOLDER / "keywords.calls")
    yield "keywords", inputs, lines


def same(a, b):
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(same, a, b))
    return a == b or a != a and b != b


def with_keyword(node, keyword, value, function):
    """The call with the keyword; None where it has that already, by name or by position."""
    text = ast.unparse(node)
    given = [ast.unparse(k.value) for k in node.keywords if k.arg == keyword]
    if given:
        return text if value == given[0] else None
    if keyword == "out":
        value = f"m.empty_like({text})"
    return f"{text[:-1]}{'' if text.endswith('()') else ', '}{keyword}={value})"


def answer(expression, inputs, draws):
    if "out=" in expression:
        with torch.no_grad():
            case = make_cases.answer(expression, inputs)
    else:
        case = make_cases.answer(expression, inputs)
    if case and draws:
        case.pop("gradients", None)
        for result in case["result"] if isinstance(case["result"], list) else [case["result"]]:
            result.pop("values", None)
    return case


def record():
    torch.manual_seed(0)
    calls, covered, inputs_of = {}, {}, {}
    for name, inputs, expressions in families():
        inputs_of[name] = inputs
        for expression in expressions:
            tree = ast.parse(expression, mode="eval").body
            for node in ast.walk(tree):
                function = called(node)
                if function is None:
                    continue
                calls.setdefault(function, []).append((name, node if node is tree else ast.parse(ast.unparse(node), mode="eval").body))
                if node is tree:
                    for k in node.keywords if name != "keywords" else ():
                        covered.setdefault((function, k.arg), set()).add(ast.unparse(k.value))
    keywords, cases, missing = table(), [], []
    for function in keywords:
        calls.setdefault(function, []).extend(other_forms(function, calls))
    for function, defaults in keywords.items():
        name = function.rsplit(".", 1)[1]
        for keyword, default in list(defaults.items()):
            if covered.get((function, keyword), set()) - {default}:
                continue
            draws = name in DRAWS or f"{name}.{keyword}" in DRAWS
            found, works = None, False
            nodes = sorted(calls.get(function, ()), key=lambda c: (c[0] != "keywords", len(ast.unparse(c[1]))))
            written = [c for c in nodes if c[0] == "keywords" and any(k.arg == keyword for k in c[1].keywords)]
            for family, node in [*written, *nodes][:25]:
                plain = answer(ast.unparse(node), inputs_of[family], draws)
                works = works or plain is not None
                given = [ast.unparse(k.value) for k in node.keywords if k.arg == keyword]
                for value in given or VALUES.get(keyword, [""] if keyword == "out" else []):
                    if value == default:
                        continue
                    expression = with_keyword(node, keyword, value, function)
                    case = expression and answer(expression, inputs_of[family], draws)
                    if not case or not json.dumps(case).isascii():
                        continue
                    changed = plain is None or case.get("gradients") != plain.get("gradients") or not same(plain["result"], case["result"])
                    case = {"function": function, "keyword": keyword, "family": family, **({"draws": True} if draws else {}), **case}
                    if changed or found is None:
                        found = case
                    if changed:
                        break
                if found and ((family, node) in written or keyword == "out" or plain is None or not same(plain["result"], found["result"])):
                    break
            if found:
                cases.append(found)
            elif keyword == "out" and works:  # a schema of the compiler's, which Python does not offer
                del keywords[function][keyword]
            else:
                missing.append(f"{function} {keyword}={default}")
    with open(FOLDER / "keywords.jsonl", "w") as file:
        first = {"torch": torch.__version__.split("+")[0], "inputs": inputs_of["keywords"],
                 "keywords": {f: list(k) for f, k in keywords.items() if k}}
        for line in [first, *cases]:
            print(json.dumps(line), file=file)
    print(len(cases), "cases of", sum(map(len, keywords.values())), "keywords; none for", len(missing))
    print(*missing, sep="\n")


if __name__ == "__main__":
    record()
