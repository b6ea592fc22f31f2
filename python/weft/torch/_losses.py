"""The losses with the keywords of early PyTorch: size_average and reduce, which name a reduction."""

import functools
import inspect

from weft import nn
from weft.nn import functional as F

# Arguments of PyTorch's functions behind input and target, in order; "|" marks those of classes.
_OLD = "size_average reduce reduction"
_FUNCTIONS = {
    "cross_entropy": "weight size_average ignore_index reduce reduction label_smoothing",
    "nll_loss": "weight size_average ignore_index reduce reduction", "mse_loss": f"{_OLD} weight", "l1_loss": f"{_OLD} weight",
    "smooth_l1_loss": f"{_OLD} beta", "kl_div": f"{_OLD} log_target", "soft_margin_loss": _OLD,
    "binary_cross_entropy": f"weight {_OLD}", "binary_cross_entropy_with_logits": f"weight {_OLD} pos_weight",
    "poisson_nll_loss": "log_input full size_average eps reduce reduction", "multilabel_margin_loss": _OLD,
    "multilabel_soft_margin_loss": f"weight {_OLD}", "hinge_embedding_loss": f"margin {_OLD}",
    "multi_margin_loss": f"p margin weight {_OLD}"}
_THREE = {"cosine_embedding_loss": f"margin {_OLD}", "margin_ranking_loss": f"margin {_OLD}",
          "triplet_margin_loss": f"margin p eps swap {_OLD}"}
_CLASSES = {
    "CrossEntropyLoss": "cross_entropy", "NLLLoss": "nll_loss", "MSELoss": _OLD, "L1Loss": _OLD, "SmoothL1Loss": "smooth_l1_loss",
    "KLDivLoss": "kl_div", "SoftMarginLoss": _OLD, "BCELoss": "binary_cross_entropy",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits", "PoissonNLLLoss": "poisson_nll_loss",
    "MultiLabelMarginLoss": _OLD, "MultiLabelSoftMarginLoss": "multilabel_soft_margin_loss",
    "HingeEmbeddingLoss": "hinge_embedding_loss", "MultiMarginLoss": "multi_margin_loss",
    "CosineEmbeddingLoss": "cosine_embedding_loss", "MarginRankingLoss": "margin_ranking_loss",
    "TripletMarginLoss": "triplet_margin_loss", "HuberLoss": "reduction delta", "CTCLoss": "blank reduction zero_infinity"}


def reduction_of(size_average, reduce, reduction):
    """The reduction that the old keywords mean: without reduce "none", else "mean" with size_average and "sum" without."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


def _translated(order, given, options):
    """Keywords of today's form for arguments in PyTorch's order."""
    if len(given) > len(order):
        raise TypeError(f"expected at most {len(order)} more arguments, got {len(given)}")
    options = {**dict(zip(order, given)), **options}
    old = options.pop("size_average", None), options.pop("reduce", None)
    if old != (None, None) or "reduction" in options:
        options["reduction"] = reduction_of(*old, options.get("reduction", "mean"))
    return options


def _check_same_size(name, input, target=None, **options):
    target = options.get("target") if target is None else target
    if target is not None and target.shape != input.shape:
        raise ValueError(f"{name}(): expected a target of the input's size {tuple(input.shape)}, got {tuple(target.shape)}")


def _function(name, tensors, order):
    function, order = getattr(F, name), order.split()

    @functools.wraps(function)
    def apply(*args, **options):
        if name.startswith("binary_cross_entropy"):
            _check_same_size(name, *args[:2], **options)
        return function(*args[:tensors], **_translated(order, args[tensors:], options))

    apply.__signature__ = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD)
                                             for n in ("input", "target", "other")[:tensors] + tuple(order)])
    return apply


def _class(name, order):
    base, order = getattr(nn, name), order.split()

    def __init__(self, *args, **options):
        base.__init__(self, **_translated(order, args, options))

    members = {"__init__": __init__, "__doc__": base.__doc__, "__module__": __name__}
    if name.startswith("BCE"):
        members["forward"] = _with_same_size(base.forward)
    return type(name, (base,), members)


def _with_same_size(forward):
    def checked(self, input, target):
        _check_same_size(type(self).__name__, input, target)
        return forward(self, input, target)

    return checked


functions = {name: _function(name, 2, order) for name, order in _FUNCTIONS.items()}
functions |= {name: _function(name, 3, order) for name, order in _THREE.items()}
classes = {name: _class(name, {**_FUNCTIONS, **_THREE}.get(order, order)) for name, order in _CLASSES.items()}
globals().update(classes)  # where pickle looks for them
