"""Gradients: grad, backward, checks against finite differences, and custom functions in Python."""

from weft import _core
from weft._core import Tensor
from weft._methods import _converted_seed
from weft._modes import enable_grad, inference_mode, no_grad, set_grad_enabled  # noqa: F401


def _several(tensors, function, argument):
    if isinstance(tensors, Tensor):
        return [tensors]
    tensors = list(tensors)
    for t in tensors:
        if not isinstance(t, Tensor):
            raise TypeError(f"{function}(): argument '{argument}': expected tensors, got {type(t).__name__}")
    return tensors


def _seeds(seeds, function, argument):
    if seeds is None or isinstance(seeds, Tensor):
        return None if seeds is None else [seeds]
    return [None if s is None else _several(s, function, argument)[0] for s in seeds]


def _converted(seeds, outputs):
    """Seeds in the dtypes of their outputs."""
    if seeds is None or len(seeds) != len(outputs):
        return seeds
    return [_converted_seed(seed, y) for seed, y in zip(seeds, outputs)]


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True,
         allow_unused=None, is_grads_batched=False, materialize_grads=False):
    """Gradients of the outputs with respect to the inputs; .grad is not changed. With is_grads_batched the seeds have a
    leading dimension, and so have the gradients; with materialize_grads those of unused inputs are zeros."""
    if not only_inputs:
        raise NotImplementedError("grad(): argument 'only_inputs' is there with its default alone")
    if materialize_grads and allow_unused is False:
        raise ValueError("grad(): materialize_grads needs allow_unused")
    outputs, inputs = _several(outputs, "grad", "outputs"), _several(inputs, "grad", "inputs")
    if not inputs:
        raise ValueError("grad(): argument 'inputs': expected at least one tensor, got none")
    seeds = _converted(_seeds(grad_outputs, "grad", "grad_outputs"), outputs)
    allowed = bool(allow_unused or materialize_grads)
    if is_grads_batched:
        found = _batched_grad(outputs, inputs, seeds, retain_graph, create_graph, allowed)
    else:
        found = _core._grad(outputs, inputs, seeds, retain_graph, create_graph, allowed)
    if materialize_grads:
        return tuple(_core._ops["zeros_like"](x) if g is None else g for g, x in zip(found, inputs))
    return tuple(found)


def _batched_grad(outputs, inputs, seeds, retain_graph, create_graph, allow_unused):
    """Gradients for each row of the seeds, stacked."""
    count = next(seed.shape[0] for seed in seeds if seed is not None)
    rows = [_core._grad(outputs, inputs, [None if seed is None else seed[i] for seed in seeds],
                        True if i + 1 < count else retain_graph, create_graph, allow_unused) for i in range(count)]
    return [None if column[0] is None else _core._ops["stack"](list(column)) for column in zip(*rows)]


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None):
    """Accumulates gradients into the .grad of every leaf that the tensors depend on, or of `inputs` alone."""
    grad_tensors = grad_variables if grad_tensors is None else grad_tensors
    if inputs is not None:
        inputs = _several(inputs, "backward", "inputs")
        if not inputs:
            raise RuntimeError("backward(): argument 'inputs': expected at least one tensor, got none")
        found = grad(tensors, inputs, grad_tensors, retain_graph, create_graph, allow_unused=True)
        for tensor, gradient in zip(inputs, found):
            if gradient is not None:
                if not tensor.is_leaf:
                    tensor.retain_grad()
                tensor.grad = gradient if tensor.grad is None else tensor.grad + gradient
        return
    tensors = _several(tensors, "backward", "tensors")
    _core._backward(tensors, _converted(_seeds(grad_tensors, "backward", "grad_tensors"), tensors), retain_graph, create_graph)


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True):
    """Compares the gradients of func with central differences, for float64 inputs that require gradients."""
    return _core._gradcheck(func, _several(inputs, "gradcheck", "inputs"), eps, atol, rtol, raise_exception)


def gradgradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True):
    """gradcheck for second derivatives."""
    return _core._gradgradcheck(func, _several(inputs, "gradgradcheck", "inputs"), eps, atol, rtol, raise_exception)


