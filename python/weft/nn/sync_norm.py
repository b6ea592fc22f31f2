"""Batch norm with the statistics of all ranks."""

import weft
from weft import _core
from weft.nn import convolution
from weft.nn import functional as F

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(convolution._BatchNorm):
    """Batch norm of [N, C, ...] over the batches of all ranks of a group of weft.distributed. Without other ranks, and in
    evaluation, it is a batch norm."""

    ranks, description, options = (2, 3, 4, 5), "BatchNorm3d", convolution.BatchNorm3d.options

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, process_group=None,
                 device=None, dtype=None):
        self._set_options(num_features=num_features, eps=eps, momentum=momentum, affine=affine,
                          track_running_stats=track_running_stats, device=device, dtype=dtype)
        if process_group is not None and not hasattr(process_group, "rank"):
            raise TypeError("SyncBatchNorm(): argument 'process_group': expected a group of weft.distributed, got "
                            f"{type(process_group).__name__}")
        self.process_group = process_group

    def get_config(self):
        return {key: value for key, value in super().get_config().items() if key != "process_group"}

    def forward(self, input):
        self._check(input)
        return self._normalize(self._over_ranks, input)

    def _over_ranks(self, input, mean, variance, weight, bias, own, momentum, eps):
        from weft import distributed

        if not own or distributed.get_world_size(self.process_group) == 1:
            return F.batch_norm(input, mean, variance, weight, bias, own, momentum, eps)
        dims, shape = [d for d in range(input.ndim) if d != 1], [1, -1] + [1] * (input.ndim - 2)
        count, batch_mean, batch_variance = _statistics(input, dims, shape, self.process_group)
        if mean is not None and self.training:
            with weft.no_grad():
                mean.lerp_(batch_mean.detach().to(mean.dtype), momentum)
                variance.lerp_((batch_variance.detach() * (count / (count - 1))).to(variance.dtype), momentum)
        result = (input - batch_mean.reshape(shape)) * (batch_variance.reshape(shape) + eps).rsqrt()
        if weight is not None:
            result = result * weight.reshape(shape) + bias.reshape(shape)
        return result.to(input.dtype)

    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        """The module with a SyncBatchNorm in the place of each batch norm below it."""
        result = module
        if isinstance(module, convolution._BatchNorm) and not isinstance(module, cls):
            result = cls(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats,
                         process_group)
            for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
                setattr(result, name, tensor)
            result.training = module.training
        for name, child in list(module.named_children()):
            result.register_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result


def _statistics(input, dims, shape, group):
    """The number of elements of a channel over all ranks, their mean and their variance, in the graph."""
    from weft.distributed import functional

    wide = input.to(_core.float64 if input.dtype is _core.float64 else _core.float32)
    own = weft.tensor(float(input.numel() // input.shape[1]), dtype=wide.dtype)
    sums = functional.all_reduce(weft.cat([wide.sum(dims), own.reshape(1)]), group=group)
    count = sums[-1].item()
    mean = sums[:-1] / count
    squares = functional.all_reduce((wide - mean.reshape(shape)).square().sum(dims), group=group)
    return count, mean, squares / count
