"""Module: parameters, buffers and other modules by name, and hooks on its calls."""

import itertools

from weft import _core
from weft._core import Tensor
from weft._modes import no_grad


class Parameter(Tensor):
    """A leaf that requires a gradient, over the memory of `data`; a module that it is assigned to registers it."""

    def __new__(cls, data, requires_grad=True):
        self = super().__new__(cls, data)
        self.requires_grad_(requires_grad)
        return self

    def __repr__(self):
        return "Parameter containing:\n" + super().__repr__()


class Buffer(Tensor):
    """State that is saved and moved with the module but not trained."""


class _Handle:
    """Names one registered hook of a module."""

    def __init__(self, hooks, key):
        self._hooks, self._key = hooks, key

    def remove(self):
        """True the first time, false when the hook is gone already."""
        return self._hooks.pop(self._key, None) is not None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


_hook_numbers = itertools.count()


def _add_hook(hooks, hook, prepend=False, **options):
    if not callable(hook):
        raise TypeError(f"argument 'hook' must be callable, not {type(hook).__name__}")
    key = next(_hook_numbers)
    hooks[key] = (hook, options)
    if prepend:
        for other in [k for k in hooks if k != key]:
            hooks[other] = hooks.pop(other)
    return _Handle(hooks, key)


class Module:
    """The base of all modules: subclasses assign parameters, buffers and modules as attributes and write `forward`."""

    def __init__(self):
        for name in ("_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks", "_backward_hooks",
                     "_backward_pre_hooks"):
            object.__setattr__(self, name, {})
        object.__setattr__(self, "_unsaved", set())
        object.__setattr__(self, "training", True)

    # ---- members ----

    def __setattr__(self, name, value):
        places = self.__dict__
        if "_parameters" not in places:
            if isinstance(value, (Tensor, Module)):
                raise AttributeError("call super().__init__() before assigning parameters and modules")
            return object.__setattr__(self, name, value)
        kinds = ((Parameter, self._parameters), (Buffer, self._buffers), (Module, self._modules))
        for kind, place in kinds:
            if isinstance(value, kind):
                for _, other in kinds:
                    if other is not place:
                        other.pop(name, None)
                places.pop(name, None)
                place[name] = value
                return None
        for _, place in kinds:
            if name in place:
                if value is not None and not (place is self._buffers and isinstance(value, Tensor)):
                    raise TypeError(f"'{name}' is registered: assign a value of its kind or None, not "
                                    f"{type(value).__name__}")
                place[name] = value
                return None
        return object.__setattr__(self, name, value)

    def __getattr__(self, name):
        for place in ("_parameters", "_buffers", "_modules"):
            members = self.__dict__.get(place, {})
            if name in members:
                return members[name]
        raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'")

    def __delattr__(self, name):
        for place in (self._parameters, self._buffers, self._modules):
            if name in place:
                del place[name]
                return
        object.__delattr__(self, name)

    def __dir__(self):
        return [*super().__dir__(), *self._parameters, *self._buffers, *self._modules]

    def _check_name(self, name):
        if not isinstance(name, str) or not name or "." in name:
            raise ValueError(f"a member's name must be a str without a dot, not {name!r}")

    def register_parameter(self, name, param):
        self._check_name(name)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"register_parameter(): argument 'param' must be a Parameter, not {type(param).__name__}")
        self._parameters[name] = param

    def register_buffer(self, name, tensor, persistent=True):
        self._check_name(name)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"register_buffer(): argument 'tensor' must be a Tensor, not {type(tensor).__name__}")
        self._buffers[name] = tensor
        if not persistent:
            self._unsaved.add(name)

    def register_module(self, name, module):
        self._check_name(name)
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"register_module(): argument 'module' must be a Module, not {type(module).__name__}")
        self._modules[name] = module

    add_module = register_module

    # ---- walking ----

    def named_modules(self, memo=None, prefix=""):
        memo = set() if memo is None else memo
        if id(self) in memo:
            return
        memo.add(id(self))
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name)

    def modules(self):
        return (module for _, module in self.named_modules())

    def named_children(self):
        return ((name, module) for name, module in self._modules.items() if module is not None)

    def children(self):
        return (module for _, module in self.named_children())

    def _named(self, place, prefix, recurse):
        seen = set()
        for path, module in self.named_modules(prefix=prefix) if recurse else [(prefix, self)]:
            for name, tensor in getattr(module, place).items():
                if tensor is not None and tensor._impl() not in seen:
                    seen.add(tensor._impl())
                    yield (f"{path}.{name}" if path else name), tensor

    def named_parameters(self, prefix="", recurse=True):
        return self._named("_parameters", prefix, recurse)

    def parameters(self, recurse=True):
        return (tensor for _, tensor in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix="", recurse=True):
        return self._named("_buffers", prefix, recurse)

    def buffers(self, recurse=True):
        return (tensor for _, tensor in self.named_buffers(recurse=recurse))

    def get_submodule(self, target):
        module = self
        for name in target.split(".") if target else []:
            module = module._modules[name] if name in module._modules else getattr(module, name)
        return module

    # ---- changing all ----

    def train(self, mode=True):
        for module in self.modules():
            object.__setattr__(module, "training", bool(mode))
        return self

    def eval(self):
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        for parameter in self.parameters():
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                parameter.grad.zero_()

    def apply(self, fn):
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    @no_grad()
    def _convert(self, change):
        """Puts changed parameters and buffers in place of the old ones. Optimizers made before hold the old ones."""
        for module in self.modules():
            for place, kind in ((module._parameters, Parameter), (module._buffers, None)):
                for name, tensor in place.items():
                    if tensor is None:
                        continue
                    fresh = change(tensor.detach())
                    if fresh._impl() == tensor._impl() or fresh.data_ptr() == tensor.data_ptr():
                        continue
                    if kind is not None:
                        grad = tensor.grad
                        fresh = kind(fresh, tensor.requires_grad)
                        if grad is not None:
                            fresh.grad = change(grad.detach())
                    elif isinstance(tensor, Buffer):
                        fresh = Buffer(fresh)
                    place[name] = fresh
        return self

    def to(self, device=None, dtype=None):
        """Moves and converts; a dtype concerns floating-point tensors alone. Make the optimizer afterwards."""
        if isinstance(device, _core.dtype):
            device, dtype = None, device
        if dtype is not None and not dtype.is_floating_point:
            raise TypeError("Module.to() takes floating-point dtypes")

        def change(tensor):
            tensor = tensor if device is None else tensor.to(device=device)
            return tensor if dtype is None or not tensor.dtype.is_floating_point else tensor.to(dtype)

        return self._convert(change)

    def float(self):
        return self.to(dtype=_core.float32)

    def double(self):
        return self.to(dtype=_core.float64)

    def half(self):
        return self.to(dtype=_core.float16)

    def bfloat16(self):
        return self.to(dtype=_core.bfloat16)

    def cpu(self):
        return self.to("cpu")

    # ---- saving ----

    def state_dict(self, prefix=""):
        """Parameters and buffers by name, outside the graph, sharing memory with the module."""
        state = {}
        for path, module in self.named_modules(prefix=prefix.rstrip(".")):
            for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
                if tensor is not None and name not in module._unsaved:
                    state[f"{path}.{name}" if path else name] = tensor.detach()
        return state

    @no_grad()
    def load_state_dict(self, state_dict, strict=True):
        """Copies the values in; returns (missing, unexpected) names. Nothing was changed where it raises."""
        own = self.state_dict()
        missing = [name for name in own if name not in state_dict]
        unexpected = [name for name in state_dict if name not in own]
        if strict and (missing or unexpected):
            raise ValueError(f"load_state_dict(): missing names {missing}, unexpected names {unexpected}")
        for name, tensor in own.items():
            if name in state_dict and tuple(state_dict[name].shape) != tuple(tensor.shape):
                raise ValueError(f"load_state_dict(): '{name}' has shape {tuple(state_dict[name].shape)}, the module's "
                                 f"{tuple(tensor.shape)}")
        for name, tensor in own.items():
            if name in state_dict:
                tensor.copy_(state_dict[name].to(tensor.device))
        return missing, unexpected

    # ---- calls and hooks ----

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """hook(module, args) before each call; what it returns replaces the arguments."""
        return _add_hook(self._forward_pre_hooks, hook, prepend, with_kwargs=with_kwargs)

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """hook(module, args, output) after each call; what it returns replaces the output."""
        if always_call:
            raise NotImplementedError("register_forward_hook(): always_call is not there yet")
        return _add_hook(self._forward_hooks, hook, prepend, with_kwargs=with_kwargs)

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """hook(module, grad_output) once the gradient of an output is complete; what it returns replaces it."""
        return _add_hook(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook, prepend=False):
        """hook(module, grad_input, grad_output) once the gradients of the inputs that need one are there; what it
        returns replaces grad_input. The gradients are those that flow through this call alone."""
        return _add_hook(self._backward_hooks, hook, prepend)

    def __call__(self, *args, **kwargs):
        if not (self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks):
            return self.forward(*args, **kwargs)
        return self._call_with_hooks(args, kwargs)

    def _call_with_hooks(self, args, kwargs):
        for hook, options in list(self._forward_pre_hooks.values()):
            replaced = hook(self, args, kwargs) if options["with_kwargs"] else hook(self, args)
            if replaced is not None:
                if options["with_kwargs"]:
                    args, kwargs = replaced
                else:
                    args = replaced if isinstance(replaced, tuple) else (replaced,)
        backward = _BackwardHooks(self) if self._backward_hooks or self._backward_pre_hooks else None
        if backward is not None:
            args = backward.watch_inputs(args)
        output = self.forward(*args, **kwargs)
        if backward is not None:
            backward.watch_output(output)
        for hook, options in list(self._forward_hooks.values()):
            replaced = hook(self, args, kwargs, output) if options["with_kwargs"] else hook(self, args, output)
            if replaced is not None:
                output = replaced
        return output

    def forward(self, *args, **kwargs):
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    # ---- showing ----

    def extra_repr(self):
        return ""

    def _child_lines(self):
        return [(name, repr(module).replace("\n", "\n  ")) for name, module in self._modules.items()]

    def __repr__(self):
        lines = [f"({name}): {text}" for name, text in self._child_lines()]
        extra = self.extra_repr().replace("\n", "\n  ")
        if not lines and "\n" not in extra:
            return f"{type(self).__name__}({extra})"
        return f"{type(self).__name__}(\n  " + "\n  ".join([extra] * bool(extra) + lines) + "\n)"


