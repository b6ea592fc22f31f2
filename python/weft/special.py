"""Special functions under PyTorch's path: the ops that are there."""

from weft import _core, _functions

_names = """digamma erf erfc erfinv exp2 expm1 i0 i0e i1 i1e log1p log_softmax logit logsumexp ndtri polygamma round sinc
softmax xlog1py xlogy expit:sigmoid gammaln:lgamma multigammaln:mvlgamma psi:digamma"""
for _name in _names.split():
    _name, _, _op = _name.partition(":")
    globals()[_name] = getattr(_functions, _op or _name, None) or _core._ops[_op or _name]
del _name, _op, _names
