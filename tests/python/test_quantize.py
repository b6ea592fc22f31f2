"""Quantisation from Python: ops by their records, layers by patterns."""

import copy

import pytest

import weft
from weft import nn


def difference(a, b):
    return float((a - b).abs().max())


def test_ops_have_named_results():
    x = weft.tensor([[0.5, -3.0, 1.0, 0.01]])
    out = weft.quant_blockwise(x)
    assert out.q.dtype == weft.float8_e4m3fn
    assert out.scale.tolist() == [[1 / 128]]
    assert weft.dequant_blockwise(out.q, out.scale, weft.float32).tolist() == [[0.5, -3.0, 1.0, 0.009765625]]
    with pytest.raises(ValueError):
        weft.quant_blockwise(x, "2x2")


def test_products_of_codes():
    a, b = weft.randn(5, 200), weft.randn(7, 200)
    qa, qb = weft.quant_blockwise(a), weft.quant_blockwise(b, "128x128")
    y = weft.gemm_fp8_blockwise(qa.q, qa.scale, qb.q, qb.scale, weft.float32)
    exact = weft.dequant_blockwise(qa.q, qa.scale, weft.float32) @ weft.dequant_blockwise(qb.q, qb.scale, weft.float32).T
    assert difference(y, exact) < 1e-3
    added = weft.gemm_fp8_blockwise(qa.q, qa.scale, qb.q, qb.scale, weft.float32, start=weft.ones(5, 7))
    assert difference(added, exact + 1) < 1e-3


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("symmetric", [True, False])
def test_quantize_replaces_layers(bits, symmetric):
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))
    x = weft.randn(3, 64)
    before = model(x)
    assert nn.quantize(model, "^0$", bits=bits, group_size=16, symmetric=symmetric) == ["0"]
    assert 0 < difference(model(x), before) < 0.3
    names = list(model.state_dict())
    assert "0.codes" in names and "0.weight" not in names and "2.weight" in names
    assert ("0.zero" in names) != symmetric
    other = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))
    nn.quantize(other, "^0$", bits=bits, group_size=16, symmetric=symmetric)
    other.load_state_dict(model.state_dict())
    assert other(x).tolist() == model(x).tolist()


def test_quantize_refuses():
    with pytest.raises(ValueError):
        nn.quantize(nn.ReLU())
    with pytest.raises(ValueError):
        nn.quantize(nn.Linear(4, 4), bits=3)


def test_layers_are_saved_and_built_again(tmp_path):
    model = nn.Sequential(nn.QuantizedLinear(16, 8, bits=4, group_size=8), nn.Fp8Linear(8, 4))
    x = weft.randn(2, 16)
    weft.io.save_model(str(tmp_path / "model"), model)
    loaded = weft.io.load_model(str(tmp_path / "model"))
    assert loaded(x).tolist() == model(x).tolist()
    assert repr(loaded) == repr(model)


def test_fp8_layers_train():
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    assert nn.convert_to_fp8(model) == ["0", "2"]
    x = weft.randn(64, 16)
    y = x[:, :1] * 2
    optimizer = weft.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < 0.2 * losses[0]
    assert model[0].weight.dtype == weft.float32


def test_converted_layers_are_saved_and_built_again(tmp_path):
    model = nn.Sequential(nn.Linear(16, 8, bias=False), nn.Linear(8, 4))
    nn.quantize(model, "0", symmetric=False)
    nn.convert_to_fp8(model, "1")
    assert repr(model[0]).startswith("QuantizedLinear")
    weft.io.save_model(str(tmp_path / "model"), model)
    loaded = weft.io.load_model(str(tmp_path / "model"))
    x = weft.randn(2, 16)
    assert loaded(x).tolist() == model(x).tolist()


def test_layers_are_not_pickled():
    model = nn.Sequential(nn.Linear(16, 8))
    nn.quantize(model)
    with pytest.raises(TypeError):
        copy.deepcopy(model)
