"""Members of tensors that PyTorch's own tools use: assignable parts of complex tensors, and facts about views."""

from weft._core import Tensor
from weft.errors import ValueError


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


def _of_scalars_too(name):
    """The transposed tensor; without dimensions the scalar itself, or its conjugate, as PyTorch has it."""
    member = Tensor.__dict__[name]
    get = member.__get__ if hasattr(member, "__set__") else member

    def transposed(self):
        if not self.ndim:
            return self if name == "mT" else self.conj()
        if self.ndim == 1 or name == "H" and self.ndim > 2:
            raise ValueError(f"{name} is only supported on matrices{' or batches of them' * (name != 'H')}, got rank {self.ndim}")
        return get(self)

    transposed.__name__, transposed.__doc__ = name, member.__doc__
    setattr(Tensor, name, transposed if get is member else property(transposed, doc=member.__doc__))


for _name in ("mT", "H", "mH", "adjoint"):
    _of_scalars_too(_name)