class _BackwardHooks:
    """One call of a module as its backward hooks see it. Inputs go in as views of themselves, whose gradients are what
    this call alone contributes; outputs are not touched."""

    def __init__(self, module):
        self.module = module
        self.grad_output, self.grad_input, self.waiting = {}, {}, 0

    def watch_inputs(self, args):
        if not self.module._backward_hooks or not _core._grad_mode()[0]:
            return args
        args = list(args)
        for i, x in enumerate(args):
            if isinstance(x, Tensor) and x.requires_grad:
                args[i] = x.view(x.shape)
                args[i].register_hook(lambda g, i=i: self.input_ready(i, g))
                self.grad_input[i] = None
        self.waiting = len(self.grad_input)
        return tuple(args)

    def watch_output(self, output):
        outputs = output if isinstance(output, (tuple, list)) else (output,)
        for i, y in enumerate(outputs):
            if isinstance(y, Tensor) and y.requires_grad and not y.is_leaf:
                self.grad_output[i] = None
                y.register_hook(lambda g, i=i: self.output_ready(i, g))

    def output_ready(self, i, gradient):
        self.grad_output[i] = gradient
        before = gradient
        for hook, _ in list(self.module._backward_pre_hooks.values()):
            replaced = hook(self.module, tuple(self.grad_output.values()))
            if replaced is not None:
                gradient = replaced[i] if isinstance(replaced, (tuple, list)) else replaced
                self.grad_output[i] = gradient
        if self.waiting == 0 and self.module._backward_hooks and not self.grad_input:
            self.run((), None)
        return None if gradient is before else gradient

    def input_ready(self, i, gradient):
        self.grad_input[i] = gradient
        self.waiting -= 1
        if self.waiting > 0:
            return None
        self.waiting = len(self.grad_input)
        return self.run(tuple(self.grad_input.values()), list(self.grad_input).index(i))

    def run(self, grad_input, place):
        result = None
        for hook, _ in list(self.module._backward_hooks.values()):
            replaced = hook(self.module, grad_input, tuple(self.grad_output.values()))
            if replaced is not None and place is not None:
                replaced = replaced if isinstance(replaced, (tuple, list)) else (replaced,)
                if len(grad_input) > 1 and any(a is not b for j, (a, b) in enumerate(zip(replaced, grad_input))
                                               if j != place):
                    raise NotImplementedError("a backward hook may replace the gradient of one input only")
                grad_input = tuple(replaced)
                result = grad_input[place]
        return result


