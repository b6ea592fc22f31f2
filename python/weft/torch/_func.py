"""Names of torch.func beside weft.func."""

from weft.func import vmap as _vmap

__all__ = ["_vmap", "functionalize"]


def functionalize(func, *, remove="mutations"):
    """The function as it is: Weft's transforms follow writes in place."""
    return func
