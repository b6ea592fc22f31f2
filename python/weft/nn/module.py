"""Module: attributes, hooks and PyTorch's names over the modules of C++, which hold the parameters, buffers and children."""

import collections
import collections.abc
import inspect

from weft import _core
from weft._core import Tensor
from weft.errors import ValueError
from weft.nn._conversions import Conversions, take_attributes


class Parameter(Tensor):
    """A leaf that requires a gradient, over the memory of `data`; a module that it is assigned to registers it."""

    def __new__(cls, data=None, requires_grad=True):
        data = _core._ops["empty"]((0,)) if data is None else data
        self = super().__new__(cls, data)
        _core._own(self)
        self.requires_grad_(requires_grad)
        return self

    def __repr__(self):
        return "Parameter containing:\n" + super().__repr__()


class Buffer(Tensor):
    """State that is saved and moved with the module but not trained."""

    def __new__(cls, data):
        self = super().__new__(cls, data)
        _core._own(self)
        return self


def _is_other_option(argument, attribute):
    """Whether both are plain values and differ; a number stands for a list of it."""
    plain = (bool, int, float, str, type(None), tuple, list)
    if not (isinstance(argument, plain) and isinstance(attribute, plain)):
        return False
    if isinstance(attribute, (tuple, list)):
        items = argument if isinstance(argument, (tuple, list)) else [argument] * len(attribute)
        return list(items) != list(attribute)
    if attribute is None or attribute != attribute:  # `bias=False` makes None
        return bool(argument) and argument == argument
    return argument != attribute


class _Handle:
    """Names one registered hook of a module."""

    def __init__(self, hooks, key, removed=None):
        self._hooks, self._key, self._removed = hooks, key, removed

    def remove(self):
        """True the first time, false when the hook is gone already."""
        found = self._hooks.pop(self._key, None) is not None
        if found:
            _core._toggle_setting(self._key)
        if found and self._removed is not None:
            self._removed()
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


def _add_hook(hooks, hook, prepend=False, removed=None, **options):
    if not callable(hook):
        raise TypeError(f"argument 'hook': expected a callable, got {type(hook).__name__}")
    key = _core._new_setting()
    hooks[key] = (hook, options)
    _core._toggle_setting(key)
    if prepend:
        for other in [k for k in hooks if k != key]:
            hooks[other] = hooks.pop(other)
    return _Handle(hooks, key, removed)


class _Unkept:
    """Placeholder for an argument of a module that a model file cannot store."""

    def __init__(self, kind):
        self.kind = kind


def _kept(value):
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (tuple, list)) and all(isinstance(item, (bool, int, float, str)) for item in value):
        return tuple(value)
    return str(value).removeprefix("weft.") if isinstance(value, _core.dtype) else _Unkept(type(value).__name__)


def _note_change(module, name, value):
    """Tells captured steps, which read attributes when they are recorded."""
    old = module.__dict__.get(name, module)
    if old is value or old is module:
        return
    if all(isinstance(v, (bool, int, float, str, type(None))) for v in (old, value)):
        before, now = (hash((id(module), name, repr(v))) % 2**64 for v in (old, value))
        _core._set_settings(before, now)
    else:
        _core._change_settings()


class _Members(dict):
    """Members of a module by name: an entry that is assigned is registered, one that is deleted is taken away."""

    def __init__(self, members, module, register):
        super().__init__(members)
        self._module, self._register = module, register

    def __setitem__(self, name, value):
        self._register(name, value)
        super().__setitem__(name, value)

    def __delitem__(self, name):
        super().__delitem__(name)
        delattr(self._module, name)

    def pop(self, name, *default):
        if name not in self and default:
            return default[0]
        value = self[name]
        del self[name]
        return value

    def update(self, *others, **members):
        for name, value in dict(*others, **members).items():
            self[name] = value

    def _refuse(self, *_, **__):
        raise TypeError("members of a module are assigned and deleted one by one")

    __ior__ = clear = popitem = setdefault = _refuse

    def __reduce__(self):
        return dict, (dict(self),)


