"""Ops from outside: written in Python, or in a library of C++ that is loaded. They are called as weft.ops.ns.name(...).

    @weft.library.custom_op("my::cube")
    def cube(x, scale: float = 1.0):
        return scale * x * x * x

    @cube.register_autograd
    def _(ctx, g):
        return 3 * ctx["scale"] * ctx["x"] ** 2 * g
"""

import inspect

from weft import _core
from weft._core import KernelRegistration, OpGradient, SampleMaker  # noqa: F401
from weft._core import dtype as _dtype
from weft import ops as _ops

_types = {None: "Tensor", _core.Tensor: "Tensor", bool: "bool", int: "int", float: "float", str: "str",
          _dtype: "dtype", _core.device: "device", list[_core.Tensor]: "Tensor[]", tuple[_core.Tensor, ...]: "Tensor[]",
          list[int]: "int[]", tuple[int, ...]: "int[]", _core.Tensor | None: "Tensor", float | None: "float?",
          int | None: "int?", str | None: "str?", bool | None: "bool?"}


def infer_schema(function, results=None):
    """The schema of a Python function, from its signature and annotations; arguments without an annotation are tensors,
    or have the type of their default."""
    parts, keyword_only = [], False
    for p in inspect.signature(function, eval_str=True).parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise TypeError(f"an op has a fixed number of arguments, and {function.__name__}() takes any: '{p.name}'")
        if p.kind is p.KEYWORD_ONLY and not keyword_only:
            parts.append("*")
            keyword_only = True
        default = None if p.default is p.empty else p.default
        annotation = p.annotation if p.annotation is not p.empty else None if default is None else type(default)
        if annotation not in _types:
            raise TypeError(f"argument '{p.name}' of {function.__name__}() has a type that no op takes: {annotation!r}")
        text = f"{p.name}: {_types[annotation]}"
        parts.append(text if p.default is p.empty else f"{text} = {default!r}")
    return f"({', '.join(parts)})" + (f" -> ({', '.join(results)})" if results else "")


class CustomOp:
    """An op registered from Python. A call uses the present definition of its name."""

    def __init__(self, name, function, *, schema, device, dtypes, composite, inplace, policy, samples,
                 allow_schema_change, inherit_backward, deterministic):
        self.name = name
        if schema is None:  # what stands in place of an op is called as that was
            stands_for = policy == "override" and not allow_schema_change and _core._find_op(name) is not None
            schema = "" if stands_for else infer_schema(function)
        self._parts = dict(schema=schema, composite=function if composite else None,
                           kernels=[] if composite or function is None else [(device, dtypes, function)], fake=None,
                           backward=None, inplace=[tuple(pair) for pair in inplace],
                           document=inspect.getdoc(function), samples=samples, allow_schema_change=allow_schema_change,
                           inherit_backward=inherit_backward, deterministic=deterministic)
        self._registration = _core._register_op(name, self._parts, policy)
        self.__name__, self.__doc__ = name, self._parts["document"]

    def __call__(self, *args, **kwargs):
        op = _core._find_op(self.name)
        if op is None:
            raise ValueError(f"the op {self.name} was unregistered")
        return op(*args, **kwargs)

    def __repr__(self):
        return f"<custom op {self.name}>"

    def _add(self, **parts):
        parts = self._parts | parts
        if self._registration.active:  # with policy="keep" another one may stand there
            self._registration.replace(self.name, parts)
        self._parts = parts

    def register_autograd(self, backward):
        """backward(ctx, *gradients) gives one gradient for each tensor argument, or None. ctx["x"] is an argument,
        ctx.output(i) a result, ctx.wants("x") says whether a gradient is asked for. May be used as a decorator."""
        self._add(backward=backward)
        return backward

    def register_fake(self, fake):
        """fake(...) gets tensors without elements and gives those of the results' shapes and dtypes."""
        self._add(fake=fake)
        return fake

    register_meta = register_fake

    def register_kernel(self, device, dtypes=None, function=None):
        """The kernel of another kind of device, or for other dtypes. May be used as a decorator."""
        def add(function):
            self._add(kernels=self._parts["kernels"] + [(device, dtypes, function)])
            return function

        return add if function is None else add(function)

    def register_samples(self, samples):
        """samples(make) gives lists of arguments that check_op calls the op with."""
        self._add(samples=samples)
        return samples

    @property
    def active(self):
        return self._registration.active

    def unregister(self):
        """Unregisters the op and restores the previous definition of its name."""
        self._registration.unregister()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.unregister()


_kept: list = []


def custom_op(name, function=None, *, schema=None, device="cpu", dtypes=None, composite=False, inplace=(),
              policy="error", samples=None, allow_schema_change=False, inherit_backward=False, deterministic=True):
    """Registers a Python function as the op "ns::name", or in place of one of the library's ops by its exact name.

    schema is as in C++, "(x, w: Tensor[], axis: int = 0) -> (y, index)"; without it the function's annotations tell.
    The function is the kernel of `device`, for all or some dtypes, and is not recorded; with composite=True it is a body
    of other ops, which runs on every device and has its gradient from them. inplace=[("x", "y")] says that result y is
    x, written. policy is "error", "override" or "keep". With deterministic=False deterministic mode refuses it. The op
    stays until unregister(); as a decorator it gives a CustomOp."""
    def register(function):
        op = CustomOp(name, function, schema=schema, device=device, dtypes=dtypes, composite=composite,
                      inplace=inplace, policy=policy, samples=samples, allow_schema_change=allow_schema_change,
                      inherit_backward=inherit_backward, deterministic=deterministic)
        _kept.append(op)
        return op

    return register if function is None else register(function)


def override(name, **keywords):
    """custom_op with policy="override"."""
    return custom_op(name, policy="override", **keywords)


def register_kernel(op, device, dtypes=None, function=None, *, policy="error"):
    """A kernel for an op that somebody else has registered; gives a KernelRegistration. It stays until unregister()."""
    def register(function):
        kernel = _core._register_kernel(op, device, dtypes, function, policy)
        _kept.append(kernel)
        return kernel

    return register if function is None else register(function)


def has_kernel(op, device, dtype):
    """Whether the op works on tensors of this dtype there."""
    return _core._has_kernel(op, device, dtype)


def load_library(path):
    """Loads a shared library that registers ops; gives their names. One that is loaded already is left as it is."""
    return _core._load_library(str(path))


def unload_library(path):
    """Unregisters the library's ops and closes it. Raises ValueError, without any change, while a call or a graph uses
    it."""
    _core._unload_library(str(path))


def check_op(name):
    """Checks an op on its samples: values, gradients, shapes, strides, devices. (passed, text)."""
    return _core._check_op(name if isinstance(name, str) else name.name)


def all_ops():
    """The names of all ops that can be called now."""
    return _core._all_ops()


def find_op(name):
    """The op of this name, or None."""
    return _ops._op(name)
