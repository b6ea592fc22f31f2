"""DataParallel, and DistributedDataParallel on Weft's ranks."""

import contextlib

import weft
from weft import distributed
from weft.nn.module import Module
from weft.torch._nn import DataParallel, data_parallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel", "gather", "replicate", "scatter"]


class DistributedDataParallel(Module):
    """A module that starts with rank 0's parameters. A hook of each parameter averages its gradient over the ranks."""

    def __init__(self, module, device_ids=None, output_device=None, dim=0, broadcast_buffers=True, process_group=None,
                 bucket_cap_mb=None, find_unused_parameters=False, check_reduction=False, gradient_as_bucket_view=False,
                 static_graph=False, **_):
        super().__init__()
        self.module, self.process_group = module, process_group
        self.require_backward_grad_sync = True
        if distributed.get_world_size(process_group) > 1:
            with weft.no_grad():
                for tensor in [*module.parameters(), *module.buffers()]:
                    distributed.broadcast(tensor, distributed.get_process_group_ranks(process_group)[0], process_group)
            for parameter in module.parameters():
                if parameter.requires_grad:
                    parameter.register_post_accumulate_grad_hook(self._average)

    def _average(self, parameter):
        if self.require_backward_grad_sync:
            distributed.all_reduce(parameter.grad, group=self.process_group)
            parameter.grad.div_(distributed.get_world_size(self.process_group))

    @contextlib.contextmanager
    def no_sync(self):
        """Within it gradients stay those of this rank."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)


def replicate(network, devices, detach=False):
    """The network once: Weft's replicas are ranks."""
    if len(devices) > 1:
        raise NotImplementedError("replicate(): several devices are ranks in Weft, see weft.distributed")
    return [network]


def scatter(inputs, target_gpus, dim=0):
    """Chunks of tensors along dim, one for each device."""
    if isinstance(inputs, weft.Tensor):
        return inputs.chunk(len(target_gpus), dim)
    return list(zip(*(scatter(item, target_gpus, dim) for item in inputs)))


def gather(outputs, target_device, dim=0):
    """The outputs of replicas as one tensor."""
    return weft.cat([output.to(target_device) for output in outputs], dim)