_IncompatibleKeys = collections.namedtuple("_IncompatibleKeys", "missing_keys unexpected_keys")


def _prepared(module, state, strict):
    """The state after the hooks of register_load_state_dict_pre_hook, which change it in place."""
    for path, part in module.named_modules():
        for hook in part.__dict__.get("_loading_hooks", ()):
            hook(part, state, f"{path}." if path else "", {}, strict, [], [], [])
    return state


_EXTRA_STATE = "_extra_state"


def _split_extras(state):
    """The tensors of a state, and its extra states by the path of their modules."""
    extras = {name: value for name, value in state.items() if name.rpartition(".")[2] == _EXTRA_STATE}
    return ({name: value for name, value in state.items() if name not in extras} if extras else state), extras


def _matched_extras(module, extras):
    """Keys that are missing, keys that no module takes, and for the others set_extra_state with its value."""
    missing, calls, taken = [], [], set()
    for path, part in module.named_modules():
        key = f"{path}.{_EXTRA_STATE}" if path else _EXTRA_STATE
        takes = type(part).set_extra_state is not Module.set_extra_state
        if key in extras and takes:
            taken.add(key)
            calls.append((part.set_extra_state, extras[key]))
        elif takes:
            missing.append(key)
        elif key in extras and type(part).get_extra_state is not Module.get_extra_state:
            raise RuntimeError(f"{type(part).__name__} has get_extra_state() and no set_extra_state()")
    return missing, [key for key in extras if key not in taken], calls


def _assign(module, state):
    """Puts the tensors of a state in the place of parameters and buffers."""
    for path, part in module.named_modules():
        start = f"{path}." if path else ""
        for name, old in part._state.parameters().items():
            if start + name in state:
                part.register_parameter(name, Parameter(state[start + name].detach(), old.requires_grad))
        for name in part._state.buffers():
            if start + name in state:
                part._replace_buffer(name, state[start + name].detach())


_global_hooks: dict = {"forward_pre": {}, "forward": {}, "backward": {}}  # of all modules, see nn/_global_hooks.py
_hook_kinds = ("forward_pre", "forward", "backward_pre", "backward")


