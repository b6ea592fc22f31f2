"""torch.autograd.gradcheck: gradients against central differences, with PyTorch's options.

Every comparison is of real numbers: for a seed v of the outputs and a direction u of the inputs, Re<gradient of v, u> against
Re<v, difference quotient along u>. Fast mode draws v and u by chance; the other mode takes each unit vector. Derivatives in
forward mode and of batches follow from backward on Weft, so their options are taken and not checked apart.
"""

import warnings

import weft
from weft import autograd

__all__ = ["GradcheckError", "_get_numerical_jacobian", "_iter_tensors", "get_analytical_jacobian", "get_numerical_jacobian",
           "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """A gradient that is not the derivative."""


def _is_checked(x):
    return isinstance(x, weft.Tensor) and x.requires_grad and (x.dtype.is_floating_point or x.dtype.is_complex)


def _several(x):
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def _differentiable(outputs):
    return tuple(y for y in _several(outputs) if isinstance(y, weft.Tensor) and (y.dtype.is_floating_point or y.dtype.is_complex))


def _iter_tensors(x, only_requiring_grad=False):
    """The tensors in nested sequences."""
    if isinstance(x, weft.Tensor):
        if x.requires_grad or not only_requiring_grad:
            yield x
    elif isinstance(x, (tuple, list)):
        for element in x:
            yield from _iter_tensors(element, only_requiring_grad)


def _real_flat(x):
    """The elements as a row of real numbers, real and imaginary parts in turn."""
    x = x.detach()
    return (weft.view_as_real(x) if x.dtype.is_complex else x).reshape(-1).to(weft.float64)


def _like(row, x):
    """The tensor of these real numbers with the shape and dtype of x."""
    if x.dtype.is_complex:
        return weft.view_as_complex(row.reshape(*x.shape, 2)).to(x.dtype)
    return row.reshape(x.shape).to(x.dtype)


def _count(x):
    return x.numel() * (2 if x.dtype.is_complex else 1)


def _quotients(at, x, direction, step):
    """The difference quotients along a direction of the outputs at(moved), as rows of real numbers."""
    found = []
    for sign in (1, -1):
        moved = (x.detach() + direction * (sign * step)).requires_grad_()
        found.append([_real_flat(y) for y in at(moved)])
    return [(above - below) / (2 * step) for above, below in zip(*found)]


def _unit(n, i):
    row = weft.zeros(n, dtype=weft.float64)
    row[i] = 1
    return row


def _random(n):
    """Numbers without pattern, away from 0, of length 1, which leave the program's generator as it is."""
    drawn = weft.get_rng_state()
    try:
        row = weft.rand(n, dtype=weft.float64) + 0.5
    finally:
        weft.set_rng_state(drawn)
    return row / row.norm() if n else row


class _Check:
    """One comparison of a function's gradients."""

    def __init__(self, func, inputs, options):
        self.func, self.inputs, self.options = func, inputs, options
        self.checked = [x for x in inputs if _is_checked(x)]
        if not self.checked:
            raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of the them have "
                             "requires_grad=True.")
        self.outputs = _differentiable(func(*inputs))

    def quotients(self, x, direction):
        def at(moved):
            return _differentiable(self.func(*(moved if given is x else given for given in self.inputs)))

        return _quotients(at, x, direction, self.options["eps"])

    def gradients(self, output, seed):
        if not output.requires_grad:
            return [weft.zeros_like(x) for x in self.checked]
        return autograd.grad([output], self.checked, [seed], retain_graph=True, materialize_grads=True)

    def run(self):
        if not any(y.requires_grad for y in self.outputs):
            return self.check_constant()
        for o, output in enumerate(self.outputs):
            self.check_output(o, output)

    def check_constant(self):
        """Without differentiable outputs every difference must be 0."""
        for i, x in enumerate(self.checked):
            for number in range(_count(x)):
                for quotient in self.quotients(x, _like(_unit(_count(x), number), x)):
                    if bool((quotient != 0).any()):
                        raise GradcheckError(f"Numerical gradient for function expected to be zero; input {i}")

    def check_output(self, o, output):
        count = _count(output)
        fast = self.options["fast_mode"]
        seeds = [_random(count)] if fast else [_unit(count, j) for j in range(count)]
        rows = [self.checked_gradients(output, _like(seed, output)) for seed in seeds]
        for i, x in enumerate(self.checked):
            directions = [_random(_count(x))] if fast else [_unit(_count(x), k) for k in range(_count(x))]
            for k, direction in enumerate(directions):
                quotient = self.quotients(x, _like(direction, x))[o]
                for seed, row in zip(seeds, rows):
                    self.compare(float(_real_flat(row[i]) @ direction), float(quotient @ seed), o, i)

    def checked_gradients(self, output, seed):
        gradients = self.gradients(output, seed)
        for x, gradient in zip(self.checked, gradients):
            if gradient.shape != x.shape:
                raise GradcheckError("Analytical gradient has incorrect size")
            if self.options["check_grad_dtypes"] and gradient.dtype is not x.dtype:
                raise GradcheckError("Gradient has dtype mismatch")
        for first, second in zip(gradients, self.gradients(output, seed)):
            if float((first - second).abs().max() if first.numel() else 0) > self.options["nondet_tol"]:
                raise GradcheckError("Backward is not reentrant, i.e., running backward with same input and grad_output "
                                     "multiple times gives different values, although analytical gradient matches numerical "
                                     f"gradient. The tolerance for nondeterminism was {self.options['nondet_tol']}.")
        return gradients

    def compare(self, analytical, numerical, o, i):
        difference = abs(analytical - numerical)
        if not difference <= self.options["atol"] + self.options["rtol"] * abs(numerical) and analytical != numerical:
            raise GradcheckError(f"Jacobian mismatch for output {o} with respect to input {i},\n"
                                 f"numerical:{numerical}\nanalytical:{analytical}\n")


