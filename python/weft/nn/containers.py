"""Modules made of modules, and of parameters."""

import operator
from collections import OrderedDict
from collections.abc import Iterable, Mapping, MutableMapping

from weft._core import Tensor
from weft.nn.module import Module, Parameter


class ElementError(TypeError, AssertionError):
    """An element that is no module; PyTorch's insert raises AssertionError."""


class _Numbered(Module):
    """Base of Sequential and ModuleList: modules by position, which can be replaced, inserted and removed."""

    def append(self, module):
        self.register_module(str(len(self)), module)
        return self

    def extend(self, modules):
        self._hold_or_restore(lambda: [self.append(module) for module in list(modules)])
        return self

    def insert(self, index, module):
        modules = list(self)
        if not isinstance(module, Module):
            raise ElementError(f"{type(self).__name__}(): expected a module, got {type(module).__name__}")
        if not -len(modules) <= index <= len(modules):
            raise IndexError(f"there is no position {index} in {len(modules)} modules")
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def pop(self, key=-1):
        module = self[self._place(key)]
        del self[key]
        return module

    def _place(self, i):
        place = operator.index(i)
        if not -len(self) <= place < len(self):
            raise IndexError(f"there is no module {place} of {len(self)}")
        return place % len(self)

    def _renumber(self, modules):
        """Holds these modules from now on, named by their positions."""
        self._hold_or_restore(lambda: self._hold({str(i): module for i, module in enumerate(modules)}))

    def _hold_or_restore(self, change):
        """Where the change is refused, the modules are those of before."""
        before = dict(self._state.modules())
        try:
            change()
        except Exception:
            self._hold(before)
            raise

    def _hold(self, named):
        for name in list(self._state.modules()):
            delattr(self, name)
        for name, module in named.items():
            self.register_module(name, module)

    def __len__(self):
        return len(self._state.modules())

    def __iter__(self):
        return iter(self._state.modules().values())

    def __getitem__(self, i):
        modules = list(self)
        return type(self)._of_slice(modules[i]) if isinstance(i, slice) else modules[i]

    def __setitem__(self, i, module):
        if isinstance(i, slice):
            modules = list(self)
            modules[i] = module
            return self._renumber(modules)
        if not isinstance(module, Module):
            raise TypeError(f"{type(self).__name__}(): expected modules, got {type(module).__name__}")
        self.register_module(list(self._state.modules())[self._place(i)], module)

    def __delitem__(self, i):
        modules = list(self)
        del modules[i if isinstance(i, slice) else self._place(i)]
        self._renumber(modules)

    def __add__(self, other):
        return type(self)._of_slice([*self, *other])

    def __iadd__(self, other):
        return self.extend(other)

    def __mul__(self, times):
        if not isinstance(times, int):
            raise TypeError(f"a number of repetitions: expected an int, got {type(times).__name__}")
        if times < 1:
            raise ValueError(f"a number of repetitions: expected at least 1, got {times}")
        return type(self)._of_slice([*self] * times)

    __rmul__ = __mul__

    def __imul__(self, times):
        return self.extend([*(self * times)][len(self):])


class Sequential(_Numbered):
    """Modules called one after the other."""

    def __init__(self, *modules):
        super().__init__()
        named = modules[0].items() if len(modules) == 1 and isinstance(modules[0], dict) else enumerate(modules)
        for name, module in named:
            self.register_module(str(name), module)

    def get_config(self):
        return {}

    @classmethod
    def _of_children(cls, children):
        """A container from pairs of name and module; files of models are read so."""
        self = cls()
        for name, module in children:
            self.register_module(name, module)
        return self

    def forward(self, input):
        for module in self._state.modules().values():
            input = module(input)
        return input

    @staticmethod
    def _of_slice(modules):
        return Sequential(*modules)


class ModuleList(_Numbered):
    """A list of modules that are registered."""

    _is_list = True

    def __init__(self, modules=()):
        super().__init__()
        self.extend(modules)

    get_config = Sequential.get_config
    _of_children = classmethod(Sequential._of_children.__func__)  # type: ignore

    @staticmethod
    def _of_slice(modules):
        return ModuleList(modules)


