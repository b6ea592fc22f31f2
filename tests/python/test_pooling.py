"""Layers of pooling, other sizes, channel dropout and bags of embeddings."""

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from weft import nn

image = weft.arange(1, 289, dtype=weft.float32).reshape(2, 3, 6, 8).sin()


@pytest.mark.parametrize("layer, expected", [
    (nn.MaxPool2d(2), lambda x: F.max_pool2d(x, 2)),
    (nn.MaxPool2d((3, 2), 2, 1, 1, False, True), lambda x: F.max_pool2d(x, (3, 2), 2, 1, ceil_mode=True)),
    (nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False),
     lambda x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)),
    (nn.LPPool2d(2, 3), lambda x: F.lp_pool2d(x, 2, 3)),
    (nn.AdaptiveAvgPool2d((None, 3)), lambda x: F.adaptive_avg_pool2d(x, (6, 3))),
    (nn.AdaptiveMaxPool2d(2), lambda x: F.adaptive_max_pool2d(x, 2)),
    (nn.Unfold(2, stride=2), lambda x: F.unfold(x, 2, stride=2)),
    (nn.Upsample(scale_factor=2), lambda x: F.interpolate(x, scale_factor=2)),
    (nn.UpsamplingBilinear2d((3, 4)), lambda x: F.interpolate(x, (3, 4), mode="bilinear", align_corners=True)),
    (nn.UpsamplingNearest2d(scale_factor=(2, 1)), lambda x: F.interpolate(x, scale_factor=(2, 1))),
    (nn.LocalResponseNorm(2, 0.1), lambda x: F.local_response_norm(x, 2, 0.1)),
])
def test_layers_are_their_functions(layer, expected):
    assert weft.equal(layer(image), expected(image))


def test_layers_of_indices_go_back():
    values, indices = nn.MaxPool2d(2, return_indices=True)(image)
    back = nn.MaxUnpool2d(2)(values, indices)
    assert back.shape == image.shape and weft.equal(back[back != 0], image[back != 0]) and (back != 0).sum() == 72
    columns = nn.Unfold(2, stride=2)(image)
    assert weft.equal(nn.Fold((6, 8), 2, stride=2)(columns), image)
    pool = nn.FractionalMaxPool2d(2, output_ratio=(0.5, 0.5))
    assert pool(image).shape == (2, 3, 3, 4)


def test_layers_name_their_options():
    assert repr(nn.MaxPool2d(3, 2)) == "MaxPool2d(kernel_size=3, stride=2, padding=0, dilation=1, ceil_mode=False)"
    assert nn.AvgPool1d(4).stride == (4,) and nn.AvgPool2d(4).stride == 4
    with pytest.raises(TypeError):
        nn.MaxPool2d()
    with pytest.raises(ValueError):
        nn.Dropout2d(1.5)


@pytest.mark.parametrize("layer", [nn.Dropout2d(0.5), nn.AlphaDropout(0.3), nn.FeatureAlphaDropout(0.5), nn.RReLU()])
def test_random_layers_draw_in_training_alone(layer):
    x = weft.ones(4, 16, 5, 5) * -1
    weft.manual_seed(1)
    first = layer(x)
    weft.manual_seed(1)
    assert weft.equal(first, layer(x)) and not weft.equal(first, layer(x))
    layer.eval()
    assert weft.equal(layer(x), F.rrelu(x) if isinstance(layer, nn.RReLU) else x)


def test_dropout_of_channels_takes_all_of_a_channel():
    weft.manual_seed(3)
    kept = F.dropout2d(weft.ones(8, 32, 4, 4), 0.25)
    means = kept.mean((2, 3))
    assert set(np.unique(means.numpy()).round(5)) == {0.0, np.float32(1.33333)}
    assert 0.15 < (means == 0).to(weft.float32).mean().item() < 0.35
    x = weft.ones(4, 3, 2)
    assert F.dropout1d(x, 0.5, inplace=True) is x


def test_alpha_dropout_keeps_mean_and_variance():
    weft.manual_seed(0)
    x = F.alpha_dropout(weft.randn(400000), 0.3, True)
    assert abs(x.mean().item()) < 0.01 and abs(x.var().item() - 1) < 0.02


def test_bags_of_embeddings():
    bag = nn.EmbeddingBag(5, 3, mode="sum", padding_idx=-1)
    assert bag.padding_idx == 4 and bag.weight[4].tolist() == [0, 0, 0]
    out = bag(weft.tensor([0, 4, 1, 2]), weft.tensor([0, 2]))
    assert weft.allclose(out, weft.stack([bag.weight[0], bag.weight[1] + bag.weight[2]]))
    out.sum().backward()
    assert bag.weight.grad[4].tolist() == [0, 0, 0] and bag.weight.grad[1].tolist() == [1, 1, 1]
    rows = weft.tensor([[3.0, 4.0], [0.3, 0.4]])
    short = nn.EmbeddingBag.from_pretrained(rows, max_norm=1.0)
    assert weft.allclose(short(weft.tensor([[0], [1]])), weft.tensor([[0.6, 0.8], [0.3, 0.4]]), 1e-5)
    assert not short.weight.requires_grad
    assert repr(bag) == "EmbeddingBag(5, 3, mode='sum', padding_idx=4)"
