"""The functions of neural networks under PyTorch's path; the same objects as weft's own."""

import warnings

from weft import _core, _functions
from weft._core import _ops

_names = """relu relu6 elu selu celu gelu silu mish leaky_relu prelu rrelu glu softplus softsign softshrink hardshrink
tanhshrink hardtanh hardsigmoid hardswish threshold logsigmoid sigmoid tanh softmax softmin log_softmax gumbel_softmax
linear bilinear layer_norm rms_norm batch_norm group_norm instance_norm local_response_norm normalize one_hot
cross_entropy nll_loss mse_loss l1_loss huber_loss smooth_l1_loss binary_cross_entropy binary_cross_entropy_with_logits
kl_div poisson_nll_loss gaussian_nll_loss cosine_embedding_loss margin_ranking_loss triplet_margin_loss
hinge_embedding_loss soft_margin_loss multilabel_margin_loss multilabel_soft_margin_loss multi_margin_loss ctc_loss
cosine_similarity pairwise_distance pdist scaled_dot_product_attention pad interpolate grid_sample affine_grid
pixel_shuffle pixel_unshuffle fold conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d
adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d lp_pool1d lp_pool2d""".split()
for _name in _names:
    if _name in _ops:
        globals()[_name] = _ops[_name]
    elif hasattr(_functions, _name):
        globals()[_name] = getattr(_functions, _name)


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """Rows of weight at the indices `input`; the row padding_idx gets no gradient. (weft.embedding takes the weight
    first, as torch.embedding does.)"""
    if max_norm is not None:
        raise NotImplementedError("embedding(): argument 'max_norm' is there with its default alone")
    if padding_idx is None:
        padding_idx = -1
    else:
        rows = weight.shape[0]
        if not -rows <= padding_idx < rows:
            raise ValueError(f"embedding(): argument 'padding_idx' must be one of {rows} rows, not {padding_idx}")
        padding_idx %= rows
    return _ops["embedding"](weight, input, padding_idx, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


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


def dropout(input, p=0.5, training=True, inplace=False):
    """In training zeroes each element with probability p and scales the rest by 1 / (1 - p); else input itself."""
    result = _ops["dropout"](input, p, training)
    return input.copy_(result) if inplace and training else result


def _pair(name, value):
    values = (value, value) if isinstance(value, int) else tuple(value)
    if len(values) != 2:
        raise ValueError(f"unfold(): argument '{name}' must be one or two integers, not {value}")
    return values


def _padded(x, dim, size):
    if size == 0:
        return x
    shape = list(x.shape)
    shape[dim] = size
    edge = _ops["zeros"](shape, dtype=x.dtype, device=x.device)
    return _ops["cat"]([edge, x, edge], dim)


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """The blocks of kernel_size that slide over the last two dimensions of [N, C, H, W] or [C, H, W], as columns:
    [N, C * block, count]. (A tensor's method unfold has the windows along one dimension.)"""
    if input.ndim not in (3, 4):
        raise ValueError(f"unfold(): takes [N, C, H, W] or [C, H, W], not {tuple(input.shape)}")
    x = input.unsqueeze(0) if input.ndim == 3 else input
    numbers = zip((2, 3), _pair("kernel_size", kernel_size), _pair("dilation", dilation), _pair("padding", padding),
                  _pair("stride", stride))
    for dim, size, apart, edge, step in numbers:
        if size < 1 or apart < 1 or edge < 0 or step < 1:
            raise ValueError("unfold(): kernel_size, dilation and stride must be positive, padding not negative")
        x = _padded(x, dim, edge)
        x = x.unfold(dim, (size - 1) * apart + 1, step)
        x = x[..., ::apart]
    n, channels, rows, columns, high, wide = x.shape
    x = x.permute(0, 1, 4, 5, 2, 3).reshape(n, channels * high * wide, rows * columns)
    return x[0] if input.ndim == 3 else x


def _activation(name):
    op = _ops[name]

    def apply(input, inplace=False):
        return _ops[name + "_"](input) if inplace else op(input)

    apply.__name__, apply.__doc__ = name, op.__doc__
    return apply


for _name in ("relu", "silu", "relu6", "selu", "mish", "hardswish", "hardsigmoid"):
    globals()[_name] = _activation(_name)
del _core, _name
