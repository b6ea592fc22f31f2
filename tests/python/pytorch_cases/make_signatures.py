"""Records the positional parameters of PyTorch's functions and classes, in order: signatures.list. Written for 2.15."""

import importlib
import inspect
import pathlib

SPACES = ("nn", "nn.functional", "nn.init", "nn.utils", "nn.utils.rnn", "nn.utils.parametrize", "nn.utils.parametrizations",
          "optim", "optim.lr_scheduler", "optim.swa_utils", "utils.data", "distributions", "amp", "autograd")


def positional(function):
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a function of C++
        return []
    if any(p.kind == p.VAR_POSITIONAL for p in parameters):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name != "self"]


def callables(package, space):
    """Names and callables of a module, and the methods of its classes."""
    module = importlib.import_module(f"{package}.{space}")
    for name, value in vars(module).items():
        if name.startswith("_") or not callable(value) or not getattr(value, "__module__", "").startswith(f"{package}."):
            continue
        yield name, value
        if inspect.isclass(value):
            yield from ((f"{name}.{key}", method) for key, method in vars(value).items()
                        if not key.startswith("_") and inspect.isfunction(method))


if __name__ == "__main__":
    lines = [f"{space}.{name} {' '.join(names)}\n" for space in SPACES for name, value in callables("torch", space)
             if (names := positional(value))]
    (pathlib.Path(__file__).parent / "signatures.list").write_text("".join(sorted(set(lines))))
