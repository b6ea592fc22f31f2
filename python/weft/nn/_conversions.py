"""Methods of modules that convert, move and share their tensors, replace parts, and change states that are saved or loaded."""

from numbers import Integral

from weft import _core
from weft._modes import no_grad
from weft.errors import ValueError


class Conversions:
    """The base of Module with these methods."""

    def float(self):
        return self.to(dtype=_core.float32)

    def double(self):
        return self.to(dtype=_core.float64)

    def half(self):
        return self.to(dtype=_core.float16)

    def bfloat16(self):
        return self.to(dtype=_core.bfloat16)

    def type(self, dst_type):
        """to(dtype), by a dtype or the name of a tensor type."""
        return self.to(dtype=_core._ops["zeros"]((1,)).type(dst_type).dtype)

    def cpu(self):
        return self.to("cpu")

    def cuda(self, device=None):
        return self.to(f"cuda:{device or 0}" if device is None or isinstance(device, Integral) else device)

    def hpu(self, device=0):
        return self.to(f"hpu:{device}" if isinstance(device, Integral) else device)

    def to_empty(self, *, device, recurse=True):
        """to(device); the elements need not be kept."""
        return self.to(device)

    def _apply(self, fn, recurse=True):
        """Writes fn(tensor) into every parameter, buffer and gradient. Raises ValueError where its shape, dtype or device
        is another one: `to` converts and moves."""
        for module in self.modules() if recurse else [self]:
            for tensor in [*module._state.parameters().values(), *module._state.buffers().values()]:
                for target in (tensor, tensor.grad):
                    if target is not None:
                        _overwrite(target, fn)
        return self

    def share_memory(self):
        """Moves parameters and buffers into memory that other processes can open."""
        for tensor in (*self.parameters(), *self.buffers()):
            tensor.share_memory_()
        return self

    def set_submodule(self, target, module, strict=False):
        """Puts a module at the path of another one. AttributeError where there is none on the way, with strict also at its
        end."""
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict:
            getattr(parent, name)
        parent.register_module(name, module)

    def compile(self, *args, **kwargs):
        """Nothing: weft.capture records and replays whole steps."""

    def _get_name(self):
        return type(self).__name__

    # The registered hooks by their keys, as copies.
    _forward_hooks = property(lambda self: {key: hook for key, (hook, _) in self._hooks["forward"].items()})
    _forward_pre_hooks = property(lambda self: {key: hook for key, (hook, _) in self._hooks["forward_pre"].items()})
    _backward_hooks = property(lambda self: {key: hook for key, (hook, _) in self._hooks["backward"].items()})

    # ---- hooks of states ----

    def register_load_state_dict_pre_hook(self, hook):
        """hook(module, state_dict, prefix, metadata, strict, missing_keys, unexpected_keys, error_msgs) before a state is
        loaded into this module or one that holds it; it may change the dict."""
        return _listed(self, "_loading_hooks", hook)

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        return self.register_load_state_dict_pre_hook(hook if with_module else lambda module, *rest: hook(*rest))

    def register_load_state_dict_post_hook(self, hook):
        """hook(module, incompatible_keys) after a state was loaded."""
        return _listed(self, "_loaded_hooks", hook)


    def register_state_dict_pre_hook(self, hook):
        """hook(module, prefix, keep_vars) before a state is made."""
        return _listed(self, "_saving_hooks", hook)

    def register_state_dict_post_hook(self, hook):
        """hook(module, state_dict, prefix, metadata) after a state was made; it may change the dict."""
        return _listed(self, "_saved_hooks", hook)

    _register_state_dict_hook = register_state_dict_post_hook

    def register_backward_hook(self, hook):
        """register_full_backward_hook."""
        return self.register_full_backward_hook(hook)


class _Entry:
    """Removes one hook of a list."""

    def __init__(self, hooks, hook):
        self._hooks, self._hook = hooks, hook

    def remove(self):
        if self._hook in self._hooks:
            self._hooks.remove(self._hook)


def _listed(module, name, hook):
    hooks = module.__dict__.setdefault(name, [])
    hooks.append(hook)
    return _Entry(hooks, hook)


def _overwrite(target, fn):
    with no_grad():
        value = fn(target.detach())
        if tuple(value.shape) != tuple(target.shape) or value.dtype is not target.dtype or value.device != target.device:
            raise ValueError(f"_apply(): expected {target.dtype.name} of shape {list(target.shape)} on {target.device}, got "
                             f"{value.dtype.name} of shape {list(value.shape)} on {value.device}")
        if value._impl() != target._impl():
            target.detach().copy_(value)


def take_attributes(module, attributes):
    """Makes a module of the attributes that PyTorch's module of the same class has."""
    object.__setattr__(module, "_made_with", ([], {}))
    members, unsaved = ("_parameters", "_buffers", "_modules"), attributes.get("_non_persistent_buffers_set", ())
    for name, value in attributes.items():
        if name not in members and name != "training" and not name.endswith("_hooks") and not name.startswith("_"):
            object.__setattr__(module, name, value)
    for name, parameter in attributes.get("_parameters", {}).items():
        module.register_parameter(name, parameter)
    for name, tensor in attributes.get("_buffers", {}).items():
        module.register_buffer(name, tensor, name not in unsaved)
    for name, child in attributes.get("_modules", {}).items():
        module.register_module(name, child)
    module.training = attributes.get("training", True)