class Module(Conversions):
    """The base of all modules: subclasses assign parameters, buffers and modules as attributes and write `forward`."""

    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        made_with = ([_kept(a) for a in args], {key: _kept(a) for key, a in kwargs.items()})
        object.__setattr__(self, "_made_with", made_with)
        return self

    def __init__(self, layer=None):
        self._start(_core._Module(type(self).__name__, *([] if layer is None else [layer])))

    def _start(self, state):
        object.__setattr__(self, "_state", state)
        object.__setattr__(self, "_hooks", {kind: {} for kind in _hook_kinds})
        object.__setattr__(self, "_connections", {})
        object.__setattr__(self, "_empty_buffers", {})  # buffers registered as None: whether they are saved

    # ---- members ----

    def __getattr__(self, name):
        state = self.__dict__.get("_state")
        member = None if state is None else state.find(name)
        if member is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return member

    def __setattr__(self, name, value):
        state = self.__dict__.get("_state")
        if state is None:
            if isinstance(value, (Tensor, Module)):
                raise AttributeError("call super().__init__() before assigning parameters and modules")
            return object.__setattr__(self, name, value)
        kind = state.kind_of(name)
        if kind == "parametrized":
            if not isinstance(value, Tensor):
                raise TypeError(f"'{name}' is parametrized: expected a tensor, got {type(value).__name__}")
            _core._set_parametrized(self, name, value)
        elif isinstance(value, Parameter):
            self.__dict__.pop(name, None)
            self.register_parameter(name, value)
        elif isinstance(value, Tensor) and (isinstance(value, Buffer) or kind == "buffer" or name in self._empty_buffers):
            saved = state.is_saved(name) if kind == "buffer" else self._empty_buffers.get(name, True)
            self.__dict__.pop(name, None)
            self.register_buffer(name, value, saved)
        elif isinstance(value, Module):
            self.__dict__.pop(name, None)
            self.register_module(name, value)
        elif kind is None:
            _note_change(self, name, value)
            object.__setattr__(self, name, value)
        elif value is None:
            if kind == "buffer":
                self._empty_buffers[name] = state.is_saved(name)
            self._forget(name)
        else:
            raise TypeError(f"'{name}' is registered: expected a value of its kind or None, got {type(value).__name__}")

    def __delattr__(self, name):
        if not self._state.remove(name):
            object.__delattr__(self, name)

    def __dir__(self):
        parametrized = [name for name, *_ in _core._parametrized(self)]
        return [*super().__dir__(), *self._state.parameters(), *self._state.buffers(), *self._state.modules(), *parametrized]

    # By name, in order of registration.
    _parameters = property(lambda self: _Members(self._state.parameters(), self, self.register_parameter))
    _buffers = property(lambda self: _Members(self._state.buffers(), self, self._replace_buffer))
    _modules = property(lambda self: _Members(self._state.modules(), self, self.register_module))

    def _replace_buffer(self, name, tensor):
        self.register_buffer(name, tensor, self._state.kind_of(name) != "buffer" or self._state.is_saved(name))

    def _forget(self, name):
        """A member registered as None is an attribute with the value None."""
        self._state.remove(name)
        object.__setattr__(self, name, None)

    def _register(self, register, name, value, kind, *options):
        if not isinstance(name, str):
            raise TypeError(f"name of a member: expected a str, got {type(name).__name__}")
        if not name or "." in name:
            raise KeyError(f"name of a member: expected a str without a dot, got {name!r}")
        known = self.__dict__.get(name)
        if known is not None and known is not value or hasattr(Module, name):
            raise KeyError(f"'{name}' is an attribute of the module already: delete it, or take another name")
        if value is None:
            return self._forget(name)
        if not isinstance(value, kind):
            raise TypeError(f"value registered as '{name}': expected {kind.__name__}, got {type(value).__name__}")
        register(name, value, *options)
        self.__dict__.pop(name, None)

    def register_parameter(self, name, param):
        self._register(self._state.set_parameter, name, param, Parameter)

    def register_buffer(self, name, tensor, persistent=True):
        self._register(self._state.set_buffer, name, tensor, Tensor, persistent)
        if tensor is None:
            self._empty_buffers[name] = persistent
        else:
            self._empty_buffers.pop(name, None)

    def register_module(self, name, module):
        self._register(self._state.set_module, name, module, Module)

    add_module = register_module
    _is_list = False  # equal children in a row are printed as one

    # ---- walking ----

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        memo = set() if memo is None else memo
        if id(self) in memo:
            return
        if remove_duplicate:
            memo.add(id(self))
        yield prefix, self
        for name, module in self._state.modules().items():
            yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self):
        return (module for _, module in self.named_modules())

    def named_children(self):
        """Pairs of name and child; a child with several names has its first."""
        seen = set()
        for name, module in self._state.modules().items():
            if module not in seen:
                seen.add(module)
                yield name, module

    def children(self):
        return (module for _, module in self.named_children())

    def _named(self, place, prefix, recurse, remove_duplicate):
        seen = set()
        for path, module in self.named_modules(None, prefix, remove_duplicate) if recurse else [(prefix, self)]:
            for name, tensor in getattr(module._state, place)().items():
                if not remove_duplicate or tensor._impl() not in seen:
                    seen.add(tensor._impl())
                    yield (f"{path}.{name}" if path else name), tensor

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        return self._named("parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse=True):
        return (tensor for _, tensor in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        return self._named("buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        return (tensor for _, tensor in self.named_buffers(recurse=recurse))

    def get_submodule(self, target):
        module = self
        for name in target.split(".") if target else []:
            module = getattr(module, name)
        return module

    # ---- changing all ----

    training = property(lambda self: self._state.training, lambda self, on: setattr(self._state, "training", bool(on)),
                        doc="Whether dropout and its like are at work.")

    def _member(self, target, kind, find):
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        for own, tensor in find(module):
            if own == name:
                return tensor
        raise AttributeError(f"{type(module).__name__} has no {kind} {name!r}")

    def get_parameter(self, target):
        """The parameter of that path; AttributeError where there is none."""
        return self._member(target, "parameter", lambda module: module.named_parameters(recurse=False))

    def get_buffer(self, target):
        """The buffer of that path; AttributeError where there is none."""
        return self._member(target, "buffer", lambda module: module.named_buffers(recurse=False))

    def train(self, mode=True):
        if not isinstance(mode, bool):
            raise ValueError(f"train(): argument 'mode': expected a bool, got {type(mode).__name__}")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self):
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        if set_to_none:
            return self._state.zero_grad()
        for parameter in self.parameters():
            if parameter.grad is not None:
                parameter.grad.zero_()

    def apply(self, fn):
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def to(self, device=None, dtype=None, non_blocking=False, *, memory_format=None):
        """Moves and converts parameters, buffers and gradients in place, so that optimizers see the new ones; a dtype
        concerns floating-point tensors alone. A buffer that is a plain tensor is replaced. A tensor in place of the device
        stands for its device and dtype; every memory_format means row-major."""
        if isinstance(device, Tensor):
            device, dtype = device.device, device.dtype
        elif isinstance(device, (_core.dtype, type)):  # float and its like are dtypes, too
            device, dtype = None, device
        if isinstance(dtype, bool):  # to(device, non_blocking)
            dtype = None
        self._state.to(device, dtype)
        for module in self.modules():
            module._state.forget_replaced()
        return self

    # ---- saving ----

    def get_extra_state(self):
        """Any object that state_dict() holds beside the tensors; a module that overrides it has set_extra_state, too."""
        raise RuntimeError(f"{type(self).__name__} has no get_extra_state()")

    def set_extra_state(self, state):
        """Takes the object of get_extra_state from a state that is loaded."""
        raise RuntimeError(f"{type(self).__name__} has no set_extra_state()")

    def get_config(self):
        """The options that make a module like this one, for files of the model: the arguments of __init__ but for devices
        and dtypes, with the present values of attributes of the same names, such as `dropout.p`. Of bool, int, float,
        str, None and lists of those; override it where __init__ takes more. ValueError if an attribute has changed and
        the constructor does not take its value."""
        args, kwargs = self._made_with
        given = inspect.signature(type(self).__init__).bind(self, *args, **kwargs)
        given.apply_defaults()
        config = {}
        for name, value in list(given.arguments.items())[1:]:
            kind = given.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                config |= value
            elif kind is not inspect.Parameter.VAR_POSITIONAL and name not in ("device", "dtype", "inplace"):
                config[name] = value
        changed = {name: self.__dict__[name] for name, value in config.items()
                   if name in self.__dict__ and _is_other_option(value, self.__dict__[name])}
        return self._with_present(config, changed) if changed else config

    def _with_present(self, config, changed):
        """The config with attributes that were changed after construction; others differ because __init__ computes them."""
        drawn = _core.get_rng_state()
        try:
            made = type(self).from_config(dict(config)).__dict__
            changed = {name: value for name, value in changed.items() if made.get(name) != value}
            present = config | changed
            made = type(self).from_config(dict(present)).__dict__ if changed else made
        finally:
            _core.set_rng_state(drawn)
        for name, value in changed.items():
            if made.get(name) != value:
                raise ValueError(f"{type(self).__name__}.{name} is {value!r} since it was made with {config[name]!r}, and "
                                 "__init__ does not set it; write get_config and from_config")
        return present

    @classmethod
    def from_config(cls, config):
        """A new module from the result of get_config."""
        return cls(**config)

    def state_dict(self, prefix="", keep_vars=False, *, buffers=True, destination=None):
        """Parameters and buffers by name, outside the graph unless keep_vars, sharing memory with the module; what is
        shared stands under each of its names. buffers=False leaves those out; a destination is a dict that takes them."""
        for hook in self.__dict__.get("_saving_hooks", ()):
            hook(self, prefix, keep_vars)
        held = list(self._state.parameters().items())
        held += [(name, t) for name, t in self._state.buffers().items() if buffers and self._state.is_saved(name)]
        merged = self._state.unmerged_weight()
        if merged is not None:
            held = [(name, merged if name == "weight" else tensor) for name, tensor in held]
        state = {f"{prefix}{name}": tensor if keep_vars else tensor.detach() for name, tensor in held}
        if type(self).get_extra_state is not Module.get_extra_state:
            state[prefix + _EXTRA_STATE] = self.get_extra_state()
        for name, module in self._state.modules().items():
            state |= module.state_dict(f"{prefix}{name}.", keep_vars, buffers=buffers)
        for hook in self.__dict__.get("_saved_hooks", ()):
            hook(self, state, prefix, {})
        if destination is not None:
            destination.update(state)
            return destination
        return state if prefix else self._described(state)

    _version = 1

    def _described(self, state):
        """The state with the version of each module, as PyTorch's programs read and pass it on."""
        described = collections.OrderedDict(state)
        described._metadata = collections.OrderedDict((path, {"version": part._version}) for path, part in self.named_modules())
        return described

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Copies the values in; returns (missing_keys, unexpected_keys). Nothing was changed where it raises. With assign
        the tensors themselves become parameters and buffers, with their dtypes and devices."""
        if not isinstance(state_dict, collections.abc.Mapping):
            raise TypeError(f"load_state_dict(): expected a dict, got {type(state_dict).__name__}")
        state_dict, extras = _split_extras(_prepared(self, dict(state_dict), strict))
        missing, unexpected, extra_calls = _matched_extras(self, extras)
        if strict and (missing or unexpected):
            raise RuntimeError(f"load_state_dict(): extra states missing: {missing}, unexpected: {unexpected}")
        found = _IncompatibleKeys(*self._state.load_state_dict(state_dict, strict))
        found.missing_keys.extend(missing)
        found.unexpected_keys.extend(unexpected)
        for setter, value in extra_calls:
            setter(value)
        if assign:
            _assign(self, state_dict)
        for module in self.modules():
            for hook in module.__dict__.get("_loaded_hooks", ()):
                hook(module, found)
        return found

    def __getstate__(self):
        if self._state.computes or self._state.has_weight_forms:
            raise TypeError(f"a {type(self).__name__} is not pickled or deep-copied: save its state_dict()")
        attributes = {k: v for k, v in self.__dict__.items() if k not in ("_state", "_hooks", "_connections", "_made_with")}
        buffers = [(name, tensor, self._state.is_saved(name)) for name, tensor in self._state.buffers().items()]
        return (attributes, self._state.parameters(), buffers, self._state.modules(), self.training, self._state.extra_repr,
                self._made_with, _core._parametrized(self), self._state.layer_type)

    def __setstate__(self, state):
        Module.__init__(self)
        if isinstance(state, dict):  # a module that PyTorch pickled
            return take_attributes(self, state)
        (attributes, parameters, buffers, modules, self._state.training, self._state.extra_repr, made_with,
         parametrized, *layer_type) = state
        for known in layer_type:
            self._state.layer_type = known
        object.__setattr__(self, "_made_with", made_with)
        self.__dict__.update(attributes)
        for name, tensor in parameters.items():
            self._state.set_parameter(name, tensor)
        for name, tensor, saved in buffers:
            self._state.set_buffer(name, tensor, saved)
        for name, module in modules.items():
            self._state.set_module(name, module)
        # A copy of a parametrized module: its lists were copied, and compute what they did.
        for name, is_parameter, saved, unsafe in parametrized:
            held = self._state.modules()["parametrizations"]._modules[name]
            _core._adopt_parametrized(self, name, is_parameter, saved, unsafe, held, list(held.children()))

    # ---- calls and hooks ----

    def _connect(self, kind, hook, prepend, **options):
        """Adds a hook, and with the first of a kind the C++ hook that calls them all."""
        hooks = self._hooks[kind]

        def removed():
            if not hooks:
                self._connections.pop(kind).remove()

        handle = _add_hook(hooks, hook, prepend, removed, **options)
        if kind not in self._connections:
            connect = self._state.connect_forward if kind.startswith("forward") else self._state.connect_backward
            self._connections[kind] = connect(self, kind.endswith("_pre"))
        return handle

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """hook(module, args) before each call; its result replaces the arguments."""
        return self._connect("forward_pre", hook, prepend, with_kwargs=with_kwargs)

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """hook(module, args, output) after each call; its result replaces the output."""
        if always_call:
            raise NotImplementedError("register_forward_hook(): always_call is not there yet")
        return self._connect("forward", hook, prepend, with_kwargs=with_kwargs)

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """hook(module, grad_output) once the gradient of an output is complete; its result replaces it."""
        return self._connect("backward_pre", hook, prepend)

    def register_full_backward_hook(self, hook, prepend=False):
        """hook(module, grad_input, grad_output) once the gradients of the inputs that need one are there; what it
        returns replaces grad_input. The gradients are those that flow through this call alone."""
        return self._connect("backward", hook, prepend)

    def register_backward_hook(self, hook):
        """register_full_backward_hook."""
        return self.register_full_backward_hook(hook)

    def __call__(self, *args, **kwargs):
        return self._state.call(self, args, kwargs)

    def _call_with_hooks(self, args, kwargs):
        args, kwargs = self._run_forward_pre_hooks(args, kwargs)
        # Hooks of C++'s, forward and backward.
        call = self._state.watch_call(args)
        try:
            args = call.arguments
            if self._state.is_checkpointed:
                from weft.utils.checkpoint import checkpoint

                output = checkpoint(self.forward, *args, **kwargs)
            else:
                output = self.forward(*args, **kwargs)
            output = self._run_forward_hooks(args, output, kwargs)
            return call.finish(output)
        except BaseException:
            call.fail()
            raise

    def _run_forward_pre_hooks(self, args, kwargs=None):
        """Without keywords for a call inside C++, which takes the tensors alone."""
        for hook, options in list(self._hooks["forward_pre"].values()):
            replaced = hook(self, args, kwargs or {}) if options["with_kwargs"] else hook(self, args)
            if replaced is None:
                continue
            if options["with_kwargs"]:
                args, kwargs = replaced[0], replaced[1] if kwargs is not None else None
            else:
                args = replaced if isinstance(replaced, tuple) else (replaced,)
        return args if kwargs is None else (args, kwargs)

    def _run_forward_hooks(self, args, output, kwargs=None):
        for hook, options in list(self._hooks["forward"].values()):
            replaced = hook(self, args, kwargs or {}, output) if options["with_kwargs"] else hook(self, args, output)
            output = output if replaced is None else replaced
        return output

    def _run_backward_pre_hooks(self, grad_output, number):
        for hook, _ in list(self._hooks["backward_pre"].values()):
            replaced = hook(self, grad_output)
            if replaced is not None:
                grad_output = replaced if isinstance(replaced, (tuple, list)) else (replaced,)
        return grad_output[number]

    def _run_backward_hooks(self, grad_input, grad_output):
        for hook, _ in [*_global_hooks["backward"].values(), *self._hooks["backward"].values()]:
            replaced = hook(self, grad_input, grad_output)
            if replaced is not None:
                grad_input = tuple(replaced) if isinstance(replaced, (tuple, list)) else (replaced,)
        return grad_input if any(g is not None for g in grad_input) else None

    def forward(self, *args, **kwargs):
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    # ---- showing ----

    def extra_repr(self):
        """The text in parentheses in the printed module."""
        return self._state.extra_repr

    def __repr__(self):
        children = [(name, repr(module)) for name, module in self._state.modules().items()]
        name = "Parametrized" * bool(_core._is_parametrized(self, "")) + self._state.class_name
        return _core._module_text(name, self.extra_repr(), children, self._is_list)


class NativeModule(Module):
    """A module whose forward is C++'s; its parts are reached by name, and can be hooked, moved and saved."""

    def __init__(self, layer):
        self._start(_core._Module("", layer))

    def forward(self, input):
        return self._state.call_layer(input)


_core._set_module_classes(Parameter, Buffer, NativeModule)
