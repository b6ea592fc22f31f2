"""Writes the type stubs of the package from the schemas and documents that the module carries.

usage: stubs.py FILE   (with the built package on PYTHONPATH)"""

import inspect
import keyword
import pathlib
import sys

import weft

# weft.int and Tensor.dtype would hide Python's int and the class dtype, so these have names of their own here.
HEAD = """from builtins import bool as _bool, float as _float, int as _int, str as _str
from typing import Any, Sequence

from weft import (array_api as array_api, autograd as autograd, data as data, distributed as distributed,
                  distributions as distributions, fft as fft, func as func, hooks as hooks, io as io,
                  library as library, linalg as linalg, nn as nn, ops as ops, optim as optim, sparse as sparse,
                  train as train, utils as utils)
from weft.hooks import BreakOn as BreakOn, StepRecorder as StepRecorder, replay as replay, replay_step as replay_step

class dtype: ...
class device:
    def __init__(self, device: device | _str, index: _int = ...) -> None: ...

_dtype = dtype
_device = device

"""
NUMBER = "_int | _float | _bool"
SIZES = "_int | Sequence[_int]"
KINDS = {
    "dim": f"{SIZES} | None", "dims": SIZES, "keepdim": "_bool", "dtype": "_dtype | None",
    "device": "_device | _str | None", "requires_grad": "_bool", "generator": "Generator | None", "shape": SIZES,
    "size": SIZES, "sizes": SIZES, "tensors": "Sequence[Tensor]", "reduction": "_str", "index": "Tensor",
    "fill_value": NUMBER, "alpha": NUMBER, "value": f"Tensor | {NUMBER}", "other": f"Tensor | {NUMBER} | Any",
}
SCALARS = {"True": "_bool", "False": "_bool"}


def kind_of(name, default):
    if name in KINDS:
        return KINDS[name] + (" | None" if default == "None" and "None" not in KINDS[name] else "")
    if default in SCALARS:
        return SCALARS[default]
    if default is not None and default.replace("-", "").isdigit():
        return "_int"
    if default is not None and default != "None":
        return "_str" if default[0] == "'" else "_float"
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
    keywords = [f"{k}: Any = ..." for k, (_, names) in weft._functions._idle_keywords.items()
                if name in names.split() and not any(p.startswith(f"{k}:") for p in listed)]
    variadic = any(p[0] == "*" and p != "*" for p in listed)
    if not method and not variadic:
        keywords.append("out: Tensor | None = None")
    if keywords:
        listed += keywords if variadic or "*" in listed else ["*", *keywords]
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
                 "    def __len__(self) -> _int: ...\n    def __float__(self) -> _float: ...\n"
                 "    def __int__(self) -> _int: ...\n    def __bool__(self) -> _bool: ...\n")
    return "".join(lines)


def of_class(name, value):
    """Classes of the package's own: their methods; others may have any attribute."""
    if issubclass(value, BaseException):
        return (f"class {name}({', '.join(b.__name__ for b in value.__bases__)}):\n" + document(value.__doc__ or "", 4) +
                "    def __getattr__(self, name: _str) -> Any: ...\n")
    bases = [b.__name__ for b in value.__mro__[1:] if b.__module__.startswith("weft") and "._" not in f"{b.__module__}.{b.__name__}"][:1]
    if issubclass(value, tuple):
        bases = ["tuple[_int, ...]"]
    lines = [f"class {name}({', '.join(bases)}):\n" if bases else f"class {name}:\n",
             document((inspect.getdoc(value) or "").replace("\\", "\\\\"), 4)]
    lines += [of_function(n, f, "    ") for n, f in vars(value).items()
              if inspect.isfunction(f) and (not n.startswith("_") or n in ("__init__", "__call__"))]
    if not bases:
        if "__init__" not in vars(value):
            lines.append("    def __init__(self, *args: Any, **kwargs: Any) -> None: ...\n")
        lines.append("    def __getattr__(self, name: _str) -> Any: ...\n"
                     "    def __enter__(self) -> Any: ...\n    def __exit__(self, *args: Any) -> None: ...\n")
    return "".join(lines) + "    ...\n"


def of_module(module, known=()):
    lines = []
    for name, value in sorted(vars(module).items(), key=lambda item: (item[0] != "Module", item[0])):
        if name.startswith("_") or name in known or inspect.ismodule(value):
            continue
        if isinstance(value, weft._core.op):
            lines.append(of_op(name, value))
        elif isinstance(value, weft.dtype):
            lines.append(f"{name}: _dtype\n")
        elif isinstance(value, type):
            if value.__module__.startswith(("weft", "builtins")):
                lines.append(of_class(name, value))
        elif callable(value):
            lines.append(of_function(name, value))
        else:
            lines.append(f"{name}: {'_float' if isinstance(value, float) else 'Any'}\n")
    return "".join(lines)


def write(path, text):
    compile(text, str(path), "exec")
    path.write_text(text, encoding="utf-8")


def main(path):
    path = pathlib.Path(path)
    write(path, HEAD + of_tensor() + "\n" + of_module(weft, ("Tensor", "dtype", "device")))
    # What the extension holds, is known by the names above alone.
    write(path.with_name("_core.pyi"), "from typing import Any\n\ndef __getattr__(name: str) -> Any: ...\n")
    head = ("from builtins import bool as _bool, float as _float, int as _int, str as _str\n"
            "from typing import Any, Sequence\n\n"
            "from weft import Error as Error, Generator, Tensor, device as _device, dtype as _dtype\n")
    for module in (weft.nn.functional, weft.linalg, weft.fft, weft.array_api, weft.array_api.linalg, weft.array_api.fft):
        place = path.parent.joinpath(*module.__name__.split(".")[1:])
        place = place / "__init__.pyi" if hasattr(module, "__path__") else place.with_suffix(".pyi")
        write(place, head + "\n" + of_module(module))
    inside = "from weft.nn import functional as functional, init as init, utils as utils\n\n"
    write(path.parent / "nn" / "__init__.pyi", head + inside + of_module(weft.nn))


if __name__ == "__main__":
    main(sys.argv[1])
