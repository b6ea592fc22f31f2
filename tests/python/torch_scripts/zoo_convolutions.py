"""Blocks of convolutional networks of many families, each with its output and the norm of its gradients."""

import math
from collections import OrderedDict

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.modules.utils import _pair
from common import normal, start

BatchNorm2d = nn.BatchNorm2d


class _DenseLayer(nn.Module):
    def __init__(self, num_input_features, growth_rate, bn_size, drop_rate=0):
        super(_DenseLayer, self).__init__()
        self.add_module("norm1", nn.BatchNorm2d(num_input_features))
        self.add_module("relu1", nn.ReLU(inplace=True))
        self.add_module("conv1", nn.Conv2d(num_input_features, bn_size * growth_rate, kernel_size=1, stride=1, bias=False))
        self.add_module("norm2", nn.BatchNorm2d(bn_size * growth_rate))
        self.add_module("relu2", nn.ReLU(inplace=True))
        self.add_module("conv2", nn.Conv2d(bn_size * growth_rate, growth_rate, kernel_size=3, stride=1, padding=1, bias=False))
        self.drop_rate = float(drop_rate)

    def forward(self, inputs):
        bottleneck = self.conv1(self.relu1(self.norm1(torch.cat(inputs, 1))))
        new_features = self.conv2(self.relu2(self.norm2(bottleneck)))
        if self.drop_rate > 0:
            new_features = F.dropout(new_features, p=self.drop_rate, training=self.training)
        return new_features


class DenseBlock(nn.ModuleDict):
    def __init__(self, num_layers, num_input_features, bn_size, growth_rate):
        super(DenseBlock, self).__init__()
        for i in range(num_layers):
            self.add_module("denselayer%d" % (i + 1), _DenseLayer(num_input_features + i * growth_rate, growth_rate, bn_size))

    def forward(self, init_features):
        features = [init_features]
        for name, layer in self.items():
            features.append(layer(features))
        return torch.cat(features, 1)


class Inception(nn.Module):
    def __init__(self, in_channels, pool_features):
        super().__init__()
        self.branch1x1 = nn.Conv2d(in_channels, 4, kernel_size=1)
        self.branch7x7_1 = nn.Conv2d(in_channels, 4, kernel_size=(1, 7), padding=(0, 3))
        self.branch7x7_2 = nn.Conv2d(4, 4, kernel_size=(7, 1), padding=(3, 0))
        self.branch_pool = nn.Conv2d(in_channels, pool_features, kernel_size=1)

    def forward(self, x):
        pooled = F.avg_pool2d(x, kernel_size=3, stride=1, padding=1)
        return torch.cat([self.branch1x1(x), self.branch7x7_2(F.relu(self.branch7x7_1(x))), self.branch_pool(pooled)], 1)


