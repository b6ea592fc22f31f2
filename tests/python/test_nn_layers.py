"""Layers against PyTorch 2.15: printed text, and convolutions with every padding_mode."""

import copy
import json
import pathlib

import numpy as np
import pytest

import weft
from weft import io, nn
import weft.nn.functional as F

PADDING_MODES = json.loads((pathlib.Path(__file__).parent / "pytorch_cases/padding_modes.json").read_text())


def fill(shape, step, first, numbers):
    return ((weft.arange(int(np.prod(shape)), dtype=weft.float64) * step + first) % numbers - 3).reshape(shape)


@pytest.mark.parametrize("case", PADDING_MODES, ids=lambda case: case["layer"])
def test_padding_modes_are_pytorchs(case):
    layer = eval("nn." + case["layer"]).double()
    assert repr(layer) == case["text"]
    layer.load_state_dict({name: fill(p.shape, 5, i, 7) for i, (name, p) in enumerate(layer.named_parameters())})
    x = fill(case["input"], 3, 0, 8).requires_grad_()
    y = layer(x)
    assert list(y.shape) == case["shape"] and y.flatten().tolist() == case["values"]
    (y * weft.arange(1, y.numel() + 1).reshape(y.shape)).sum().backward()
    assert x.grad.flatten().tolist() == case["input_grad"]
    assert layer.weight.grad.flatten().tolist() == case["weight_grad"]


def test_padding_modes_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match="Conv2d.*'padding_mode': expected 'zeros'.*'circular', got 'mirror'"):
        nn.Conv2d(1, 1, 3, padding_mode="mirror")
    for dims in ("1d", "2d", "3d"):
        with pytest.raises(ValueError, match=f"ConvTranspose{dims}.*'padding_mode': expected 'zeros', got 'reflect'"):
            getattr(nn, "ConvTranspose" + dims)(1, 1, 3, padding_mode="reflect")
    with pytest.raises(ValueError, match="stride"):
        nn.Conv2d(1, 1, 3, stride=2, padding="same", padding_mode="reflect")
    with pytest.raises(ValueError, match="pad"):
        nn.Conv1d(1, 1, 3, padding=3, padding_mode="reflect")(weft.ones(1, 1, 3))


def test_errors_of_norms_name_the_class_that_was_written():
    for name in ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"):
        with pytest.raises(ValueError, match=f"nn::{name}.*channels: expected at least 0, got -1"):
            getattr(nn, name)(-1)
        with pytest.raises(ValueError, match=name):
            getattr(nn, name)(3)(weft.ones(3))