class ModuleDict(Module):
    """Modules by name."""

    get_config = Sequential.get_config
    _of_children = classmethod(Sequential._of_children.__func__)  # type: ignore

    def __init__(self, modules=None):
        super().__init__()
        self.update(modules or {})

    def __getitem__(self, name):
        return self._state.modules()[name]

    def __setitem__(self, name, module):
        if not isinstance(module, Module):
            raise TypeError(f"ModuleDict(): expected modules, got {type(module).__name__}")
        self.register_module(name, module)

    def __delitem__(self, name):
        if name not in self._state.modules():
            raise KeyError(name)
        delattr(self, name)

    def pop(self, key):
        """Takes out a module, and gives it."""
        module = self[key]
        del self[key]
        return module

    def clear(self):
        for name in list(self):
            del self[name]

    def update(self, modules):
        """Takes over pairs of name and module, or those of a mapping."""
        for name, module in modules.items() if isinstance(modules, (Mapping, ModuleDict)) else modules:
            self[name] = module

    def __contains__(self, name):
        return name in self._state.modules()

    def __iter__(self):
        return iter(self._state.modules())

    def __len__(self):
        return len(self._state.modules())

    def keys(self):
        return self._state.modules().keys()

    def values(self):
        return self._state.modules().values()

    def items(self):
        return self._state.modules().items()


class ParameterList(Module):
    """A list of parameters that are registered."""

    def __init__(self, parameters=()):
        super().__init__()
        self.extend(() if parameters is None else parameters)

    def append(self, parameter):
        self.register_parameter(str(len(self)), parameter if isinstance(parameter, Parameter) else Parameter(parameter))
        return self

    def extend(self, parameters):
        if isinstance(parameters, Tensor) or not isinstance(parameters, Iterable):
            raise TypeError(f"ParameterList(): expected several parameters, got {type(parameters).__name__}")
        for parameter in list(parameters):
            self.append(parameter)
        return self

    __iadd__ = extend

    def __len__(self):
        return len(self._state.parameters())

    def __iter__(self):
        return iter(self._state.parameters().values())

    def __getitem__(self, i):
        parameters = list(self._state.parameters().values())[i]
        return ParameterList(parameters) if isinstance(i, slice) else parameters

    def __setitem__(self, i, parameter):
        if not isinstance(parameter, Tensor):
            raise TypeError(f"ParameterList(): expected tensors, got {type(parameter).__name__}")
        place = operator.index(i)
        if not -len(self) <= place < len(self):
            raise IndexError(f"there is no parameter {place} of {len(self)}")
        self.register_parameter(str(place % len(self)),
                                parameter if isinstance(parameter, Parameter) else Parameter(parameter))


class ParameterDict(Module):
    """A dict of registered parameters; other values are plain attributes."""

    keys, values, items, get = Mapping.keys, Mapping.values, Mapping.items, Mapping.get
    setdefault, clear = MutableMapping.setdefault, MutableMapping.clear

    def __init__(self, parameters=None):
        super().__init__()
        self._keys = {}  # in order of registration
        self.update(parameters or {})

    def __getitem__(self, key):
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key, value):
        if not isinstance(key, str):
            raise TypeError(f"ParameterDict(): key: expected a str, got {type(key).__name__}")
        if key not in self._keys and hasattr(self, key):
            raise KeyError(f"ParameterDict(): {key!r} is an attribute of the module")
        if isinstance(value, Tensor):
            self.register_parameter(key, value if isinstance(value, Parameter) else Parameter(value))
        else:
            setattr(self, key, value)
        self._keys[key] = None

    def __delitem__(self, key):
        del self._keys[key]
        delattr(self, key)

    def __contains__(self, key):
        return key in self._keys

    def __iter__(self):
        return iter(self._keys)

    def __reversed__(self):
        return reversed(self._keys)

    def __len__(self):
        return len(self._keys)

    def __or__(self, other):
        result = self.copy()
        result.update(other)
        return result

    def __ror__(self, other):
        return ParameterDict(other) | self

    def __ior__(self, other):
        self.update(other)
        return self

    def update(self, parameters):
        """Takes over pairs of key and value, or those of a mapping; of a plain dict in the order of the keys."""
        if isinstance(parameters, (ParameterDict, OrderedDict)):
            parameters = parameters.items()
        elif isinstance(parameters, Mapping):
            parameters = sorted(parameters.items())
        for key, value in parameters:
            self[key] = value

    def pop(self, key):
        """Takes out a key, and gives its value."""
        value = self[key]
        del self[key]
        return value

    def popitem(self):
        """Takes out the last key and its value."""
        if not self._keys:
            raise KeyError("popitem(): the ParameterDict is empty")
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def copy(self):
        """Another dict of the same parameters."""
        return ParameterDict(self.items())

    def fromkeys(self, keys, default=None):
        """A new dict of these keys with one value."""
        return ParameterDict((key, default) for key in keys)