class FunctionCtx:
    """Values that one call of a Function keeps from its forward for its backward."""

    def __init__(self):
        self._to_save = self._non_differentiable = self._dirty = ()
        self.saved_tensors, self.needs_input_grad = (), ()
        self._materializes = True

    def save_for_backward(self, *tensors):
        """Saves inputs, outputs or intermediate tensors, together with their current version."""
        self._to_save = tensors

    def mark_non_differentiable(self, *tensors):
        """Marks outputs that get no gradient; integer outputs never do."""
        self._non_differentiable = tensors

    def mark_dirty(self, *tensors):
        """Marks inputs that forward wrote in place and returns; apply returns the same object."""
        self._dirty = tensors

    def set_materialize_grads(self, value):
        """Whether backward gets zeros for outputs that no gradient arrived for, or None."""
        self._materializes = bool(value)

    def save_for_forward(self, *tensors):
        """Nothing: derivatives in forward mode come from backward."""

    saved_variables = property(lambda self: self.saved_tensors, doc="saved_tensors.")


class Function:
    """A differentiable function with static methods `forward(ctx, ...)` and `backward(ctx, ...)`; call it by `apply`.
    """

    @staticmethod
    def forward(ctx, *args):
        raise NotImplementedError("a Function needs a static method forward")

    @staticmethod
    def backward(ctx, *grad_outputs):
        raise NotImplementedError("a Function needs a static method backward")

    @classmethod
    def apply(cls, *args, **kwargs):
        """The result of forward, recorded with backward. With a static method setup_context(ctx, inputs, output), forward
        takes no ctx. Results that are no tensors are returned as they are; backward gets None for them."""
        steps = _Steps(cls, len(args), kwargs)
        try:
            result = _core._apply_function(steps, FunctionCtx(), args)
        except _NoTensors as error:
            return error.args[0]
        return steps.with_others(result)

    def __call__(self, *args, **kwargs):
        raise RuntimeError(f"{type(self).__name__} is called by its static method apply, not as an object")


class _NoTensors(Exception):
    """The result of a forward without tensors."""


class _Steps:
    """A Function as C++ calls it."""

    def __init__(self, function, count, keywords):
        self.function, self.count, self.keywords, self.__name__ = function, count, keywords, function.__name__
        self.like = ()  # the arguments that are differentiated, None for others; kept for a jvp without a backward
        self.others = None  # results that are no tensors, by position; None where all are tensors

    def forward(self, ctx, *args):
        if hasattr(self.function, "jvp"):
            self.like = [x.detach() if isinstance(x, Tensor) and x.dtype.is_floating_point else None for x in args]
        setup = getattr(self.function, "setup_context", None)
        if setup is None:
            output = self.function.forward(ctx, *args, **self.keywords)
        else:
            output = self.function.forward(*args, **self.keywords)
            setup(ctx, args, output)
        if isinstance(output, Tensor):
            return output
        items = output if isinstance(output, (tuple, list)) else (output,)
        tensors = tuple(item for item in items if isinstance(item, Tensor))
        if not tensors:
            raise _NoTensors(output)
        if len(tensors) < len(items):
            self.others = [None if isinstance(item, Tensor) else (item,) for item in items]
        return tensors

    def with_others(self, result):
        """The results of forward in their order."""
        if self.others is None:
            return result
        tensors = iter(result)
        return tuple(next(tensors) if other is None else other[0] for other in self.others)

    def _vjp(self, ctx, gradients):
        """The results of backward; of a Function with jvp alone, its transpose."""
        if hasattr(self.function, "vjp"):
            if self.function.backward is not Function.backward:
                raise RuntimeError(f"{self.__name__} has both 'backward' and 'vjp', which are names of one function")
            return self.function.vjp(ctx, *gradients)
        if self.function.backward is not Function.backward or not hasattr(self.function, "jvp"):
            return self.function.backward(ctx, *gradients)
        inputs = [_core._ops["zeros_like"](x).requires_grad_() if x is not None else None for x in self.like]
        with enable_grad():
            outputs = self.function.jvp(ctx, *inputs)
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            wanted = [x for x in inputs if x is not None]
            found = iter(grad(list(outputs), wanted, list(gradients), create_graph=True, allow_unused=True))
        return tuple(None if x is None else next(found) for x in inputs)

    def backward(self, ctx, *gradients):
        """The gradients of backward; None for arguments that were left out may be missing or given."""
        if self.others is not None:
            given = iter(gradients)
            gradients = [next(given) if other is None else None for other in self.others]
        returned = self._vjp(ctx, gradients)
        if isinstance(returned, (tuple, list)) and len(returned) > self.count:
            if all(g is None for g in returned[self.count:]):
                return tuple(returned[:self.count])
        return returned
