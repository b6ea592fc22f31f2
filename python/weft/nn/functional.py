"""The functions of neural networks under PyTorch's path; the same objects as weft's own."""

import warnings

from weft import _compositions, _core, _functions
from weft._core import _ops, float64 as _float64
from weft._modes import no_grad
from weft.errors import ValueError as _ValueError

_names = """relu relu6 elu selu celu gelu silu mish leaky_relu prelu rrelu glu softplus softsign softshrink hardshrink
tanhshrink hardtanh hardsigmoid hardswish threshold logsigmoid sigmoid tanh softmax softmin log_softmax
linear bilinear layer_norm rms_norm batch_norm group_norm instance_norm local_response_norm normalize one_hot
cross_entropy nll_loss mse_loss l1_loss huber_loss smooth_l1_loss binary_cross_entropy binary_cross_entropy_with_logits
kl_div poisson_nll_loss gaussian_nll_loss cosine_embedding_loss margin_ranking_loss triplet_margin_loss
hinge_embedding_loss soft_margin_loss multilabel_margin_loss multilabel_soft_margin_loss multi_margin_loss ctc_loss
cosine_similarity pairwise_distance pdist scaled_dot_product_attention attention attention_varlen pad interpolate grid_sample affine_grid
pixel_shuffle pixel_unshuffle channel_shuffle fold conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d
adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d lp_pool1d lp_pool2d lp_pool3d
max_unpool1d max_unpool2d max_unpool3d conv_tbc native_channel_shuffle""".split()
for _name in _names:
    for _place in (_ops, vars(_functions), vars(_compositions)):
        if _name in _place:
            globals()[_name] = _place[_name]
            break


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """Rows of weight at the indices `input`; the row padding_idx gets no gradient. With max_norm, the rows that are read
    are scaled in place to at most that norm before. (weft.embedding takes the weight first, as torch.embedding does.)"""
    if max_norm is not None:
        _limit_rows(input, weight, max_norm, norm_type)
    if padding_idx is None:
        padding_idx = -1
    else:
        rows = weight.shape[0]
        if not -rows <= padding_idx < rows:
            raise _ValueError(f"embedding(): argument 'padding_idx': expected one of {rows} rows, got {padding_idx}")
        padding_idx %= rows
    return _ops["embedding"](weight, input, padding_idx, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


def _limit_rows(input, weight, most, norm_type):
    """Scales the rows of weight at these indices to at most this norm, outside the graph."""
    with no_grad():
        rows = _ops["unique"](input)
        read = weight.detach().index_select(0, rows)
        norms = _ops["vector_norm"](read, norm_type, -1, True)
        scaled = _ops["where"](norms > most, read * (most / (norms + 1e-7)), read)
        weight.detach().index_copy_(0, rows, scaled)


def _softmax_dim(name, dim, rank):
    if dim is not None:
        return dim
    warnings.warn(f"{name}() without 'dim' takes dimension 0 of tensors of rank 0, 1 and 3, else 1: name it",
                  stacklevel=3)
    return 0 if rank in (0, 1, 3) else 1


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """exp(x) / sum(exp(x)) along dim."""
    return _ops["softmax"](input, _softmax_dim("softmax", dim, input.ndim), dtype=dtype)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """log(softmax(x)) along dim."""
    return _ops["log_softmax"](input, _softmax_dim("log_softmax", dim, input.ndim), dtype=dtype)


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """softmax(-x)."""
    return _ops["softmin"](input, _softmax_dim("softmin", dim, input.ndim), dtype=dtype)


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """A draw from the Gumbel-softmax distribution along dim: softmax((logits + noise) / tau); with `hard` 1 at the largest
    and 0 elsewhere, with the same gradient. eps is not looked at."""
    noise = -_ops["empty_like"](logits).exponential_().clip(2.0**-24).log()  # a draw of 0 would be infinite noise
    soft = _ops["softmax"]((logits + noise) / tau, dim)
    if not hard:
        return soft
    chosen = _ops["zeros_like"](soft).scatter(dim, soft.argmax(dim, True), 1.0)
    return chosen - soft.detach() + soft


def linear_cross_entropy(input, linear_weight, target, *, linear_bias=None, weight=None, reduction="mean",
                         ignore_index=None, label_smoothing=0.0, options=None):
    """cross_entropy of linear(input, linear_weight, linear_bias), with a weight [classes, ..., features]."""
    if options is not None:
        raise NotImplementedError("linear_cross_entropy(): argument 'options' is there with its default alone")
    shape = (*input.shape[:-1], *linear_weight.shape[:-1])
    if input.ndim not in (1, 2) or linear_weight.ndim < 2 or input.ndim == 1 and linear_weight.ndim > 2:
        raise _ValueError(f"linear_cross_entropy(): input {tuple(input.shape)} and weight {tuple(linear_weight.shape)} are "
                          "not [N, features] and [classes, ..., features], or [features] and [classes, features]")
    if ignore_index is not None and tuple(target.shape) == shape:
        raise _ValueError("linear_cross_entropy(): probabilities have no 'ignore_index'")
    if linear_bias is not None and linear_bias.shape != linear_weight.shape[:-1]:
        raise _ValueError(f"linear_cross_entropy(): the bias {tuple(linear_bias.shape)} is not "
                          f"{tuple(linear_weight.shape[:-1])}")
    logits = _ops["linear"](input, linear_weight.flatten(0, -2), None if linear_bias is None else linear_bias.flatten())
    return _ops["cross_entropy"](logits.reshape(shape), target, weight, reduction=reduction, label_smoothing=label_smoothing,
                                 ignore_index=-100 if ignore_index is None else ignore_index)


def dropout(input, p=0.5, training=True, inplace=False):
    """In training zeroes each element with probability p and scales the rest by 1 / (1 - p); else input itself."""
    if inplace and training:
        _core._check_written(input)
    result = _ops["dropout"](input, p, training)
    return input.copy_(result) if inplace and training else result


unfold, fold = _ops["im2col"], _ops["col2im"]


def _adaptive(name):
    op = _ops[name]

    def apply(input, output_size, *indices, **options):
        if isinstance(output_size, (tuple, list)):  # None keeps a size
            sizes = input.shape[-len(output_size):]
            output_size = [old if new is None else new for new, old in zip(output_size, sizes)]
        return op(input, output_size, *indices, **options)

    apply.__name__, apply.__doc__ = name, op.__doc__
    return apply


def _numbers(values):
    """Several numbers as the tensor that ops take for them."""
    return _functions.tensor(values, dtype=_float64) if isinstance(values, (tuple, list)) else values


def _fractional(name):
    op = _ops[name]

    def apply(input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
        return op(input, kernel_size, output_size, _numbers(output_ratio), return_indices, _random_samples)

    apply.__name__, apply.__doc__ = name, op.__doc__
    return apply


def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
                antialias=False):
    """input [N, C, spatial...] in another size: by nearest, nearest-exact, linear, bilinear, bicubic, trilinear or area."""
    return _ops["interpolate"](input, size, _numbers(scale_factor), mode, align_corners, recompute_scale_factor,
                               antialias)


def embedding_bag(input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode="mean",
                  sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None):
    """The sum, mean or maximum of the rows of weight at each bag of indices."""
    return _ops["embedding_bag"](input, weight, offsets, max_norm, norm_type, mode=mode,
                                 per_sample_weights=per_sample_weights, include_last_offset=include_last_offset,
                                 padding_idx=padding_idx, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


def _kept(input, writes):
    """What an op that then writes into its input reads: a copy where its gradient needs the old values. What cannot be
    written is refused before anything is drawn."""
    if writes:
        _core._check_written(input)
    return input.clone() if writes and input.requires_grad else input


def _with_inplace(name, **defaults):
    """A function with these arguments that may write into its input."""
    op, inplace = _ops[name], False

    def apply(input, *args, **options):
        given = dict(zip((*defaults, "inplace"), args))
        if len(args) > len(defaults) + 1 or given.keys() & options.keys() or options.keys() - {*defaults, "inplace"}:
            raise TypeError(f"{name}(): takes {', '.join(('input', *defaults, 'inplace'))}")
        given = {**defaults, "inplace": inplace, **given, **options}
        writes = given.pop("inplace")
        result = op(_kept(input, writes), **given)
        return input.copy_(result) if writes and result is not input else result

    apply.__name__, apply.__doc__ = name, op.__doc__
    return apply


for _name in ("dropout1d", "dropout2d", "dropout3d"):
    globals()[_name] = _with_inplace(_name, p=0.5, training=True)
for _name in ("alpha_dropout", "feature_alpha_dropout"):
    globals()[_name] = _with_inplace(_name, p=0.5, training=False)
rrelu = _with_inplace("rrelu", lower=1 / 8, upper=1 / 3, training=False)


def _applied(name, input, inplace, *numbers):
    result = _ops[name](_kept(input, inplace), *numbers)
    return input.copy_(result) if inplace else result


def leaky_relu(input, negative_slope=0.01, inplace=False):
    return _applied("leaky_relu", input, inplace, negative_slope)


def elu(input, alpha=1.0, inplace=False):
    return _applied("elu", input, inplace, alpha)


def celu(input, alpha=1.0, inplace=False):
    return _applied("celu", input, inplace, alpha)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    return _applied("hardtanh", input, inplace, min_val, max_val)


for _function in (leaky_relu, elu, celu, hardtanh):
    _function.__doc__ = _ops[_function.__name__].__doc__


def threshold(input, threshold, value, inplace=False):
    """input where it is above threshold, else value."""
    return _applied("threshold", input, inplace, threshold, value)


def _weighted(name, divides):
    """A loss whose elements may have weights of input's shape: its mean divides by their sum, or by their number."""
    op = _ops[name]

    def apply(input, target, *args, weight=None, **options):
        if weight is None:
            return op(input, target, *args, **options)
        options |= dict(zip(("reduction", "delta"), args))
        reduction = options.pop("reduction", "mean")
        if weight.shape != input.shape:
            raise _ValueError(f"{name}(): the weights {tuple(weight.shape)} are not of the input's shape {tuple(input.shape)}")
        losses = op(input, target, reduction="none", **options) * weight
        if reduction == "mean":
            return losses.sum() / weight.sum() if divides else losses.mean()
        if reduction not in ("none", "sum"):
            raise _ValueError(f"{name}(): there is no reduction {reduction!r}")
        return losses if reduction == "none" else losses.sum()

    apply.__name__, apply.__doc__ = name, op.__doc__
    return apply


mse_loss, l1_loss, huber_loss = _weighted("mse_loss", True), _weighted("l1_loss", True), _weighted("huber_loss", False)


def _with_indices(name):
    def apply(*args, **options):
        return globals()[name](*args, **{**options, "return_indices": True})

    apply.__name__, apply.__doc__ = name + "_with_indices", _ops[name].__doc__
    return apply


for _n in ("1d", "2d", "3d"):
    for _name in ("adaptive_avg_pool", "adaptive_max_pool"):
        globals()[_name + _n] = _adaptive(_name + _n)
    if _n != "1d":
        globals()["fractional_max_pool" + _n] = _fractional("fractional_max_pool" + _n)
        globals()[f"fractional_max_pool{_n}_with_indices"] = _with_indices("fractional_max_pool" + _n)
    for _name in ("max_pool", "adaptive_max_pool"):
        globals()[f"{_name}{_n}_with_indices"] = _with_indices(_name + _n)


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """Connectionist temporal classification of log_probs [T, N, C] or [T, C]; lengths are tensors or sequences."""
    def lengths(given):
        if isinstance(given, _core.Tensor):
            return given
        return _functions.tensor(list(given), dtype=_core.int64)

    return _ops["ctc_loss"](log_probs, targets, lengths(input_lengths), lengths(target_lengths), blank, reduction,
                            zero_infinity)


def triplet_margin_with_distance_loss(anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False,
                                      reduction="mean"):
    """triplet_margin_loss with a distance of your own: a function of two tensors."""
    if reduction not in ("mean", "sum", "none"):
        raise _ValueError(f"triplet_margin_with_distance_loss(): there is no reduction {reduction!r}")
    if not margin > 0:
        raise _ValueError(f"triplet_margin_with_distance_loss(): margin {margin} is not above 0")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise _ValueError("triplet_margin_with_distance_loss(): the tensors differ in rank")
    distance = _ops["pairwise_distance"] if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = _ops["minimum"](far, distance(positive, negative))
    losses = _ops["clip"](margin + near - far, 0)
    return losses if reduction == "none" else losses.mean() if reduction == "mean" else losses.sum()


def _activation(name):
    op = _ops[name]

    def apply(input, inplace=False):
        return _ops[name + "_"](input) if inplace else op(input)

    apply.__name__, apply.__doc__ = name, op.__doc__
    return apply


for _name in ("relu", "silu", "relu6", "selu", "mish", "hardswish", "hardsigmoid"):
    globals()[_name] = _activation(_name)
del _name, _n


def multi_head_attention_forward(query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k,
                                 bias_v, add_zero_attn, dropout_p, out_proj_weight, out_proj_bias, training=True,
                                 key_padding_mask=None, need_weights=True, attn_mask=None,
                                 use_separate_proj_weight=False, q_proj_weight=None, k_proj_weight=None,
                                 v_proj_weight=None, static_k=None, static_v=None, average_attn_weights=True,
                                 is_causal=False, _layers=()):
    """Attention of several heads with its projections: (output, weights) of query [length, batch, width], key and value
    [keys, batch, ...]. True in a mask is not attended to; a query that sees no key gives zeros."""
    if static_k is not None or static_v is not None:
        raise NotImplementedError("multi_head_attention_forward(): 'static_k' and 'static_v' are there with their "
                                  "defaults alone")
    if query.shape[-1] != embed_dim_to_check:
        raise _ValueError(f"multi_head_attention_forward(): width of the query: expected {embed_dim_to_check}, got {query.shape[-1]}")
    return _core._multi_head_attention(
        query, key, value, num_heads, None if use_separate_proj_weight else in_proj_weight, in_proj_bias, bias_k, bias_v,
        add_zero_attn, float(dropout_p) if training else 0.0, out_proj_weight, out_proj_bias, key_padding_mask,
        need_weights, attn_mask, q_proj_weight, k_proj_weight, v_proj_weight, average_attn_weights, is_causal, *_layers)