# `repr` of each in PyTorch.
TEXTS = """
MaxPool2d(2) => MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
MaxPool1d(3, 2, 1, 2, ceil_mode=True) => MaxPool1d(kernel_size=3, stride=2, padding=1, dilation=2, ceil_mode=True)
MaxPool2d(2, return_indices=True) => MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
AvgPool1d(2) => AvgPool1d(kernel_size=(2,), stride=(2,), padding=(0,))
AvgPool2d((2, 3), 1, (1, 1), True, False, 3) => AvgPool2d(kernel_size=(2, 3), stride=1, padding=(1, 1))
AvgPool3d(2, 2) => AvgPool3d(kernel_size=2, stride=2, padding=0)
AdaptiveAvgPool2d((3, 4)) => AdaptiveAvgPool2d(output_size=(3, 4))
AdaptiveMaxPool3d(2) => AdaptiveMaxPool3d(output_size=2)
LPPool1d(2, 3) => LPPool1d(norm_type=2, kernel_size=3, stride=None, ceil_mode=False)
LPPool2d(1.5, (2, 3), 2, True) => LPPool2d(norm_type=1.5, kernel_size=(2, 3), stride=2, ceil_mode=True)
MaxUnpool2d(2) => MaxUnpool2d(kernel_size=(2, 2), stride=(2, 2), padding=(0, 0))
FractionalMaxPool2d(2, output_size=3) => FractionalMaxPool2d()
Flatten() => Flatten(start_dim=1, end_dim=-1)
Unflatten(1, (2, 5)) => Unflatten(dim=1, unflattened_size=(2, 5))
Upsample(scale_factor=2) => Upsample(scale_factor=2.0, mode='nearest')
Upsample(scale_factor=(2, 3.5), mode='bilinear', align_corners=True) => Upsample(scale_factor=(2.0, 3.5), mode='bilinear')
Upsample(size=(4, 5), mode='nearest-exact') => Upsample(size=(4, 5), mode='nearest-exact')
UpsamplingNearest2d(2) => UpsamplingNearest2d(size=2, mode='nearest')
UpsamplingBilinear2d(scale_factor=2) => UpsamplingBilinear2d(scale_factor=2.0, mode='bilinear')
ZeroPad1d(2) => ZeroPad1d((2, 2))
ReflectionPad2d(1) => ReflectionPad2d((1, 1, 1, 1))
ConstantPad2d((1, 2, 0, 0), 1) => ConstantPad2d(padding=(1, 2, 0, 0), value=1)
Dropout2d(0.1, True) => Dropout2d(p=0.1, inplace=True)
AlphaDropout(0.1) => AlphaDropout(p=0.1, inplace=False)
PixelShuffle(3) => PixelShuffle(upscale_factor=3)
CosineSimilarity(0, 1e-6) => CosineSimilarity()
PairwiseDistance(1, keepdim=True) => PairwiseDistance()
LeakyReLU(0.2, True) => LeakyReLU(negative_slope=0.2, inplace=True)
ELU() => ELU(alpha=1.0)
Softplus() => Softplus(beta=1.0, threshold=20.0)
Softshrink() => Softshrink(0.5)
Hardshrink(0.25) => Hardshrink(0.25)
Hardtanh() => Hardtanh(min_val=-1.0, max_val=1.0)
Threshold(1, 2, True) => Threshold(threshold=1, value=2, inplace=True)
Hardswish(True) => Hardswish()
GLU() => GLU(dim=-1)
RReLU() => RReLU(lower=0.125, upper=0.3333333333333333)
PReLU(3, 0.1) => PReLU(num_parameters=3)
Softmax(1) => Softmax(dim=1)
LogSoftmax(-1) => LogSoftmax(dim=-1)
Softmax() => Softmax(dim=None)
Softmin(1) => Softmin(dim=1)
Softmax2d() => Softmax2d()
LocalResponseNorm(2) => LocalResponseNorm(2, alpha=0.0001, beta=0.75, k=1.0)
Unfold(3) => Unfold(kernel_size=3, dilation=1, padding=0, stride=1)
Fold((4, 5), (2, 2)) => Fold(output_size=(4, 5), kernel_size=(2, 2), dilation=1, padding=0, stride=1)
Embedding(3, 4, padding_idx=1) => Embedding(3, 4, padding_idx=1)
EmbeddingBag(3, 4) => EmbeddingBag(3, 4, mode='mean')
ReLU(inplace=True) => ReLU(inplace=True)
""".strip().splitlines()


@pytest.mark.parametrize("line", TEXTS)
def test_layers_print_as_pytorchs(line):
    expression, text = line.split(" => ")
    assert repr(eval("nn." + expression)) == text


def test_a_pool_without_a_stride_lays_windows_side_by_side():
    x = weft.randn(2, 3, 6)
    assert weft.equal(nn.LPPool1d(2, 3)(x), F.lp_pool1d(x, 2, 3, 3))
    assert nn.MaxPool1d(3).stride == 3 and nn.AvgPool1d(2)(x).shape == (2, 3, 3)


