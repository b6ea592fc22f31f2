"""Divergences by a registry of pairs of types; C++'s types are compared by C++."""
# mypy: ignore-errors

from weft import _core
from weft._distributions.composed import Independent, TransformedDistribution, core_of
from weft._distributions.transforms import sum_rightmost

__all__ = ["kl_divergence", "register_kl"]
_pairs: dict = {}


def register_kl(type_p, type_q):
    """A decorator: the function gives the divergence of p of one type from q of the other, also of their subclasses."""
    def register(function):
        _pairs[type_p, type_q] = function
        return function

    return register


def _found(p, q):
    """The function for the types nearest to those of p and q."""
    for a in type(p).__mro__:
        for b in type(q).__mro__:
            if (a, b) in _pairs:
                return _pairs[a, b]
    return None


def kl_divergence(p, q):
    """E_p[log p(x) - log q(x)] in closed form."""
    function = _found(p, q)
    if function is not None:
        return function(p, q)
    cores = [core_of(d) if core_of(d) is not None else getattr(d, "_core", None) for d in (p, q)]
    if None not in cores:
        return _core._distributions.kl(*cores)
    raise NotImplementedError(f"kl_divergence(): there is no form for {type(p).__name__} and {type(q).__name__}")


@register_kl(Independent, Independent)
def _independent(p, q):
    if p._core is not None and q._core is not None:
        return _core._distributions.kl(p._core, q._core)
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("kl_divergence(): the two have other dimensions of events")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p, q):
    if p.transforms != q.transforms or tuple(p.event_shape) != tuple(q.event_shape):
        raise NotImplementedError("kl_divergence(): the two have other transforms")
    result = kl_divergence(p.base_dist, q.base_dist)
    return sum_rightmost(result, len(p.event_shape) - len(p.base_dist.event_shape)) if result.ndim else result


