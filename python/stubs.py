"""Writes the type stubs of the package from the schemas and documents that the module carries.

usage: stubs.py FILE   (with the built package on PYTHONPATH)"""

import inspect
import keyword
import sys

import weft

NUMBER = "int | float | bool"
KINDS = {
    "dim": "int | Sequence[int] | None", "dims": "int", "keepdim": "bool", "dtype": "dtype | None",
    "device": "device | str | None", "requires_grad": "bool", "generator": "Generator | None", "shape": "int",
    "size": "int", "sizes": "int", "tensors": "Sequence[Tensor]", "reduction": "str", "index": "Tensor",
    "fill_value": NUMBER, "value": f"Tensor | {NUMBER}",
}
SCALARS = {"True": "bool", "False": "bool"}


def kind_of(name, default):
    if name in KINDS:
        return KINDS[name]
    if default in SCALARS:
        return SCALARS[default]
    if default is not None and default.replace("-", "").isdigit():
        return "int"
    if default is not None and default != "None":
        return "str" if default[0] == "'" else "float"
    return f"Tensor | {NUMBER}" + (" | None" if default == "None" else "")


def parameters(signature):
    depth, part, parts = 0, "", []
    for c in signature[1:-1]:
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += c
    parts += [part.strip()] if part.strip() else []
    for p in parts:
        if p == "*":
            yield "*"
            continue
        star = "*" if p[0] == "*" else ""
        name, _, default = p.lstrip("*").partition("=")
        default = default.strip() or None
        yield f"{star}{name}: {kind_of(name, default)}" + (f" = {default}" if default else "")


def document(text, indent):
    pad = " " * indent
    return f'{pad}"""{text}"""\n' if text else ""


def of_op(name, op, method=False):
    listed = list(parameters(op.__text_signature__))
    if method:
        listed = ["self", *listed[1:]]
    elif "*" not in "".join(p[:1] for p in listed) and not method:
        listed.append("*")
        listed.append("out: Tensor | None = None")
    pad = "    " if method else ""
    text = (op.__doc__ or "").partition("\n\n")[2]
    return f"{pad}def {name}({', '.join(listed)}) -> Tensor:\n{document(text, len(pad) + 4)}{pad}    ...\n"


def of_function(name, function, pad=""):
    try:
        signature = str(inspect.signature(function))
    except (TypeError, ValueError):
        signature = "(*args: Any, **kwargs: Any)"
    text = (inspect.getdoc(function) or "").replace('"""', "'''").replace("\\", "\\\\")
    return f"{pad}def {name}{signature}: # type: ignore\n{document(text, len(pad) + 4)}{pad}    ...\n"


def of_tensor():
    lines = ["class Tensor:\n", document(weft.Tensor.__doc__.split("\n\n")[-1], 4)]
    for name in sorted(n for n in dir(weft.Tensor) if not n.startswith("_") and not keyword.iskeyword(n)):
        member = inspect.getattr_static(weft.Tensor, name)
        if isinstance(member, weft._core.op):
            lines.append(of_op(name, member, method=True))
        elif callable(member) and not isinstance(member, property):
            signature = getattr(member, "__text_signature__", None)
            if signature is None and not inspect.isfunction(member):
                signature = "(*args: Any, **kwargs: Any)"
            if inspect.isfunction(member):
                lines.append(of_function(name, member, "    "))
            else:
                lines.append(f"    def {name}(self, {signature[1:-1].replace('$self, ', '').replace('$self', '')}) -> Any:\n"
                             f"{document(inspect.getdoc(member), 8)}        ...\n".replace("(self, )", "(self)"))
        else:
            lines.append(f"    @property\n    def {name}(self) -> Any:\n{document(inspect.getdoc(member), 8)}        ...\n")
    for name in ("add", "sub", "mul", "truediv", "pow", "matmul", "radd", "rsub", "rmul", "rtruediv", "rpow", "lt", "le",
                 "gt", "ge", "and", "or", "xor"):
        lines.append(f"    def __{name}__(self, other: Any) -> Tensor: ...\n")
    for name in ("neg", "pos", "abs", "invert"):
        lines.append(f"    def __{name}__(self) -> Tensor: ...\n")
    lines.append("    def __getitem__(self, index: Any) -> Tensor: ...\n"
                 "    def __setitem__(self, index: Any, value: Any) -> None: ...\n"
                 "    def __len__(self) -> int: ...\n    def __float__(self) -> float: ...\n"
                 "    def __int__(self) -> int: ...\n    def __bool__(self) -> bool: ...\n")
    return "".join(lines)


def main(path):
    out = ["from typing import Any, Sequence\n\n",
           "from weft import (array_api as array_api, autograd as autograd, hooks as hooks, linalg as linalg, nn as nn,\n                  optim as optim)\n\n",
           "class dtype: ...\nclass device:\n    def __init__(self, device: device | str, index: int = ...) -> None: ...\n\n",
           of_tensor(), "\n"]
    for name, value in sorted(vars(weft).items()):
        if name.startswith("_") or name in ("Tensor", "dtype", "device"):
            continue
        if isinstance(value, weft._core.op):
            out.append(of_op(name, value))
        elif isinstance(value, weft.dtype):
            out.append(f"{name}: dtype\n")
        elif isinstance(value, type):
            out.append(f"class {name}:\n{document(inspect.getdoc(value) or '', 4)}"
                       "    def __init__(self, *args: Any, **kwargs: Any) -> None: ...\n"
                       "    def __getattr__(self, name: str) -> Any: ...\n"
                       "    def __enter__(self) -> Any: ...\n    def __exit__(self, *args: Any) -> None: ...\n")
        elif callable(value):
            out.append(of_function(name, value))
        elif isinstance(value, float):
            out.append(f"{name}: float\n")
    text = "".join(out)
    compile(text, path, "exec")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


if __name__ == "__main__":
    main(sys.argv[1])
