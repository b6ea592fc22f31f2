"""Records PyTorch's results, so that the tests do not need PyTorch.

usage: python make_cases.py [FAMILY...]     (with PyTorch; written for 2.15)

A case is an expression over `m` (torch or weft), `F` (its nn.functional) and the inputs; its results and the gradients of
the float64 and complex128 inputs are kept, or that PyTorch refuses it. Values are kept as Python prints them, complex
numbers as pairs.

FAMILY.txt becomes FAMILY.jsonl. Its lines are expressions; `{a|b}` in one stands for each of them in turn, with every
choice of the others; `name: dtype = values` is one more input; a line after `#` is a remark. A call that PyTorch refuses
is written with `!` before it. cases.jsonl has the expressions below, and for every function below one call with each
keyword that PyTorch's own signature has, at its default."""

import ast
import itertools
import json
import pathlib
import re
import sys

import torch

FOLDER = pathlib.Path(__file__).parent
STUBS = pathlib.Path(torch.__file__).parent

INPUTS = {
    "x": ("float64", [[0.5, -1.25, 2.0], [3.5, -0.75, -2.5]]),
    "y": ("float64", [[1.5, 0.25, -1.0], [0.5, 2.75, -0.5]]),
    "v": ("float64", [1.5, -0.25, 0.75]),
    "w": ("float64", [0.5, 2.0, 1.25]),
    "p": ("float64", [[0.25, 0.75, 0.5], [0.125, 0.5, 1.0]]),
    "z": ("float64", [[0.0, 3.0, 0.0], [-4.0, 0.0, 12.0]]),
    "s": ("float64", [[-2.0, 0.0, 1.0, 1.0, 4.0]]),
    "img": ("float64", [[[[0.5, 1.5, -2.0, 3.0], [1.0, 0.25, 0.75, -1.0], [2.0, -0.5, 1.25, 4.0]]]]),
    "f": ("float32", [[0.5, -1.25, 2.0], [3.5, -0.75, -2.5]]),
    "n": ("int64", [[3, 1, 2], [1, 3, 3]]),
    "i": ("int64", [1, 0, 1]),
    "j": ("int64", [[1, 0, 1], [0, 0, 1]]),
    "c": ("int64", [2, 0]),
    "b": ("bool", [[True, False, True], [False, False, True]]),
    "k": ("int64", 1),
    "r": ("float64", 2.5),
}

