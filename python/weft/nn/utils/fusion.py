"""Batch norms in evaluation as part of the layer before them."""

import copy

import weft
from weft.nn.module import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def _factors(mean, variance, eps, weight, bias):
    scale = weft.rsqrt(variance + eps)
    scale = scale if weight is None else scale * weight
    return scale, -mean * scale + (0 if bias is None else bias)


def fuse_conv_bn_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, transpose=False):
    """(weight, bias) of the convolution that a norm follows."""
    scale, shift = _factors(bn_rm, bn_rv, bn_eps, bn_w, bn_b)
    shape = [1] * conv_w.ndim
    shape[1 if transpose else 0] = -1
    bias = shift if conv_b is None else conv_b * scale + shift
    return (Parameter((conv_w * scale.reshape(shape)).detach(), conv_w.requires_grad),
            Parameter(bias.detach(), conv_w.requires_grad))


def fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b):
    """(weight, bias) of the linear layer that a norm follows."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def _fused(layer, bn, transpose):
    if layer.training or bn.training:
        raise RuntimeError("fusion takes modules in evaluation: call eval() first")
    if bn.running_mean is None or bn.running_var is None:
        raise RuntimeError("fusion takes norms with running statistics")
    fused = copy.deepcopy(layer)
    weight, bias = fuse_conv_bn_weights(layer.weight, layer.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
                                        transpose)
    fused.weight = weight
    fused.register_parameter("bias", bias)
    return fused


def fuse_conv_bn_eval(conv, bn, transpose=False):
    """A copy of a convolution that computes the norm behind it, too."""
    return _fused(conv, bn, transpose)


def fuse_linear_bn_eval(linear, bn):
    """A copy of a linear layer that computes the norm behind it, too."""
    return _fused(linear, bn, False)
