"""The answer of a library to a call: results and gradients, or an error."""

from judge import first_line, leaves, plain


def ramp(m, t):
    return (m.arange(1, t.numel() + 1, dtype=m.float64) % 7 - 2.5).reshape(t.shape)


def weighted(m, t):
    """A real number that depends on every element of t."""
    if not t.is_complex():
        return (t.to(m.float64) * ramp(m, t)).sum()
    return (t.real.to(m.float64) * ramp(m, t)).sum() + (t.imag.to(m.float64) * (ramp(m, t) + 0.5)).sum()


def wider(m, t):
    return t.to(m.complex128) if t.is_complex() else t.to(m.float64) if t.is_floating_point() else t


def answer(m, call, wide=False):
    """{"values": […], "gradients": {name: …}} of plain results, or {"refused": words}. With `wide`, floating inputs are
    computed in 64 bits a component."""
    given = {name: tensor.make(m) for name, tensor in call.inputs.items()}
    if wide:
        given = {name: wider(m, t) for name, t in given.items()}
    wanted = {name: given[name].detach().requires_grad_() for name, tensor in call.inputs.items()
              if given[name].is_complex() or given[name].is_floating_point()}
    names = {"m": m, "F": m.nn.functional, **given, **wanted}
    try:
        result = eval(call.expression, names)  # noqa: S307
        outputs = list(leaves(result))
        values = [plain(t) for t in outputs]
    except Exception as error:
        return {"refused": first_line(error)}
    outputs = [t for t in outputs if getattr(t, "requires_grad", False)]
    if not outputs:
        return {"values": values, "gradients": {}}
    try:
        total = sum(weighted(m, t) for t in outputs)
        grads = m.autograd.grad(total, list(wanted.values()), allow_unused=True)
        zeros = [m.zeros_like(t) if g is None else g for g, t in zip(grads, wanted.values())]
        return {"values": values, "gradients": dict(zip(wanted, map(plain, zeros)))}
    except Exception as error:
        return {"values": values, "gradients": {}, "no gradient": first_line(error)}
