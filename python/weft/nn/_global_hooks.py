"""Hooks on the calls of all modules. While there is one, Module.__call__ is a function that runs them."""

from weft.nn.module import Module, _add_hook, _global_hooks

_plain_call = Module.__call__


def _call(self, *args, **kwargs):
    for hook, _ in list(_global_hooks["forward_pre"].values()):
        replaced = hook(self, args)
        if replaced is not None:
            args = replaced if isinstance(replaced, tuple) else (replaced,)
    if _global_hooks["backward"] and "_watched_globally" not in self.__dict__:
        object.__setattr__(self, "_watched_globally", True)
        self.register_full_backward_hook(lambda *_: None)  # so that the call is watched
    output = _plain_call(self, *args, **kwargs)
    for hook, _ in list(_global_hooks["forward"].values()):
        replaced = hook(self, args, output)
        output = output if replaced is None else replaced
    return output


def _registered(kind, hook):
    def removed():
        if not any(_global_hooks.values()):
            Module.__call__ = _plain_call

    Module.__call__ = _call
    return _add_hook(_global_hooks[kind], hook, False, removed)


def register_module_forward_pre_hook(hook):
    """hook(module, args) before each call of any module; its result replaces the arguments."""
    return _registered("forward_pre", hook)


def register_module_forward_hook(hook):
    """hook(module, args, output) after each call of any module; its result replaces the output."""
    return _registered("forward", hook)


def register_module_full_backward_hook(hook):
    """hook(module, grad_input, grad_output) of each module whose call has gradients; its result replaces grad_input."""
    return _registered("backward", hook)


register_module_backward_hook = register_module_full_backward_hook
