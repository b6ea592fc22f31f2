"""Members of tensors that PyTorch's own tools use: assignable parts of complex tensors, and facts about views."""

from weft._core import Tensor


def _assignable(name):
    part = Tensor.__dict__[name]

    def assign(self, value):
        target = part.__get__(self)
        if isinstance(value, Tensor):
            target.copy_(value.real if value.dtype.is_complex else value)
        else:
            target.fill_(value)

    setattr(Tensor, name, property(part.__get__, assign, doc=part.__doc__))


for _name in ("real", "imag"):
    _assignable(_name)
Tensor._is_view = lambda self: self._base is not None
Tensor._grad = Tensor.__dict__["grad"]
Tensor.__rdiv__ = Tensor.__rtruediv__


def _make_subclass(cls, data, require_grad=False, *_, **__):
    """A leaf of the subclass over the memory of data."""
    return data.detach().as_subclass(cls).requires_grad_(require_grad)


Tensor._make_subclass = staticmethod(_make_subclass)
_conjugate = Tensor.conj


def conj(self):
    """The complex conjugate; a real tensor itself."""
    return _conjugate(self) if self.dtype.is_complex else self


Tensor.conj = conj
