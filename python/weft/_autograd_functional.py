"""Derivatives of functions at given inputs, under torch.autograd.functional's names; weft.func transforms functions."""

import weft
from weft import autograd
from weft._modes import enable_grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _as_tuple(values, name):
    values = (values,) if isinstance(values, weft.Tensor) else tuple(values)
    for value in values:
        if not isinstance(value, weft.Tensor):
            raise TypeError(f"{name}: expected a tensor or tensors, got {type(value).__name__}")
    return values


def _leaves(inputs, create_graph):
    """The inputs as tensors to differentiate by: parts of a graph that goes on with create_graph, else leaves."""
    if create_graph:
        return tuple(t.view_as(t) if t.requires_grad else t.detach().requires_grad_() for t in inputs)
    return tuple(t.detach().clone().requires_grad_() for t in inputs)


def _grad(outputs, inputs, seeds, strict, create_graph=True):
    """Gradients, zeros where an output does not depend on an input; with strict an error there."""
    recorded = [(o, s) for o, s in zip(outputs, seeds) if o.requires_grad]
    if not recorded:
        found = [None] * len(inputs)
    else:
        found = autograd.grad([o for o, _ in recorded], inputs, [s for _, s in recorded], create_graph=create_graph,
                              retain_graph=True, allow_unused=True)
    if strict and any(g is None for g in found):
        raise RuntimeError("an output does not depend on an input, which strict=True forbids")
    return tuple(weft.zeros_like(t) if g is None else g for g, t in zip(found, inputs))


def _outcome(values, single, create_graph):
    values = tuple(values) if create_graph else tuple(v.detach() for v in values)
    return values[0] if single else values


def _directions(v, like, name):
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"{name}: the vector may be left out where there is one value alone")
        return (weft.ones_like(like[0]),)
    v = _as_tuple(v, "v")
    if [tuple(a.shape) for a in v] != [tuple(b.shape) for b in like]:
        raise RuntimeError(f"{name}: expected vectors of shapes {[tuple(b.shape) for b in like]}, got "
                           f"{[tuple(a.shape) for a in v]}")
    return v


def _run(func, inputs, create_graph):
    points = _leaves(_as_tuple(inputs, "inputs"), create_graph)
    results = func(*points)
    return points, _as_tuple(results, "the result of func"), isinstance(results, weft.Tensor)


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(*inputs), vᵀ J)."""
    with enable_grad():
        points, outputs, single = _run(func, inputs, create_graph)
        product = _grad(outputs, points, _directions(v, outputs, "vjp"), strict, create_graph)
    return _outcome(outputs, single, create_graph), _outcome(product, isinstance(inputs, weft.Tensor), create_graph)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(*inputs), J v), by two passes in reverse mode."""
    with enable_grad():
        points, outputs, single = _run(func, inputs, create_graph)
        v = _directions(v, points, "jvp")
        seeds = tuple(weft.zeros_like(o, requires_grad=True) for o in outputs)
        back = _grad(outputs, points, seeds, strict)
        product = _grad(back, seeds, v, strict, create_graph)
    return _outcome(outputs, single, create_graph), _outcome(product, single, create_graph)


def _rows(output, points, strict, create_graph):
    """For each input the derivatives of one output, [*output.shape, *input.shape]."""
    flat, rows = output.reshape(-1), []
    for i in range(flat.numel()):
        rows.append(_grad((flat[i],), points, (weft.ones_like(flat[i]),), strict, create_graph))
    shapes = [(*output.shape, *t.shape) for t in points]
    if not rows:
        return tuple(weft.zeros(shape, dtype=t.dtype) for shape, t in zip(shapes, points))
    return tuple(weft.stack(parts).reshape(shape) for parts, shape in zip(zip(*rows), shapes))


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"):
    """All derivatives: a tensor [*output, *input], or a tuple of those for each of several outputs and inputs."""
    with enable_grad():
        points, outputs, single_out = _run(func, inputs, create_graph)
        rows = tuple(_outcome(_rows(o, points, strict, create_graph), isinstance(inputs, weft.Tensor), create_graph)
                     for o in outputs)
    return rows[0] if single_out else rows


def _number(func, outputs):
    if len(outputs) != 1 or outputs[0].numel() != 1:
        raise RuntimeError("the function must give one number")


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy="reverse-mode"):
    """All second derivatives of a number."""
    single = isinstance(inputs, weft.Tensor)

    def gradient(*points):
        result = func(*points)
        _number(func, _as_tuple(result, "the result of func"))
        found = _grad((result.reshape(()),), points, (weft.ones_like(result.reshape(())),), strict)
        return found[0] if single else found

    return jacobian(gradient, inputs, create_graph, strict)


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(*inputs), vᵀ H)."""
    with enable_grad():
        points, outputs, single = _run(func, inputs, create_graph)
        _number(func, outputs)
        v = _directions(v, points, "vhp")
        gradient = _grad(outputs, points, (weft.ones_like(outputs[0]),), strict)
        product = _grad(gradient, points, v, strict, create_graph)
    return _outcome(outputs, single, create_graph), _outcome(product, isinstance(inputs, weft.Tensor), create_graph)


hvp = vhp  # the Hessian is symmetric