def channel_shuffle(x, groups):
    batchsize, num_channels, height, width = x.size()
    x = x.view(batchsize, groups, num_channels // groups, height, width)
    return torch.transpose(x, 1, 2).contiguous().view(batchsize, num_channels, height, width)


class ShuffleUnit(nn.Module):
    def __init__(self, channels):
        super().__init__()
        half = channels // 2
        self.branch2 = nn.Sequential(nn.Conv2d(half, half, 1, bias=False), nn.BatchNorm2d(half), nn.ReLU(inplace=True),
                                     nn.Conv2d(half, half, 3, 1, 1, bias=False, groups=half), nn.BatchNorm2d(half))

    def forward(self, x):
        x1, x2 = x.chunk(2, dim=1)
        return channel_shuffle(torch.cat((x1, self.branch2(x2)), dim=1), 2)


class GhostModule(nn.Module):
    def __init__(self, inp, oup, ratio=2, dw_size=3):
        super().__init__()
        self.oup = oup
        init_channels = math.ceil(oup / ratio)
        new_channels = init_channels * (ratio - 1)
        self.primary_conv = nn.Sequential(nn.Conv2d(inp, init_channels, 1, bias=False), nn.BatchNorm2d(init_channels), nn.ReLU())
        self.cheap_operation = nn.Sequential(nn.Conv2d(init_channels, new_channels, dw_size, 1, dw_size // 2,
                                                       groups=init_channels, bias=False), nn.BatchNorm2d(new_channels))

    def forward(self, x):
        x1 = self.primary_conv(x)
        return torch.cat([x1, self.cheap_operation(x1)], dim=1)[:, :self.oup, :, :]


class CBAM(nn.Module):
    def __init__(self, channels, reduction=2):
        super().__init__()
        self.mlp = nn.Sequential(nn.Flatten(), nn.Linear(channels, channels // reduction), nn.ReLU(),
                                 nn.Linear(channels // reduction, channels))
        self.spatial = nn.Conv2d(2, 1, 7, stride=1, padding=(7 - 1) // 2)

    def forward(self, x):
        avg_pool = F.avg_pool2d(x, (x.size(2), x.size(3)), stride=(x.size(2), x.size(3)))
        tensor_flatten = x.view(x.size(0), x.size(1), -1)
        s, _ = torch.max(tensor_flatten, dim=2, keepdim=True)
        lse = s + (tensor_flatten - s).exp().sum(dim=2, keepdim=True).log()
        att = torch.sigmoid(self.mlp(avg_pool) + self.mlp(lse)).unsqueeze(2).unsqueeze(3).expand_as(x)
        x = x * att
        compressed = torch.cat((torch.max(x, 1)[0].unsqueeze(1), torch.mean(x, 1).unsqueeze(1)), dim=1)
        return x * torch.sigmoid(self.spatial(compressed))


class ECA(nn.Module):
    def __init__(self, k_size=3):
        super().__init__()
        self.avg_pool, self.sigmoid = nn.AdaptiveAvgPool2d(1), nn.Sigmoid()
        self.conv = nn.Conv1d(1, 1, kernel_size=k_size, padding=(k_size - 1) // 2, bias=False)

    def forward(self, x):
        y = self.conv(self.avg_pool(x).squeeze(-1).transpose(-1, -2)).transpose(-1, -2).unsqueeze(-1)
        return x * self.sigmoid(y).expand_as(x)


class SplAtConv(nn.Module):
    def __init__(self, channels, radix=2, groups=1):
        super().__init__()
        self.radix, self.cardinality, self.channels = radix, groups, channels
        padding = _pair(1)
        self.conv = nn.Conv2d(channels, channels * radix, 3, 1, padding, groups=groups * radix, bias=False)
        self.bn0, self.fc1, self.fc2 = nn.BatchNorm2d(channels * radix), nn.Conv2d(channels, 8, 1), nn.Conv2d(8, channels * radix, 1)

    def forward(self, x):
        x = F.relu(self.bn0(self.conv(x)))
        batch, rchannel = x.shape[:2]
        splited = torch.split(x, int(rchannel // self.radix), dim=1)
        gap = F.adaptive_avg_pool2d(sum(splited), 1)
        atten = self.fc2(F.relu(self.fc1(gap)))
        atten = atten.view(batch, self.cardinality, self.radix, -1).transpose(1, 2)
        atten = F.softmax(atten, dim=1).reshape(batch, -1).view(batch, -1, 1, 1)
        attens = torch.split(atten, int(rchannel // self.radix), dim=1)
        return sum([att * split for (att, split) in zip(attens, splited)]).contiguous()


class RepVGGBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.rbr_identity = nn.BatchNorm2d(num_features=channels)
        self.rbr_dense = self.conv_bn(channels, 3, 1)
        self.rbr_1x1 = self.conv_bn(channels, 1, 0)

    def conv_bn(self, channels, kernel_size, padding):
        result = nn.Sequential()
        result.add_module("conv", nn.Conv2d(channels, channels, kernel_size, padding=padding, bias=False))
        result.add_module("bn", nn.BatchNorm2d(num_features=channels))
        return result

    def forward(self, inputs):
        return F.relu(self.rbr_dense(inputs) + self.rbr_1x1(inputs) + self.rbr_identity(inputs))

    def get_equivalent_kernel_bias(self):
        kernel3x3, bias3x3 = self._fuse_bn_tensor(self.rbr_dense)
        kernel1x1, bias1x1 = self._fuse_bn_tensor(self.rbr_1x1)
        return kernel3x3 + torch.nn.functional.pad(kernel1x1, [1, 1, 1, 1]), bias3x3 + bias1x1

    def _fuse_bn_tensor(self, branch):
        kernel, bn = branch.conv.weight, branch.bn
        std = (bn.running_var + bn.eps).sqrt()
        t = (bn.weight / std).reshape(-1, 1, 1, 1)
        return kernel * t, bn.bias - bn.running_mean * bn.weight / std


class ASPP(nn.Module):
    def __init__(self, in_channels, atrous_rates, out_channels=4):
        super().__init__()
        modules = [nn.Sequential(nn.Conv2d(in_channels, out_channels, 1, bias=False), nn.ReLU())]
        for rate in tuple(atrous_rates):
            modules.append(nn.Sequential(nn.Conv2d(in_channels, out_channels, 3, padding=rate, dilation=rate, bias=False), nn.ReLU()))
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(in_channels, out_channels, 1, bias=False), nn.ReLU())
        self.convs = nn.ModuleList(modules)
        self.project = nn.Conv2d((len(self.convs) + 1) * out_channels, out_channels, 1)

    def forward(self, x):
        res = [conv(x) for conv in self.convs]
        res.append(F.interpolate(self.pool(x), size=x.shape[-2:], mode="bilinear", align_corners=False))
        return self.project(torch.cat(res, dim=1))


class PPM(nn.Module):
    def __init__(self, in_dim, bins=(1, 2, 3)):
        super().__init__()
        self.features = nn.ModuleList(nn.Sequential(nn.AdaptiveAvgPool2d(bin), nn.Conv2d(in_dim, 2, kernel_size=1)) for bin in bins)

    def forward(self, x):
        x_size = x.size()
        out = [x]
        for f in self.features:
            out.append(F.interpolate(f(x), x_size[2:], mode="bilinear", align_corners=True))
        return torch.cat(out, 1)


class NonLocal(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.theta, self.phi, self.g = (nn.Conv2d(channels, 4, 1) for _ in range(3))
        self.out = nn.Conv2d(4, channels, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        theta, phi = self.theta(x).view(b, -1, h * w).permute(0, 2, 1), self.phi(x).view(b, -1, h * w)
        y = F.softmax(torch.matmul(theta, phi), dim=-1) @ self.g(x).view(b, -1, h * w).permute(0, 2, 1)
        return x + self.out(y.permute(0, 2, 1).contiguous().view(b, 4, h, w))


class Involution(nn.Module):
    def __init__(self, channels, kernel_size=3, group_channels=4):
        super().__init__()
        self.kernel_size, self.group_channels, self.groups = kernel_size, group_channels, channels // group_channels
        self.conv2 = nn.Conv2d(channels, kernel_size ** 2 * self.groups, 1)
        self.unfold = nn.Unfold(kernel_size, 1, (kernel_size - 1) // 2, 1)

    def forward(self, x):
        weight = self.conv2(x)
        b, c, h, w = weight.shape
        weight = weight.view(b, self.groups, self.kernel_size ** 2, h, w).unsqueeze(2)
        out = self.unfold(x).view(b, self.groups, self.group_channels, self.kernel_size ** 2, h, w)
        return (weight * out).sum(dim=3).view(b, -1, h, w)


class CoordConv(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels + 3, out_channels, 3, padding="same")

    def forward(self, x):
        batch, _, xd, yd = x.size()
        xx = torch.arange(xd, dtype=x.dtype).repeat(1, yd, 1) / (xd - 1) * 2 - 1
        yy = torch.arange(yd).type_as(x).repeat(1, xd, 1).transpose(1, 2) / (yd - 1) * 2 - 1
        xx, yy = xx.repeat(batch, 1, 1, 1).transpose(2, 3), yy.repeat(batch, 1, 1, 1).transpose(2, 3)
        rr = torch.sqrt(torch.pow(xx, 2) + torch.pow(yy, 2))
        return self.conv(torch.cat([x, xx, yy, rr], dim=1))


class BlurPool(nn.Module):
    def __init__(self, channels):
        super().__init__()
        a = torch.tensor([1., 2., 1.])
        filt = a[:, None] * a[None, :]
        self.register_buffer("filt", (filt / filt.sum())[None, None].repeat(channels, 1, 1, 1))

    def forward(self, x):
        return F.conv2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), self.filt, stride=2, groups=x.shape[1])


class WSConv2d(nn.Conv2d):
    def forward(self, x):
        weight = self.weight
        weight_mean = weight.mean(dim=1, keepdim=True).mean(dim=2, keepdim=True).mean(dim=3, keepdim=True)
        weight = weight - weight_mean
        std = weight.view(weight.size(0), -1).std(dim=1).view(-1, 1, 1, 1) + 1e-5
        return F.conv2d(x, weight / std.expand_as(weight), self.bias, self.stride, self.padding, self.dilation, self.groups)


class FRN(nn.Module):
    def __init__(self, num_features):
        super().__init__()
        self.tau, self.gamma, self.beta = (nn.Parameter(torch.full((1, num_features, 1, 1), v)) for v in (0.0, 1.0, 0.0))
        self.eps = nn.Parameter(torch.tensor(1e-6), requires_grad=False)

    def forward(self, x):
        nu2 = torch.mean(x.pow(2), dim=[2, 3], keepdim=True)
        x = x * torch.rsqrt(nu2 + torch.abs(self.eps))
        return torch.max(self.gamma * x + self.beta, self.tau)


class DropBlockFree(nn.Sequential):
    def __init__(self):
        super().__init__(OrderedDict([("pad", nn.ReplicationPad2d((1, 0, 1, 0))), ("conv", nn.Conv2d(8, 4, 2, bias=False)),
                                      ("act", nn.PReLU(4)), ("lrn", nn.LocalResponseNorm(2)), ("gn", nn.GroupNorm(2, 4))]))


class BiFPNNode(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(2, dtype=torch.float32), requires_grad=True)
        self.conv, self.act = nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Hardswish()

    def forward(self, x):
        w = F.relu(self.w)
        weight = w / (torch.sum(w, dim=0) + 1e-4)
        return self.conv(self.act(weight[0] * x + weight[1] * F.interpolate(F.max_pool2d(x, 3, 2, 1), scale_factor=2)))


class DeconvUp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1)
        self.unpool, self.pool = nn.MaxUnpool2d(2, 2), nn.MaxPool2d(2, stride=2, return_indices=True)

    def forward(self, x):
        y, indices = self.pool(self.up(x, output_size=(2, 4, 16, 16)))
        return self.unpool(y, indices)


class Conv3dBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv3d(2, 4, (3, 1, 1), padding=(1, 0, 0))
        self.bn, self.pool = nn.BatchNorm3d(4), nn.AdaptiveAvgPool3d((None, 1, 1))

    def forward(self, x):
        x = x.view(x.size(0), 2, 4, *x.shape[2:])
        return self.pool(F.elu(self.bn(self.conv(x)))).flatten(2)


class DynamicConv(nn.Module):
    def __init__(self, channels, K=3):
        super().__init__()
        self.attention = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, K))
        self.weight = nn.Parameter(torch.randn(K, channels, channels, 3, 3), requires_grad=True)

    def forward(self, x):
        batch_size, in_planes, height, width = x.size()
        softmax_attention = F.softmax(self.attention(x) / 30, 1)
        x = x.reshape(1, -1, height, width)
        aggregate = torch.mm(softmax_attention, self.weight.view(3, -1)).view(-1, in_planes, 3, 3)
        output = F.conv2d(x, weight=aggregate, bias=None, stride=1, padding=1, groups=batch_size)
        return output.view(batch_size, -1, output.size(-2), output.size(-1))


makers = [lambda: DenseBlock(2, 8, 2, 4), lambda: Inception(8, 4), lambda: ShuffleUnit(8), lambda: GhostModule(8, 7),
          lambda: CBAM(8), lambda: ECA(), lambda: SplAtConv(8), lambda: RepVGGBlock(8), lambda: ASPP(8, [2, 3]), lambda: PPM(8),
          lambda: NonLocal(8), lambda: Involution(8), lambda: CoordConv(8, 4), lambda: BlurPool(8),
          lambda: WSConv2d(8, 4, 3, padding=1), lambda: FRN(8), lambda: DropBlockFree(), lambda: BiFPNNode(), lambda: DeconvUp(),
          lambda: Conv3dBlock(), lambda: DynamicConv(8)]
losses = []
for make in makers:
    module, x = start(make()), normal(2, 8, 8, 8, seed=3).requires_grad_()
    out = module(x)
    (out * normal(*out.shape, seed=4)).sum().backward()
    losses += [out.abs().mean().item(), x.grad.norm().item()]
    losses.append(sum(p.grad.norm().item() for p in module.parameters() if p.grad is not None))
    if hasattr(module, "get_equivalent_kernel_bias"):
        losses.append(module.get_equivalent_kernel_bias()[0].sum().item())
