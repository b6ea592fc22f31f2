"""Classes of the layers that C++ describes (nn/description-inl.hpp): signature, attributes, checks, text and config."""

import inspect
import operator
from collections.abc import Iterable
from typing import Any

from weft import _core
from weft.nn import functional as F
from weft.nn.module import Module

_Sizes, _Numbers = int | tuple[int, ...] | list[int], float | tuple[float, ...] | list[float]
_python = 3  # of OptionRole
_types = bool, int, float, str, _Sizes, _Numbers, _core.Tensor, _Sizes | str  # in the order of OptionInfo::Kind
_BY_POSITION, _BY_KEYWORD = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY


def _each(value, count):
    """A size for each dimension, of one for all, of one in a tuple, or of as many."""
    sizes = tuple(map(operator.index, value)) if isinstance(value, Iterable) else (operator.index(value),)
    return sizes * count if len(sizes) == 1 else sizes


def _parameter(option):
    default = None if option["none_in_python"] else option["default"]
    if option["required"] and not option["none_in_python"]:
        default = inspect.Parameter.empty
    kind = _types[option["kind"]]
    kind = kind | None if default is None or option["may_be_none"] else kind
    return inspect.Parameter(option["name"], _BY_KEYWORD if option["keyword_only"] else _BY_POSITION, annotation=kind,
                             default=default)


class _Described(Module):
    """A layer whose options are attributes; by default a function of one tensor with these options."""

    description = ""
    function: Any = None
    options: dict[str, dict] = {}
    passed: list[str] = []  # the options that the function always gets
    arguments: list[inspect.Parameter] = []  # of the constructor, behind the options
    adjusted: list[tuple] = []  # options with another's value if None, or kept as tuples of some size

    def _set_options(self, **options):
        Module.__init__(self, _core._described_layer(self.description, self._checked(options)))
        given = dict(options)
        for name, other, size in self.adjusted:
            value = given[other] if options[name] is None and other is not None else options[name]
            options[name] = _each(value, size) if size and not isinstance(value, str) else value
        if "bias" in options and self._state.kind_of("bias") is not None:
            del options["bias"]  # a parameter
        self.__dict__.update(options)

    def _checked(self, options):
        """The options as C++ takes them."""
        return {name: value for name, value in options.items() if name != "inplace"}

    def _given(self):
        attributes = self.__dict__
        given = {name: attributes[name] for name in self.passed}
        if attributes.get("inplace"):
            given["inplace"] = True
        return given

    def forward(self, input):
        if not self.passed and not self.__dict__.get("inplace"):
            return type(self).function(input)
        return type(self).function(input, **self._given())

    def get_config(self):
        return {name: getattr(self, name) for name in self.options if name != "inplace"}

    def extra_repr(self):
        texts = []
        for name, option in self.options.items():
            value = bool(getattr(self, name)) if option["role"] == _python else getattr(self, name)
            if not option["hidden"] and (value or option["role"] != _python):
                texts.append(repr(value) if option["bare"] else f"{name}={value!r}")
        return ", ".join(texts)


class _WithTensors(_Described):
    """A layer with the parameters and the text of C++. `switches` are options and the tensors that are None without them."""

    arguments = [inspect.Parameter(name, _BY_POSITION, default=None) for name in ("device", "dtype")]
    switches: dict[str, tuple] = {}
    get_config, extra_repr = Module.get_config, Module.extra_repr

    def _set_options(self, device=None, dtype=None, **options):
        super()._set_options(**options)
        for option, names in self.switches.items():
            for name in names if not options[option] else ():
                setattr(self, name, None)
        if device is not None or dtype is not None:
            self.to(device, dtype)


def _constructor(signature):
    parameters = list(signature.parameters.values())[1:]
    positional = [p.name for p in parameters if p.kind is _BY_POSITION]
    defaults, known = {p.name: p.default for p in parameters if p.default is not p.empty}, {p.name for p in parameters}

    def __init__(self, *args, **kwargs):
        options = {**defaults, **dict(zip(positional, args)), **kwargs}
        if len(args) > len(positional) or options.keys() != known or not kwargs.keys().isdisjoint(positional[:len(args)]):
            try:
                signature.bind(self, *args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{type(self).__name__}(): {error}") from None
        self._set_options(**options)

    __init__.__signature__ = signature
    return __init__


_descriptions = {name: (function, [option for option in options if option["in_python"]])
                 for name, function, options in _core._described_layers()}


def described(cls):
    """Gives a class the constructor and the options of the C++ layer of the same name."""
    function, options = _descriptions[cls.__name__]
    parameters = sorted([*map(_parameter, options), *cls.arguments], key=lambda p: p.kind)
    parameters = [inspect.Parameter("self", _BY_POSITION), *parameters]
    cls.__init__ = _constructor(inspect.Signature(parameters))
    cls.description, cls.options = cls.__name__, {option["name"]: option for option in options}
    cls.passed = [name for name in cls.options if name != "inplace"]
    cls.adjusted = [(o["name"], o["or_as"], o["tuple_size"]) for o in options if o["or_as"] or o["tuple_size"]]
    if function:
        cls.function = staticmethod(getattr(F, function, None) or _core._ops[function])
    cls.__doc__ = cls.__doc__ or cls.function.__doc__
    return cls
