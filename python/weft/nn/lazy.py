"""Layers that take the number of their inputs from the first call."""

import inspect

from weft import _core
from weft.errors import ValueError
from weft.nn import convolution, layers
from weft.nn.module import Module, Parameter

__all__ = []


class _Lazy(Module):
    """Until the first call its parameters are empty; with it the module becomes a `cls_to_become` for that input. Call it
    once before an optimizer is made."""

    cls_to_become, channels_at = None, 1

    def __init__(self, *args, **options):
        super().__init__()
        given = inspect.signature(self.cls_to_become.__init__).bind(None, None, *args, **options).arguments
        model = self.cls_to_become(given.get("groups", 1), *args, **options)
        for name, parameter in model._parameters.items():
            self.register_parameter(name, Parameter(parameter.detach().new_empty(0)))
        for name, buffer in model._buffers.items():
            self.register_buffer(name, buffer.new_empty(0) if buffer.ndim else buffer)
        self._arguments = args, options

    def _start(self, state):
        super()._start(_core._Module(self.cls_to_become.__name__))  # the name that it will print

    def forward(self, input, *args, **options):
        at = self.channels_at
        if not -input.ndim <= at < input.ndim:
            raise ValueError(f"{type(self).__name__}(): the input has {input.ndim} dimensions, too few")
        drawn = _core.get_rng_state()
        try:
            layer = self._layer_for(input.shape[at])
            result = layer.forward(input, *args, **options)
        except Exception:  # what is refused leaves it as it was
            _core.set_rng_state(drawn)
            raise
        self._become(layer)
        return result

    def _layer_for(self, channels):
        layer = self.cls_to_become(channels, *self._arguments[0], **self._arguments[1])
        for name, new in layer._parameters.items():
            old = getattr(self, name)
            loaded = old.shape == new.shape
            layer.register_parameter(name, old if loaded else
                                     Parameter(new.detach().to(old.device, old.dtype), old.requires_grad))
        for name, new in layer._buffers.items():
            old = getattr(self, name)
            loaded = old.shape == new.shape
            layer.register_buffer(name, old if loaded else new.to(old.device, old.dtype), layer._state.is_saved(name))
        layer.training = self.training
        return layer

    def _become(self, layer):
        for name, parameter in layer._parameters.items():
            self.register_parameter(name, parameter)
        for name, buffer in layer._buffers.items():
            self.register_buffer(name, buffer, layer._state.is_saved(name))
        self._state.extra_repr, self._state.layer_type = layer._state.extra_repr, layer._state.layer_type
        del self._arguments
        self.__dict__.update({name: value for name, value in vars(layer).items() if name not in vars(self)})
        object.__setattr__(self, "_made_with", layer._made_with)
        self.__class__ = type(layer)

    def has_uninitialized_params(self):
        """Whether a parameter or buffer has no shape yet."""
        return any(tuple(t.shape) == (0,) for t in (*self._parameters.values(), *self._buffers.values()))

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """As any module's; parameters without a shape take that of the state."""
        for name, old in self._parameters.items():
            if name in state_dict and old.shape != state_dict[name].shape:
                self.register_parameter(name, Parameter(old.detach().new_empty(state_dict[name].shape), old.requires_grad))
        for name, old in self._buffers.items():
            if name in state_dict and old.shape != state_dict[name].shape:
                self.register_buffer(name, old.new_empty(state_dict[name].shape), self._state.is_saved(name))
        return super().load_state_dict(state_dict, strict, assign)

    def get_config(self):
        raise ValueError(f"{type(self).__name__}() is not saved before its first call")

    def __repr__(self):
        args, options = self._arguments
        texts = [*map(repr, args), *(f"{name}={value!r}" for name, value in options.items())]
        return f"{type(self).__name__}({', '.join(texts)})"


def _lazy(cls, channels_at):
    name = "Lazy" + cls.__name__
    globals()[name] = type(name, (_Lazy,), {
        "cls_to_become": cls, "channels_at": channels_at, "__module__": __name__,
        "__doc__": f"{cls.__name__} without its first argument, which it takes from the first input."})
    __all__.append(name)


_lazy(layers.Linear, -1)
for _n in (1, 2, 3):
    for _name in ("Conv", "ConvTranspose", "InstanceNorm"):
        _lazy(getattr(convolution, f"{_name}{_n}d"), -1 - _n)
    _lazy(getattr(convolution, f"BatchNorm{_n}d"), 1)