EXPRESSIONS = """
m.norm(x, 1)
m.norm(x, 1, 1)
m.norm(x, p=1, dim=0, keepdim=True)
m.norm(x, 3)
m.norm(x, 1.5, dim=1)
m.norm(x, 0.5)
m.norm(x, -1, 0)
m.norm(x, float('inf'), dim=1)
m.norm(x, -float('inf'))
m.norm(z, 0, dim=1)
m.norm(z, 'fro', dim=(0, 1))
m.norm(z, 3, dim=0)
m.norm(f, dtype=m.float64)
x.norm(1)
x.norm(p=2, dim=1)
m.linalg.vector_norm(x, 3)
m.linalg.vector_norm(x, 1, dim=1, keepdim=True)
m.linalg.vector_norm(x, ord=float('inf'))
m.linalg.vector_norm(f, dtype=m.float64)
m.round(x * 1.27, decimals=1)
m.round(x * 1.27, decimals=2)
m.round(x * 127, decimals=-2)
x.round(decimals=1)
(x * 1.27).round_(decimals=1)
m.add(x, y, alpha=2)
m.sub(x, y, alpha=0.5)
m.addcmul(x, y, v, value=-1.5)
m.addcmul(n, n, n, value=2)
m.addcmul(f, f, f, value=0.3)
x.clone().addcmul_(y, v, value=3)
m.index_add(x, 1, i, y, alpha=-2)
m.index_add(n, 1, i, n, alpha=3)
x.index_add(1, i, y, alpha=0.5)
x.clone().index_add_(1, i, y, alpha=0.5)
m.var(x, 1, False)
m.var(x, 1, True, True)
m.var(x, False)
m.var(x, unbiased=False)
m.var(x, dim=0, unbiased=False, keepdim=True)
m.var(x, dim=1, correction=0)
m.var(x, dim=1, correction=2)
m.var(x, dim=(0, 1), correction=0, keepdim=True)
m.std(x, 1, False)
m.std(x, False)
m.std(x, unbiased=True)
x.std(dim=1, unbiased=False)
x.var(1, correction=0.5)
m.unique(n)
m.unique(n, True, True, True)
m.unique(n, sorted=True, return_counts=True)
m.unique(n, return_inverse=True, dim=0)
m.unique(n, dim=1, return_counts=True)
n.unique(return_inverse=True)
m.unique_consecutive(n, return_inverse=True, return_counts=True)
m.unique_consecutive(n, dim=1)
m.nonzero(z, as_tuple=True)
m.nonzero(z, as_tuple=False)
m.nonzero(r, as_tuple=True)
z.nonzero(as_tuple=True)
m.where(b)
m.where(z)
m.where(b, x, 0.0)
m.where(condition=b, input=x, other=y)
m.count_nonzero(z, dim=1)
m.count_nonzero(z, dim=(0, 1))
z.count_nonzero(0)
z.count_nonzero(0, 1)
F.softplus(x, beta=2)
F.softplus(x, 2, 1.5)
F.softplus(x, beta=-0.5, threshold=1)
F.softplus(f * 12)
F.gelu(x, approximate='tanh')
m.searchsorted(s[0], x, side='right')
m.searchsorted(s[0], x, side='left', out_int32=True)
m.searchsorted(s, y[:1], right=True)
m.searchsorted(s[0].flip(0), x, sorter=m.arange(4, -1, -1))
m.bucketize(x, s[0], out_int32=True, right=True)
m.max(x, y)
m.min(x, other=y)
x.max(y)
m.max(n, k)
m.narrow(x, 1, k, 2)
x.narrow(1, k, 1)
m.scatter(x, 0, j, y, reduce='add')
m.scatter(x, 0, j, 2.5, reduce='multiply')
m.scatter(x, 0, j, value=2.5)
m.scatter(input=x, dim=0, index=j, src=y)
x.clone().scatter_(1, j, y, reduce='multiply')
x.clone().scatter_(1, j, 3.0, reduce='add')
m.scatter_reduce(x, 1, j, y, reduce='amax', include_self=False)
F.embedding(i, x, padding_idx=1)
F.embedding(i, x, padding_idx=-1)
m.embedding(x, i, padding_idx=0)
m.embedding(x, i, -1)
x.to('cpu', m.float32)
x.to(m.float32, False, True)
x.to(f, False, True)
x.to(device='cpu', dtype=m.float32, non_blocking=True, copy=True)
n.to('cpu', m.float64, False, True)
x.sum(dim=k)
m.sum(x, k)
m.full((2, 2), r.detach())
x.reshape(m.tensor(3), 2)
x.reshape(m.tensor(3), m.tensor(2))
x.expand(m.tensor(2), -1, -1)
m.zeros(m.tensor(2), 3)
m.unsqueeze(x, k)
x.select(1, k)
x.split(k, dim=1)
m.split(x, split_size_or_sections=[1, 2], dim=1)
m.flip(x, dims=(0,))
m.roll(x, shifts=1, dims=0)
m.softmax(x, k)
m.cumsum(x, dim=k)
m.bernoulli(p, 0.0)
m.bernoulli(p, 1.0)
F.unfold(img, 2)
F.unfold(img, kernel_size=(2, 3), dilation=1, padding=(1, 0), stride=2)
F.unfold(img, 2, dilation=(1, 2), padding=1, stride=1)
F.unfold(img[0], (3, 2), stride=(1, 2))
x.unfold(dimension=1, size=2, step=1)
F.softmax(x)
F.log_softmax(img[0])
F.dropout(x, 0.5, False, inplace=True)
F.relu(x, inplace=False)
F.cross_entropy(x, c, weight=w.detach())
F.cross_entropy(x, c, w.detach(), reduction='sum')
F.cross_entropy(x, c, weight=w.detach(), reduction='none', ignore_index=2)
F.cross_entropy(x, c, weight=w.detach(), label_smoothing=0.2)
F.cross_entropy(x, c, weight=w.detach(), label_smoothing=0.2, ignore_index=0)
F.cross_entropy(x, p, weight=w.detach())
F.cross_entropy(x, p, weight=w.detach(), label_smoothing=0.3, reduction='none')
F.cross_entropy(img, m.tensor([[[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]]), weight=w.detach()[:1])
F.nll_loss(x, c, weight=w.detach())
F.nll_loss(x, c, w.detach(), ignore_index=2)
F.nll_loss(x, c, weight=w.detach(), reduction='none')
F.nll_loss(x, c, weight=w.detach(), reduction='sum')
F.binary_cross_entropy_with_logits(x, p, weight=w.detach())
F.binary_cross_entropy_with_logits(x, p, pos_weight=w.detach())
F.binary_cross_entropy_with_logits(x, p, w.detach(), pos_weight=v.detach() + 1, reduction='sum')
F.binary_cross_entropy_with_logits(x, p, pos_weight=w.detach(), reduction='none')
"""