def _validated(inputs):
    for x in _several(inputs):
        if isinstance(x, weft.Tensor) and x.requires_grad and 0 in x.stride() and x.numel() > 1:
            raise RuntimeError("The 0-th input has a dimension with stride 0. gradcheck only supports inputs that are "
                               "non-overlapping to be able to compute the numerical gradients correctly.")
    return _several(inputs)


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, check_sparse_nnz=False, nondet_tol=0.0,
              check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False, check_batched_forward_grad=False,
              check_forward_ad=False, check_backward_ad=True, fast_mode=False, masked=None):
    """Whether the gradients of func are its derivatives by central differences, for inputs that require gradients; with
    raise_exception a mismatch raises GradcheckError."""
    options = dict(eps=eps, atol=atol, rtol=rtol, fast_mode=fast_mode, nondet_tol=nondet_tol, check_grad_dtypes=check_grad_dtypes)
    try:
        with weft.enable_grad():
            _Check(func, _validated(inputs), options).run()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3, gen_non_contig_grad_outputs=False,
                  raise_exception=True, nondet_tol=0.0, check_undefined_grad=True, check_grad_dtypes=False,
                  check_batched_grad=False, check_fwd_over_rev=False, check_rev_over_rev=True, fast_mode=False, masked=False):
    """gradcheck of the gradients, as functions of inputs and seeds."""
    inputs = _validated(inputs)
    if grad_outputs is None:
        seeds = [_like(_random(_count(y)), y).requires_grad_() for y in _differentiable(func(*inputs)) if y.requires_grad]
    else:
        seeds = _several(grad_outputs)

    def gradients(*arguments):
        own, given = arguments[:len(arguments) - len(seeds)], arguments[len(arguments) - len(seeds):]
        own = tuple(x.detach().requires_grad_() if _is_checked(x) and not weft.is_grad_enabled() else x for x in own)
        with weft.enable_grad():
            outputs = [y for y in _differentiable(func(*own)) if y.requires_grad]
            found = autograd.grad(outputs, [x for x in own if _is_checked(x)], given, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(gradients, (*inputs, *seeds), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
                     nondet_tol=nondet_tol, check_grad_dtypes=check_grad_dtypes, fast_mode=fast_mode)


def _get_numerical_jacobian(fn, inputs, outputs=None, target=None, eps=1e-3, is_forward_ad=False):
    """For each input the Jacobians of all outputs, of shape [input elements, output elements]."""
    jacobians = []
    for x in _iter_tensors(inputs if target is None else target, only_requiring_grad=target is None):
        data, kept = x.detach(), x.detach().clone()

        def at(moved, data=data):
            data.copy_(moved)  # fn may read the tensor without taking it
            return _differentiable(fn(*_several(inputs)))

        columns = [_quotients(at, kept, _like(_unit(_count(x), k), x), eps) for k in range(_count(x))]
        data.copy_(kept)
        jacobians.append(tuple(weft.stack(rows).to(x.dtype) for rows in zip(*columns)))
    return jacobians


def _warn_private(name, grad_out):
    warnings.warn(f"{name} was part of PyTorch's private API and not meant to be exposed: use gradcheck", stacklevel=3)
    if grad_out != 1.0:
        raise ValueError(f"{name}(): Expected grad_out to be 1.0, got {grad_out}")


def get_numerical_jacobian(fn, inputs, target=None, eps=1e-3, grad_out=1.0):
    """For each input the Jacobian of the first result of fn(inputs), by differences."""
    _warn_private("get_numerical_jacobian", grad_out)
    return [columns[0] for columns in _get_numerical_jacobian(lambda *given: fn(given), inputs, None, target, eps)]


def get_analytical_jacobian(inputs, output, nondet_tol=0.0, grad_out=1.0):
    """For each input the Jacobian of a result by backward, and whether it is repeatable and of the right sizes and dtypes."""
    _warn_private("get_analytical_jacobian", grad_out)
    checked = list(_iter_tensors(inputs, True))
    columns, again = ([autograd.grad([output], checked, [_like(_unit(_count(output), j), output)], retain_graph=True,
                                     materialize_grads=True) for j in range(_count(output))] for _ in range(2))
    same = all(bool(((a - b).abs() <= nondet_tol).all()) for one, two in zip(columns, again) for a, b in zip(one, two))
    jacobians = [weft.stack([row[i].reshape(-1) for row in columns], 1) for i in range(len(checked))]
    sizes = all(row[i].shape == x.shape for row in columns for i, x in enumerate(checked))
    return jacobians, same, sizes, all(row[i].dtype is x.dtype for row in columns for i, x in enumerate(checked))
