"""Weights with some elements set to zero: `name` is name_orig * name_mask, computed before each call of the module."""

from numbers import Integral, Real

import weft

__all__ = ["BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
           "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned",
           "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove", "_compute_nparams_toprune",
           "_validate_pruning_amount", "_validate_pruning_amount_init", "_validate_structured_pruning"]


def _checked(amount):
    """A fraction in [0, 1], or a number of elements."""
    if isinstance(amount, bool) or not isinstance(amount, Real):
        raise TypeError(f"amount: expected a number or a fraction, got {type(amount).__name__}")
    amount = int(amount) if isinstance(amount, Integral) else float(amount)
    if amount < 0 or isinstance(amount, float) and amount > 1:
        raise ValueError(f"amount: expected a fraction in [0, 1] or a number of elements, got {amount}")
    return amount


def _check_fits(amount, size):
    if isinstance(amount, Integral) and amount > size:
        raise ValueError(f"amount: expected at most {size} elements, got {amount}")


def _count(amount, size):
    """The number of elements to prune: a fraction of all, or a number."""
    _check_fits(amount, size)
    return amount if isinstance(amount, Integral) else round(amount * size)


def _check_structured(tensor):
    if tensor.ndim <= 1:
        raise ValueError(f"structured pruning: expected a tensor of rank 2 or more, got rank {tensor.ndim}")


# PyTorch's names, which its users import.
_validate_pruning_amount_init, _validate_pruning_amount, _compute_nparams_toprune = _checked, _check_fits, _count
_validate_structured_pruning = _check_structured


class BasePruningMethod:
    """Computes masks; `PRUNING_TYPE` is "unstructured", "structured" or "global"."""

    PRUNING_TYPE = "unstructured"
    _tensor_name = ""

    def compute_mask(self, t, default_mask):
        """The mask of a tensor, of which default_mask was pruned before."""
        raise NotImplementedError(f"{type(self).__name__} has no compute_mask")

    def __call__(self, module, inputs):
        object.__setattr__(module, self._tensor_name, self.apply_mask(module))

    def apply_mask(self, module):
        """The masked tensor."""
        original = getattr(module, self._tensor_name + "_orig")
        return getattr(module, self._tensor_name + "_mask").to(original.dtype) * original

    def prune(self, t, default_mask=None, importance_scores=None):
        """A masked tensor, without a module."""
        mask = weft.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(t if importance_scores is None else importance_scores, mask)

    @classmethod
    def apply(cls, module, name, *args, importance_scores=None, **kwargs):
        """Prunes the parameter `name`, further if it is pruned already."""
        method = cls(*args, **kwargs)
        method._tensor_name = name
        before = _method_of(module, name)
        if before is None:
            parameter = getattr(module, name)
            mask, scores = weft.ones_like(parameter), parameter.detach()
            delattr(module, name)
            module.register_parameter(name + "_orig", parameter)
        else:
            key, old = before
            del module._hooks["forward_pre"][key]
            mask, scores = getattr(module, name + "_mask"), getattr(module, name + "_orig").detach() * getattr(module, name + "_mask")
            method = _chained(old, method)
        scores = scores if importance_scores is None else importance_scores
        module.register_buffer(name + "_mask", method.compute_mask(scores, mask))
        method(module, None)
        module.register_forward_pre_hook(method)
        return method

    def remove(self, module):
        """Makes the masked values the parameter."""
        masked = self.apply_mask(module)
        original = getattr(module, self._tensor_name + "_orig")
        module.__dict__.pop(self._tensor_name, None)
        delattr(module, self._tensor_name + "_orig")
        delattr(module, self._tensor_name + "_mask")
        with weft.no_grad():
            original.copy_(masked)
        module.register_parameter(self._tensor_name, original)


class PruningContainer(BasePruningMethod):
    """Several methods of one tensor, each for the elements that are left."""

    def __init__(self, *methods):
        self._pruning_methods = tuple(methods)
        self._tensor_name = methods[0]._tensor_name if methods else ""

    def add_pruning_method(self, method):
        if method is not None and not isinstance(method, BasePruningMethod):
            raise TypeError(f"add_pruning_method(): expected a pruning method, got {type(method).__name__}")
        if method is not None and method._tensor_name != self._tensor_name:
            raise ValueError(f"the container is of '{self._tensor_name}', the method of '{method._tensor_name}'")
        self._pruning_methods += (method,)

    def __len__(self):
        return len(self._pruning_methods)

    def __iter__(self):
        return iter(self._pruning_methods)

    def __getitem__(self, i):
        return self._pruning_methods[i]

    def compute_mask(self, t, default_mask):
        method = self._pruning_methods[-1]
        left = default_mask == 1
        if method.PRUNING_TYPE == "structured":
            dim = method.dim % t.ndim
            others = [d for d in range(t.ndim) if d != dim]
            channels = left.any(others) if others else left
            index = tuple(channels if d == dim else slice(None) for d in range(t.ndim))
        else:
            index = left if method.PRUNING_TYPE == "unstructured" else (slice(None),) * t.ndim
        mask = default_mask.clone()
        mask[index] = method.compute_mask(t[index], default_mask[index]).to(mask.dtype)
        return mask