def test_lazy_layers_become_their_layer():
    net = nn.Sequential(nn.LazyConv2d(4, 3, padding=1), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2, bias=False))
    assert [tuple(p.shape) for p in net.parameters()] == [(0,)] * 5
    assert repr(net[0]) == "LazyConv2d(4, 3, padding=1)" and repr(net[3]) == "LazyLinear(2, bias=False)"
    calls = []
    net[3].register_forward_hook(lambda module, inputs, output: calls.append(type(module)))
    other = copy.deepcopy(net).eval().to(weft.float64)
    net[0].requires_grad_(False)
    x = weft.randn(2, 3, 5, 5)
    assert net(x).shape == (2, 2) and calls == [nn.Linear]
    assert [type(layer) for layer in net] == [nn.Conv2d, nn.BatchNorm2d, nn.Flatten, nn.Linear]
    assert repr(net[0]) == repr(nn.Conv2d(3, 4, 3, padding=1)) and net[3].in_features == 100 and net[3].bias is None
    assert [p.requires_grad for p in net.parameters()] == [False, False, True, True, True]
    net(x).sum().backward()
    assert net[3].weight.grad is not None and list(net.state_dict()) == list(nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(100, 2, False)).state_dict())
    assert other(x.double()).dtype is weft.float64 and not other[1].training
    assert all(p.dtype is weft.float64 for p in other.parameters())
    assert repr(io.from_json(io.to_json(net))) == repr(net)


def test_lazy_layers_reject_the_same_arguments_as_their_layer():
    for wrong, kind in ((lambda: nn.LazyLinear(), TypeError), (lambda: nn.LazyConv1d(2, 3, strides=1), TypeError),
                        (lambda: nn.LazyConv1d(-2, 3), ValueError), (lambda: nn.LazyConv1d(2, 3)(weft.ones(4)), ValueError),
                        (lambda: nn.LazyConv1d(2, 1, groups=2)(weft.ones(3, 4)), ValueError),
                        (lambda: nn.LazyLinear(3)(weft.tensor(1.0)), ValueError),
                        (lambda: io.to_json(nn.LazyLinear(3)), ValueError)):
        with pytest.raises(kind):
            wrong()


def test_the_adaptive_softmax_is_a_distribution():
    layer, x = nn.AdaptiveLogSoftmaxWithLoss(6, 12, [3, 7], div_value=2.0), weft.randn(40, 6)
    every = layer.log_prob(x)
    np.testing.assert_allclose(every.exp().sum(1).tolist(), 1, rtol=1e-5)
    target = weft.randint(12, (40,))
    output, loss = layer(x, target)
    np.testing.assert_allclose(output.tolist(), every.gather(1, target[:, None]).squeeze(1).tolist(), rtol=1e-5)
    assert loss.item() == pytest.approx(-output.mean().item()) and weft.equal(layer.predict(x), every.argmax(1))
    loss.backward()
    assert all(p.grad is not None for p in layer.parameters())
    layer.reset_parameters()
    assert not weft.equal(layer.log_prob(x), every)


def test_parameter_dicts_train_and_copy():
    weights = nn.ParameterDict({"left": weft.ones(2), "right": weft.zeros(2)})
    net = nn.Sequential(nn.Linear(2, 2))
    net.weights = weights
    assert [name for name, _ in net.named_parameters()][2:] == ["weights.left", "weights.right"]
    (weights["left"] * 3).sum().backward()
    assert weights["left"].grad.tolist() == [3, 3] and isinstance(weights["right"], nn.Parameter)
    other = copy.deepcopy(weights)
    assert list(other) == ["left", "right"] and other["left"] is not weights["left"]
    weights |= {"left": weft.zeros(1), "step": 4}
    assert list(weights) == ["left", "right", "step"] and weights["left"].shape == (1,) and weights.pop("step") == 4
    assert dict(weights.copy().items())["right"] is weights["right"]


def test_gumbel_softmax_draws_by_the_probabilities():
    p = weft.tensor([0.1, 0.2, 0.7])
    drawn = F.gumbel_softmax(p.log().expand(20000, 3), hard=True)
    assert set(drawn.unique().tolist()) == {0, 1} and (drawn.sum(1) == 1).all()
    np.testing.assert_allclose(drawn.mean(0).tolist(), p.tolist(), atol=0.015)
    soft = F.gumbel_softmax(weft.zeros(4, 5), tau=0.5)
    np.testing.assert_allclose(soft.sum(1).tolist(), 1, rtol=1e-6)
    grads = []
    for hard in (False, True):
        x = weft.zeros(4, 5, requires_grad=True)
        weft.manual_seed(3)
        (F.gumbel_softmax(x, hard=hard) * weft.arange(5)).sum().backward()
        grads.append(x.grad)
    np.testing.assert_allclose(grads[0].numpy(), grads[1].numpy(), atol=1e-6)