# The positional arguments of each function; `-` for methods alone, by where PyTorch has it.
CALLS = {
    "m": """neg:x abs:x sign:x square:x floor:x ceil:x round:x trunc:x reciprocal:x sqrt:p rsqrt:p exp:x expm1:x log:p log1p:p
        sin:x cos:x tanh:x erf:x sigmoid:x relu:x add:x,y sub:x,y mul:x,y div:x,y pow:p,y maximum:x,y minimum:x,y atan2:x,y
        eq:x,y ne:x,y lt:x,y le:x,y gt:x,y ge:x,y logical_and:x,y logical_or:x,y logical_xor:x,y logical_not:x clamp:x,-1
        clip:x,-1 addcmul:x,y,v lerp:x,y,v where:b,x,y masked_fill:x,b,2 matmul:x,y.t() mm:x,y.t() bmm:x[None],y.t()[None]
        mv:x,v dot:v,w outer:v,w addmm:x,x@y.t(),y index_select:x,1,i index_add:x,1,i,y index_copy:x,1,c,y[:,:2]
        index_fill:x,1,i,2 take:x,i put:x,c,v[:2] embedding:x,i index_put:x,[c.flip(0)*0],v cat:[x,y] stack:[x,y] tile:x,(2,1)
        masked_select:x,b masked_scatter:x,b,y nonzero:z argwhere:z count_nonzero:z flip:x,(0,) fliplr:x flipud:x roll:x,1
        sum:x mean:x prod:x amax:x amin:x any:z all:z logsumexp:x,1 norm:x max:x min:x argmax:x argmin:x var:x std:x
        cumsum:x,0 gather:x,0,j take_along_dim:x,j scatter:x,0,j,y scatter_add:x,0,j,y scatter_reduce:x,0,j,y,'sum' unique:n
        unique_consecutive:n bincount:i searchsorted:s[0],x bucketize:x,s[0] softmax:x,1 log_softmax:x,1 layer_norm:x,(3,)
        rms_norm:x,(3,) zeros:2,3 ones:2,3 full:(2,),3.5 arange:3 linspace:0,1,5 eye:3 zeros_like:x ones_like:x full_like:x,2.5
        reshape:x,(3,2) transpose:x,0,1 t:x permute:x,(1,0) select:x,0,1 narrow:x,1,0,2 unsqueeze:x,0 squeeze:x[None]
        broadcast_to:v,(2,3) diagonal:x flatten:x as_strided:x,(2,2),(1,1) split:x,1 chunk:x,2 unbind:x clone:x detach:x isnan:x
        isinf:x isfinite:x equal:x,y allclose:x,y isclose:x,y movedim:x,0,1 moveaxis:x,0,1 unflatten:x,1,(3,1) ravel:x
        atleast_1d:r floor_divide:n,2 remainder:n,2 float_power:p,2 tensor:[1.5,2] as_tensor:[1.5,2] asarray:[1.5,2]""",
    "F": """relu:x silu:x softplus:x gelu:x linear:x,y embedding:i,x one_hot:i softmax:x,1 log_softmax:x,1 layer_norm:x,(3,)
        rms_norm:x,(3,) cross_entropy:x,c nll_loss:x,c mse_loss:x,y l1_loss:x,y huber_loss:x,y smooth_l1_loss:x,y
        binary_cross_entropy_with_logits:x,p scaled_dot_product_attention:x,y,y unfold:img,2 sigmoid:x tanh:x""",
    "x": """neg: abs: round: add:y sub:y div:y pow:2 clamp:-1 addcmul:y,v lerp:y,v matmul:y.t() addmm:x@y.t(),y index_add:1,i,y
        take:i put:c,v[:2] repeat:2,1 tile:2,1 masked_fill:b,2 nonzero: count_nonzero: flip:0 roll:1 unfold:1,2,1 sum: mean: prod:
        amax: amin: any: all: logsumexp:1 norm: max: min: argmax: argmin: var: std: cumsum:0 gather:0,j take_along_dim:j
        scatter:0,j,y scatter_add:0,j,y scatter_reduce:0,j,y,'sum' unique: unique_consecutive: softmax:1 log_softmax:1
        reshape:3,2 view:3,2 transpose:0,1 permute:1,0 select:0,1 narrow:1,0,2 squeeze: expand:2,2,3 broadcast_to:2,2,3
        diagonal: flatten: as_strided:(2,2),(1,1) split:1 chunk:2 unbind: clone: contiguous: detach: to:m.float32 type_as:f
        new_zeros:2 new_ones:2 new_full:(2,),1.5 new_tensor:[1.5] cpu: float: double: long: equal:y allclose:y isclose:y""",
    "x.clone()": """copy_:y fill_:2 zero_: masked_fill_:b,2 index_add_:1,i,y index_fill_:1,i,2 index_copy_:1,c,y[:,:2]
        scatter_:0,j,y scatter_add_:0,j,y scatter_reduce_:0,j,y,'sum' put_:c,v[:2] addcmul_:y,v lerp_:y,v cumsum_:0 clamp_:-1
        clip_:-1 masked_scatter_:b,y index_put_:[c*0],v add_:y sub_:y mul_:y div_:y round_: uniform_:2,2 normal_:1,0
        bernoulli_:0""",
}


