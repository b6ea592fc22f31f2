"""Classes of the layers that C++ describes (nn/description-inl.hpp): signature, attributes, checks, text and config."""

import inspect
import operator
from collections.abc import Iterable

from weft import _core
from weft.errors import ValueError
from weft.nn import functional as F
from weft.nn.module import Module

__all__ = ["Identity", "Softmin", "Softmax2d", "UpsamplingNearest2d", "UpsamplingBilinear2d"]

_Sizes, _Numbers = int | tuple[int, ...] | list[int], float | tuple[float, ...] | list[float]
_python = 3  # of OptionRole
_types = bool, int, float, str, _Sizes, _Numbers, _core.Tensor  # in the order of OptionInfo::Kind
_device_and_dtype = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)
                     for name in ("device", "dtype")]


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
    return inspect.Parameter(option["name"], inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=kind, default=default)


class _Described(Module):
    """A layer whose options are attributes; by default a function of one tensor with these options."""

    description, options, function = "", {}, None
    has_tensors = False  # and so the arguments device and dtype

    def _set_options(self, **options):
        Module.__init__(self, _core._described_layer(self.description, self._checked(options)))
        for name, value in options.items():
            option = self.options[name]
            if value is None and option["or_as"] is not None:
                value = options[option["or_as"]]
            setattr(self, name, _each(value, option["tuple_size"]) if option["tuple_size"] else value)

    def _checked(self, options):
        """The options as C++ takes them."""
        return {name: value for name, value in options.items() if name != "inplace"}

    def _given(self):
        given = {name: getattr(self, name) for name in self.options}
        if not given.get("inplace", True):
            del given["inplace"]
        return given

    def forward(self, input):
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

    has_tensors, switches = True, {}
    get_config, extra_repr = Module.get_config, Module.extra_repr

    def _set_options(self, device=None, dtype=None, **options):
        super()._set_options(**options)
        for option, names in self.switches.items():
            for name in names if not options[option] else ():
                setattr(self, name, None)
        if device is not None or dtype is not None:
            self.to(device, dtype)


def _constructor(signature):
    def __init__(self, *args, **kwargs):
        try:
            given = signature.bind(self, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}(): {error}") from None
        given.apply_defaults()
        self._set_options(**{name: value for name, value in given.arguments.items() if name != "self"})

    __init__.__signature__ = signature
    return __init__


_descriptions = {name: (function, [option for option in options if option["in_python"]])
                 for name, function, options in _core._described_layers()}


def described(name, base=_Described, document=None):
    """The class of a described layer; its document defaults to that of its function."""
    function, options = _descriptions[name]
    function = getattr(F, function, None) or _core._ops.get(function)
    own = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD), *map(_parameter, options)]
    signature = inspect.Signature(own + _device_and_dtype * base.has_tensors)
    return type(name, (base,), {
        "__init__": _constructor(signature), "__module__": base.__module__, "__doc__": document or function.__doc__,
        "description": name, "options": {option["name"]: option for option in options},
        "function": staticmethod(function)})


class Identity(Module):
    """x itself."""

    def __init__(self, *_, **__):
        super().__init__()

    def forward(self, input):
        return input


class _Random(_Described):
    """Draws in training alone."""

    def forward(self, input):
        return type(self).function(input, training=self.training, **self._given())


class _Pad(_Described):
    """The edges of the last dimensions, from the last one on: one number for all, or two for each."""

    value = None
    get_config = Module.get_config  # one number for all stays one

    def forward(self, input):
        family = self.description[:-len("Pad1d")]
        mode = {"Reflection": "reflect", "Replication": "replicate", "Circular": "circular"}.get(family, "constant")
        return F.pad(input, self.padding, mode, self.value)


class _Adaptive(_Described):
    def _checked(self, options):
        sizes = options["output_size"]  # None keeps a size
        if isinstance(sizes, (tuple, list)):
            options = options | {"output_size": [1 if size is None else size for size in sizes]}
        return super()._checked(options)


class _Unpool(_Described):
    def forward(self, input, indices, output_size=None):
        return type(self).function(input, indices, output_size=output_size, **self._given())


class _Unflatten(_Described):
    def forward(self, input):
        return input.unflatten(self.dim, self.unflattened_size)


class _OfTwo(_Described):
    def forward(self, x1, x2):
        return type(self).function(x1, x2, **self._given())


class _Distance(_OfTwo):
    norm = property(lambda self: self.p, lambda self, norm: setattr(self, "p", norm), doc="PyTorch's name of p.")


class _Upsample(_Described):
    def _set_options(self, **options):
        factor = options["scale_factor"]
        if factor is not None:
            factor = tuple(map(float, factor)) if isinstance(factor, (tuple, list)) else float(factor)
        super()._set_options(**options | {"scale_factor": factor})

    def extra_repr(self):
        size = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{size}, mode={self.mode!r}"


def _base_of(name):
    bases = {"Unflatten": _Unflatten, "Upsample": _Upsample, "CosineSimilarity": _OfTwo, "PairwiseDistance": _Distance,
             "RReLU": _Random}
    families = {"Dropout": _Random, "Pad": _Pad, "Adaptive": _Adaptive, "Unpool": _Unpool}
    return bases.get(name) or next((base for part, base in families.items() if part in name), _Described)


for _name, (_function, _) in _descriptions.items():
    if _function:
        globals()[_name] = described(_name, _base_of(_name))
        __all__.append(_name)


class Softmin(Softmax):  # noqa: F821
    function = staticmethod(F.softmin)
    __doc__ = F.softmin.__doc__


class Softmax2d(Module):
    """softmax over the channels of [N, C, H, W] or [C, H, W]."""

    def forward(self, input):
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d(): input: expected 3 or 4 dimensions, got {input.ndim}")
        return F.softmax(input, -3)


class _Upsampling(Upsample):  # noqa: F821
    @classmethod
    def from_config(cls, config):
        return cls(config["size"], config["scale_factor"])


class UpsamplingNearest2d(_Upsampling):
    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(_Upsampling):
    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, "bilinear", True)