class Sequential(Module):
    """Modules called one after the other."""

    def __init__(self, *modules):
        super().__init__()
        named = modules[0].items() if len(modules) == 1 and isinstance(modules[0], dict) else enumerate(modules)
        for name, module in named:
            self.register_module(str(name), module)

    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input

    def append(self, module):
        self.register_module(str(len(self)), module)
        return self

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __getitem__(self, i):
        modules = list(self._modules.values())
        return Sequential(*modules[i]) if isinstance(i, slice) else modules[i]


class ModuleList(Module):
    """A list of modules that are registered."""

    def __init__(self, modules=()):
        super().__init__()
        for module in modules:
            self.append(module)

    append, __len__, __iter__ = Sequential.append, Sequential.__len__, Sequential.__iter__

    def extend(self, modules):
        for module in modules:
            self.append(module)
        return self

    def __getitem__(self, i):
        modules = list(self._modules.values())
        return ModuleList(modules[i]) if isinstance(i, slice) else modules[i]

    def _child_lines(self):
        """Equal ones in a row are one line."""
        lines = []
        for text, run in itertools.groupby(super()._child_lines(), lambda line: line[1]):
            names = [name for name, _ in run]
            many = len(names) > 1
            lines.append((f"{names[0]}-{names[-1]}", f"{len(names)} x {text}") if many else (names[0], text))
        return lines


class ModuleDict(Module):
    """Modules by name."""

    def __init__(self, modules=None):
        super().__init__()
        for name, module in (modules or {}).items():
            self.register_module(name, module)

    def __getitem__(self, name):
        return self._modules[name]

    def __setitem__(self, name, module):
        self.register_module(name, module)

    def __contains__(self, name):
        return name in self._modules

    def __iter__(self):
        return iter(self._modules)

    def __len__(self):
        return len(self._modules)

    def keys(self):
        return self._modules.keys()

    def values(self):
        return self._modules.values()

    def items(self):
        return self._modules.items()


class ParameterList(Module):
    """A list of parameters that are registered."""

    def __init__(self, parameters=()):
        super().__init__()
        for parameter in parameters:
            self.append(parameter)

    def append(self, parameter):
        self.register_parameter(str(len(self)), parameter if isinstance(parameter, Parameter) else Parameter(parameter))
        return self

    def __len__(self):
        return len(self._parameters)

    def __iter__(self):
        return iter(self._parameters.values())

    def __getitem__(self, i):
        return list(self._parameters.values())[i]