def signatures(path, within=None):
    """The keywords with defaults of every function, by overload."""
    body = ast.parse((STUBS / path).read_text()).body
    if within:
        body = next(n for n in body if isinstance(n, ast.ClassDef) and n.name == within).body
    found = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            a = node.args
            named = list(zip((a.posonlyargs + a.args)[::-1], a.defaults[::-1]))
            named += [(k, d) for k, d in zip(a.kwonlyargs, a.kw_defaults) if d is not None]
            found.setdefault(node.name, {}).update({k.arg: ast.unparse(d) for k, d in named})
    return found


def merged(*tables):
    result = {}
    for table in tables:
        for name, keywords in table.items():
            result.setdefault(name, {}).update(keywords)
    return result


def default_text(text):
    text = text.replace("torch.", "m.")
    return {"strided": "m.strided"}.get(text, text)


def expressions():
    yield from EXPRESSIONS.strip().splitlines()
    functions = merged(signatures("_C/_VariableFunctions.pyi"), signatures("functional.py"))
    methods = merged(signatures("_C/__init__.pyi", "TensorBase"), signatures("_tensor.py", "Tensor"))
    neural = merged(signatures("_C/_nn.pyi"), signatures("nn/functional.py"))
    for prefix, calls in CALLS.items():
        known = {"m": functions, "F": neural}.get(prefix, methods)
        for call in calls.split():
            name, _, given = call.partition(":")
            yield f"{prefix}.{name}({given})"
            for keyword, default in known.get(name, {}).items():
                if default != "...":
                    yield f"{prefix}.{name}({given + ', ' if given else ''}{keyword}={default_text(default)})"