def _chained(old, method):
    container = old if isinstance(old, PruningContainer) else PruningContainer(old)
    container.add_pruning_method(method)
    return container


class Identity(BasePruningMethod):
    """A mask of ones."""

    def compute_mask(self, t, default_mask):
        return default_mask


class RandomUnstructured(BasePruningMethod):
    """Elements by chance."""

    def __init__(self, amount):
        self.amount = _checked(amount)

    def scores(self, t):
        return weft.rand_like(t)

    def compute_mask(self, t, default_mask):
        count, mask = _count(self.amount, t.numel()), default_mask.clone()
        if count:
            smallest = weft.topk(self.scores(t).reshape(-1), count, largest=False).indices
            mask.view(-1)[smallest] = 0
        return mask


class L1Unstructured(RandomUnstructured):
    """The smallest elements."""

    def scores(self, t):
        return t.abs()


class RandomStructured(BasePruningMethod):
    """Channels along dim by chance."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount, dim=-1):
        self.amount, self.dim = _checked(amount), dim

    def scores(self, t):
        return weft.rand(t.shape[self.dim])

    def compute_mask(self, t, default_mask):
        _check_structured(t)
        size = t.shape[self.dim]
        count, mask = _count(self.amount, size), weft.ones_like(default_mask)
        if count:
            smallest = weft.topk(self.scores(t), count, largest=False).indices
            mask.index_fill_(self.dim, smallest, 0)
        return mask * default_mask


class LnStructured(RandomStructured):
    """The channels along dim with the smallest n-norm."""

    def __init__(self, amount, n, dim=-1):
        super().__init__(amount, dim)
        self.n = n

    def scores(self, t):
        others = [d for d in range(t.ndim) if d != self.dim % t.ndim]
        return weft.norm(t, self.n, others)


class CustomFromMask(BasePruningMethod):
    """A given mask."""

    PRUNING_TYPE = "global"

    def __init__(self, mask):
        self.mask = mask

    def compute_mask(self, t, default_mask):
        return default_mask * self.mask.to(default_mask.dtype)


def identity(module, name):
    """Prunes nothing, and makes name_orig and name_mask."""
    Identity.apply(module, name)
    return module


def random_unstructured(module, name, amount):
    """Sets elements by chance to zero: a fraction, or a number of them."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module, name, amount, importance_scores=None):
    """Sets the smallest elements to zero."""
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module, name, amount, dim):
    """Sets channels along dim by chance to zero."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module, name, amount, n, dim, importance_scores=None):
    """Sets the channels along dim with the smallest n-norm to zero."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module, name, mask):
    """Prunes by a mask of ones and zeros."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(parameters, pruning_method, importance_scores=None, **kwargs):
    """Prunes several (module, name) as if they were one tensor."""
    parameters = list(parameters)
    tensors = [getattr(module, name) for module, name in parameters]
    scores = [t if importance_scores is None else importance_scores.get(pair, t) for pair, t in zip(parameters, tensors)]
    masks = [getattr(module, name + "_mask", weft.ones_like(t)) for (module, name), t in zip(parameters, tensors)]
    flat = [weft.cat([t.detach().reshape(-1) for t in several]) for several in (scores, masks)]
    container = PruningContainer()
    method = pruning_method(**kwargs)
    container._tensor_name = method._tensor_name = "temp"
    container.add_pruning_method(method)
    found = container.compute_mask(*flat)
    for (module, name), part, t in zip(parameters, found.split([t.numel() for t in tensors]), tensors):
        custom_from_mask(module, name, part.reshape(t.shape))


def _method_of(module, name):
    for key, (hook, _) in module._hooks["forward_pre"].items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return key, hook
    return None


def is_pruned(module):
    """Whether a tensor of the module, or of one below it, is pruned."""
    return any(isinstance(hook, BasePruningMethod) for m in module.modules() for hook, _ in m._hooks["forward_pre"].values())


def remove(module, name):
    """Keeps the zeros, and makes `name` a plain parameter again."""
    found = _method_of(module, name)
    if found is None:
        raise ValueError(f"'{name}' of {type(module).__name__} is not pruned")
    key, method = found
    method.remove(module)
    del module._hooks["forward_pre"][key]
    return module


