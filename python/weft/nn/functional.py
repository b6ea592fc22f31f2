"""The functions of neural networks under PyTorch's path; the same objects as weft's own."""

from weft import _core, _functions
from weft._core import _ops

_names = """relu relu6 elu selu celu gelu silu mish leaky_relu prelu rrelu glu softplus softsign softshrink hardshrink
tanhshrink hardtanh hardsigmoid hardswish threshold logsigmoid sigmoid tanh softmax softmin log_softmax gumbel_softmax
linear bilinear dropout layer_norm rms_norm batch_norm group_norm instance_norm local_response_norm normalize one_hot
cross_entropy nll_loss mse_loss l1_loss huber_loss smooth_l1_loss binary_cross_entropy binary_cross_entropy_with_logits
kl_div poisson_nll_loss gaussian_nll_loss cosine_embedding_loss margin_ranking_loss triplet_margin_loss
hinge_embedding_loss soft_margin_loss multilabel_margin_loss multilabel_soft_margin_loss multi_margin_loss ctc_loss
cosine_similarity pairwise_distance pdist scaled_dot_product_attention pad interpolate grid_sample affine_grid
pixel_shuffle pixel_unshuffle unfold fold conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d
adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d lp_pool1d lp_pool2d""".split()
for _name in _names:
    if _name in _ops:
        globals()[_name] = _ops[_name]
    elif hasattr(_functions, _name):
        globals()[_name] = getattr(_functions, _name)


def embedding(input, weight):
    """Rows of weight at the indices `input`. (weft.embedding takes the weight first, as torch.embedding does.)"""
    return _ops["embedding"](weight, input)


def softmax(input, dim=-1, dtype=None):
    """exp(x) / sum(exp(x)) along dim."""
    return _ops["softmax"](input, dim, dtype=dtype)


def log_softmax(input, dim=-1, dtype=None):
    """log(softmax(x)) along dim."""
    return _ops["log_softmax"](input, dim, dtype=dtype)


def _activation(name):
    op = _ops[name]

    def apply(input, inplace=False):
        return _ops[name + "_"](input) if inplace else op(input)

    apply.__name__, apply.__doc__ = name, op.__doc__
    return apply


for _name in ("relu", "silu"):
    globals()[_name] = _activation(_name)
del _core, _name