def numbers(value):
    """The elements as lists, complex ones as pairs."""
    return (torch.view_as_real(value.resolve_conj()) if value.is_complex() else value).detach().tolist()


def told(value):
    if isinstance(value, torch.Tensor):
        return {"dtype": str(value.dtype).split(".")[1], "shape": list(value.shape), "values": numbers(value)}
    if isinstance(value, (tuple, list)):
        return [told(v) for v in value]
    return value


def ramp(value):
    return torch.arange(1, value.numel() + 1, dtype=torch.float64).reshape(value.shape)


def tensor(dtype, data):
    if dtype.startswith("complex"):
        return torch.view_as_complex(torch.tensor(data, dtype=torch.float64)).to(getattr(torch, dtype))
    return torch.tensor(data, dtype=getattr(torch, dtype))


def weighted(t):
    """A number that every part of every element has its own weight in."""
    if not t.is_complex():
        return (t.double() * ramp(t)).sum()
    return (t.real.double() * ramp(t)).sum() + (t.imag.double() * (ramp(t) + 0.5)).sum()


def answer(expression, inputs):
    """PyTorch's result, or None if it raises."""
    inputs = {name: tensor(dtype, data) for name, (dtype, data) in inputs.items()}
    leaves = {name: t.requires_grad_() for name, t in inputs.items() if t.dtype in (torch.float64, torch.complex128)}
    try:
        result = eval(expression, {"m": torch, "F": torch.nn.functional, **inputs})
    except Exception:
        return None
    case = {"expression": expression, "result": told(result)}
    outputs = result if isinstance(result, (tuple, list)) else [result]
    outputs = [t for t in outputs if isinstance(t, torch.Tensor) and t.requires_grad and not t.is_leaf]
    if outputs:
        total = sum(map(weighted, outputs))
        try:
            grads = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
            case["gradients"] = {n: numbers(g) for n, g in zip(leaves, grads) if g is not None}
        except RuntimeError:
            return case
    return case


def choices(line):
    """The expressions of a line with `{a|b}`."""
    parts = re.split(r"\{([^{}]*\|[^{}]*)\}", line)
    return ("".join(chosen) for chosen in
            itertools.product(*(part.split("|") if i % 2 else [part] for i, part in enumerate(parts))))


def family(path):
    """The inputs and the expressions of a family's file."""
    inputs, listed = dict(INPUTS), []
    for line in filter(None, map(str.strip, path.read_text().splitlines())):
        declared = re.fullmatch(r"(\w+): (\w+) = (.+)", line)
        if declared:
            name, dtype, data = declared.groups()
            values = eval(data, {"inf": float("inf"), "nan": float("nan")})
            complex_values = dtype.startswith("complex")
            inputs[name] = (dtype, numbers(torch.tensor(values, dtype=torch.complex128)) if complex_values else values)
        elif not line.startswith("#"):
            listed += choices(line)
    return inputs, listed


def record(name, inputs, listed):
    cases = []
    for expression in dict.fromkeys(listed):
        refused = expression.startswith("!")
        case = answer(expression.lstrip("! "), inputs)
        if refused == (case is None):
            cases.append(case or {"expression": expression.lstrip("! "), "refused": True})
        elif not name == "cases" or expression in EXPRESSIONS:
            print("PyTorch", "takes" if refused else "refuses", expression)
    with open(FOLDER / f"{name}.jsonl", "w") as file:
        for line in [{"torch": torch.__version__.split("+")[0], "inputs": inputs}, *cases]:
            print(json.dumps(line), file=file)
    print(len(cases), "cases of", name)


def main():
    torch.manual_seed(0)
    names = sys.argv[1:] or ["cases", *(path.stem for path in sorted(FOLDER.glob("*.txt")))]
    for name in names:
        record(name, *((INPUTS, expressions()) if name == "cases" else family(FOLDER / f"{name}.txt")))


if __name__ == "__main__":
    main()
