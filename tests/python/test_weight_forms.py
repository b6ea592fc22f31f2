"""Combinations of quantized, 8-bit, parametrized and adapted weights from Python; the C++ tests have all of them."""

import itertools

import pytest

import weft
from weft import nn
from weft.nn import lora

MIXES = [mix for mix in itertools.product(["float", "int8", "int4", "fp8"], [False, True], ["none", "first", "last"])
         if not (mix[0].startswith("int") and mix[1])]


def adapt(model):
    lora.apply_lora(model, "^0$", r=2, alpha=3)


def convert(model, stored, parametrized):
    if parametrized:
        nn.utils.parametrizations.weight_norm(model[0])
    if stored == "fp8":
        nn.convert_to_fp8(model, "^0$")
    elif stored != "float":
        nn.quantize(model, "^0$", bits=8 if stored == "int8" else 4, group_size=4, symmetric=stored == "int8")


def made(mix, seed=1):
    stored, parametrized, adapter = mix
    weft.manual_seed(seed)
    model = nn.Sequential(nn.Linear(16, 8))
    if adapter == "first":
        adapt(model)
    convert(model, stored, parametrized)
    if adapter == "last":
        adapt(model)
    with weft.no_grad():
        for name, p in model.named_parameters():
            if "lora_B" in name:
                p.normal_(0, 0.3)
    return model


def close(a, b, mix):
    return float((a - b).norm() / b.norm()) < (0.06 if mix[0] == "fp8" else 1e-5)


@pytest.mark.parametrize("mix", MIXES)
def test_combinations_train_merge_save_and_load(mix, tmp_path):
    model = made(mix)
    x, target = weft.randn(5, 16), weft.randn(5, 8)
    trained = [p for p in model.parameters() if p.requires_grad]
    if mix[2] != "none":
        assert len(trained) == 2
    optimizer = weft.optim.Adam(trained, lr=0.05)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < losses[0]
    model.eval()
    before = model(x).detach()
    other = made(mix, seed=2)
    other.load_state_dict(model.state_dict())
    assert other(x).tolist() == before.tolist()
    weft.io.save_model(str(tmp_path / "model"), model)
    loaded = weft.io.load_model(str(tmp_path / "model"))
    assert loaded(x).tolist() == before.tolist()
    assert repr(loaded) == repr(model)
    if mix[2] == "none":
        return
    lora.save_adapter(tmp_path / "adapter", model)
    lora.merge_lora(model)
    assert close(model(x), before, mix)
    lora.unmerge_lora(model)
    assert model(x).tolist() == before.tolist()
    lora.merge_and_unload(model)
    assert close(model(x), before, mix)
    assert sorted(model.state_dict()) == ["0.bias", "0.weight"]
    assert type(model[0]).__name__ == ("Fp8Linear" if mix[0] == "fp8" else "Linear")
    assert not nn.utils.parametrize.is_parametrized(model[0])


def test_an_adapter_is_loaded_over_codes(tmp_path):
    model, other = made(("int4", False, "last")), made(("int4", False, "none"))
    lora.save_adapter(tmp_path / "adapter", model)
    lora.load_adapter(tmp_path / "adapter", other)
    x = weft.randn(3, 16)
    assert other(x).tolist() == model(x).tolist()


def test_what_has_no_meaning_is_refused():
    model = nn.Sequential(nn.Linear(16, 8))
    nn.utils.parametrizations.weight_norm(model[0])
    with pytest.raises(ValueError, match="is parametrized and cannot be quantized"):
        nn.quantize(model)
    merged = nn.Sequential(nn.Linear(16, 8))
    adapt(merged)
    lora.merge_lora(merged)
    with pytest.raises(ValueError, match="is merged with its adapter and cannot be quantized"):
        nn.quantize(merged)
