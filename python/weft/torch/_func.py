"""Names of torch.func beside weft.func."""

__all__ = ["functionalize"]


def functionalize(func, *, remove="mutations"):
    """The function as it is: Weft's transforms follow writes in place."""
    return func
