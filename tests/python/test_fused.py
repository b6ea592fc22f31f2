"""Fused layers, rotary embedding and mixtures of experts from Python, against NumPy in double."""

import numpy as np
import pytest

import weft


def draw(seed, *shape):
    return np.random.default_rng(seed).uniform(-1, 1, shape)


def tensor(a, dtype=None):
    return weft.tensor(a, dtype=dtype or weft.float64)


def silu(x):
    return x / (1 + np.exp(-x))


def rms_norm(x, w, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def rotate(x, cos, sin, interleaved=False):
    turned = np.empty_like(x)
    if interleaved:
        turned[..., 0::2], turned[..., 1::2] = -x[..., 1::2], x[..., 0::2]
    else:
        half = x.shape[-1] // 2
        turned[..., :half], turned[..., half:] = -x[..., half:], x[..., :half]
    return x * cos + turned * sin


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_embedding_is_that_of_numpy(interleaved):
    positions = np.array([[0, 3, 1], [9, 9, 2]])
    angles = positions[:, :, None] * 500.0 ** (-np.arange(0, 8, 2) / 8)
    angles = np.repeat(angles, 2, -1) if interleaved else np.concatenate([angles, angles], -1)
    rope = weft.rope_table(weft.tensor(positions), 8, 500.0, interleaved=interleaved, dtype=weft.float64)
    assert rope.shape == (2, 2, 3, 1, 8)
    assert np.allclose(rope.numpy()[:, :, :, 0], [np.cos(angles), np.sin(angles)], atol=1e-15)
    x = draw(1, 2, 3, 2, 8)
    got = weft.rotary_embedding(tensor(x), rope, interleaved=interleaved).numpy()
    assert np.allclose(got, rotate(x, np.cos(angles)[:, :, None], np.sin(angles)[:, :, None], interleaved), atol=1e-14)


def test_frequencies_of_llama_3_and_of_yarn():
    dim, theta, old = 64, 500000.0, 8192
    plain = theta ** (-np.arange(0, dim, 2) / dim)
    wavelength = 2 * np.pi / plain
    kept = np.clip((old / wavelength - 1) / (4 - 1), 0, 1)
    llama = weft.rope_frequencies(dim, theta, "llama3", 8.0, original_length=old)
    assert np.allclose(llama.numpy(), (1 - kept) * plain / 8 + kept * plain, rtol=1e-13, atol=0)

    def pair(turns):
        return dim * np.log(old / (turns * 2 * np.pi)) / (2 * np.log(theta))

    low, high = max(np.floor(pair(32)), 0), min(np.ceil(pair(1)), dim - 1)
    ramp = np.clip((np.arange(dim // 2) - low) / (high - low), 0, 1)
    yarn = weft.rope_frequencies(dim, theta, "yarn", 4.0, original_length=old)
    assert np.allclose(yarn.numpy(), plain / 4 * ramp + plain * (1 - ramp), rtol=1e-13, atol=0)
    with pytest.raises(ValueError, match="scaling"):
        weft.rope_frequencies(dim, theta, "longer")


def test_the_mlp_family_is_that_of_numpy():
    x, w, r = draw(1, 3, 5), draw(2, 5), draw(3, 3, 5)
    gate, up, down = draw(4, 5, 7), draw(5, 5, 7), draw(6, 7, 5)
    proj = np.concatenate([gate, up], 1)

    def mlp(v):
        return (silu(v @ gate) * (v @ up)) @ down

    assert np.allclose(weft.fused_mlp(tensor(x), tensor(gate), tensor(up), tensor(down)).numpy(), mlp(x))
    assert np.allclose(weft.fused_mlp(tensor(x), tensor(proj), None, tensor(down)).numpy(), mlp(x))
    turned = weft.fused_mlp(tensor(x), tensor(proj.T), None, tensor(down.T), transposed_weights=True)
    assert np.allclose(turned.numpy(), mlp(x))
    got = weft.fused_rms_mlp(tensor(x), tensor(w), tensor(proj), tensor(down), 1e-3)
    assert np.allclose(got.numpy(), mlp(rms_norm(x, w, 1e-3)))
    out = weft.fused_rms_mlp_res(tensor(x), tensor(w), tensor(proj), tensor(down), tensor(r), 1e-3)
    assert np.allclose(out[1].numpy(), x + r)
    assert np.allclose(out.output.numpy(), mlp(rms_norm(x + r, w, 1e-3)))
    normed, total = weft.fused_rms_norm_residual(tensor(x), tensor(r), None, tensor(w), 1e-3)
    assert np.allclose(normed.numpy(), rms_norm(x + r, w, 1e-3)) and np.allclose(total.numpy(), x + r)


def test_inputs_of_attention_equal_numpy():
    src, w, weight = draw(1, 2, 3, 6), draw(2, 6), draw(3, 16, 6)
    rope = weft.rope_table(weft.tensor([[0, 1, 2], [5, 6, 7]]), 4, dtype=weft.float64)
    heads = (rms_norm(src, w, 1e-3) @ weight.T).reshape(2, 3, 4, 4)
    cos, sin = rope.numpy()
    q, k, v = rotate(heads[:, :, :2], cos, sin), rotate(heads[:, :, 2:3], cos, sin), heads[:, :, 3:]
    arguments = tensor(src), tensor(w), tensor(weight), rope, 1e-3, 4, 2
    for got, expected in zip(weft.fused_rms_qkv_rope(*arguments), (q, k, v)):
        assert np.allclose(got.numpy(), expected)
    for got, expected in zip(weft.fused_rms_qkv_rope_transposed(*arguments), (q, k, v)):
        assert np.allclose(got.numpy(), expected.transpose(0, 2, 1, 3))
    got_q, kv = weft.fused_rms_qkv_rope_stacked(*arguments)
    assert np.allclose(got_q.numpy(), q) and np.allclose(kv.numpy(), [k, v])


def test_linear_takes_an_activation():
    x, w, b = draw(1, 3, 5), draw(2, 4, 5), draw(3, 4)
    y = x @ w.T + b
    assert np.allclose(weft.linear(tensor(x), tensor(w), tensor(b), activation="relu").numpy(), np.maximum(y, 0))
    assert np.allclose(weft.linear(tensor(x), tensor(w), tensor(b), activation="silu").numpy(), silu(y))
    with pytest.raises(ValueError, match="activation"):
        weft.linear(tensor(x), tensor(w), activation="softplus")


def test_mixtures_of_experts_are_those_of_loops():
    h, logits = draw(1, 6, 4), draw(2, 6, 3)
    gate_up, down = [draw(10 + e, 4, 10) for e in range(3)], [draw(20 + e, 5, 4) for e in range(3)]
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    ids = np.argsort(-p, kind="stable")[:, :2]
    expected, largest = np.zeros((6, 4)), np.zeros(3)
    for t in range(6):
        chosen = p[t, ids[t]] / p[t, ids[t]].sum()
        for e, factor in zip(ids[t], chosen):
            between = silu(h[t] @ gate_up[e][:, :5]) * (h[t] @ gate_up[e][:, 5:])
            largest[e] = max(largest[e], abs(between).max())
            expected[t] += factor * (between @ down[e])
    experts = [tensor(g) for g in gate_up], [tensor(d) for d in down]
    weights, routing = weft.moe_topk_gate(tensor(logits), 2, True)
    assert np.array_equal(routing.numpy(), ids)
    out = weft.mixture_of_experts(tensor(h), routing, weights, *experts, measure_amax=True)
    assert np.allclose(out.output.numpy(), expected) and np.allclose(out.amax.numpy(), largest)
    assert np.allclose(weft.fused_gate_moe(tensor(h), tensor(logits), *experts, 2, True).output.numpy(), expected)
    with pytest.raises(NotImplementedError):
        weft.mixture_of_experts(tensor(h), routing, weights, *experts, quantisation="block")
    with pytest.raises(ValueError, match="quantisation"):
        weft.mixture_of_experts(tensor(h), routing, weights, *experts, quantisation="half")


def test_gradients_come_back_to_python():
    x = tensor(draw(1, 3, 4)).requires_grad_()
    w = tensor(draw(2, 4, 4)).requires_grad_()
    weft.fused_mlp(x, w, w, w).sum().backward()
    assert x.grad.shape == (3, 4) and w.grad.shape == (4, 4)


def layers_and_cache(width=8, heads=2, size=4, hidden=6, layers=2):
    def layer(seed):
        return weft.MultiTransformerLayer(
            ln_weight=tensor(draw(seed, width)), qkv_weight=tensor(draw(seed + 1, 3 * heads * size, width)),
            out_weight=tensor(draw(seed + 2, heads * size, width)), mlp_ln_weight=tensor(draw(seed + 3, width)),
            proj=tensor(draw(seed + 4, width, 2 * hidden)), down=tensor(draw(seed + 5, hidden, width)))
    cache = weft.LayeredKvCache(layers, 2, 8, heads=heads, depth=size, dtype=weft.float64)
    return [layer(10 * i) for i in range(layers)], cache, dict(num_heads=heads, head_dim=size)


def test_layers_over_a_cache_read_a_prompt_as_its_tokens():
    layers, cache, options = layers_and_cache()
    x = tensor(draw(5, 2, 3, 8))
    whole = weft.fused_multi_transformer(x, layers, cache, **options)
    assert cache.lengths == [3, 3] and len(cache) == 2 and cache.layer(1).lengths == [3, 3]
    cache.truncate([0, 0])
    steps = [weft.fused_multi_transformer(x[:, i:i + 1], layers, cache, **options) for i in range(3)]
    np.testing.assert_allclose(weft.cat(steps, 1).numpy(), whole.numpy(), atol=1e-12)
    with pytest.raises(IndexError, match="no room"):
        weft.fused_multi_transformer(tensor(draw(5, 2, 6, 8)), layers, cache, **options)
    assert cache.lengths == [3, 3]


def test_layers_over_a_cache_take_a_sum_over_ranks_scaled_rope_and_inactive_rows():
    layers, cache, options = layers_and_cache()
    x, seen = tensor(draw(5, 2, 3, 8)), []

    def doubled(part):
        seen.append(part.shape)
        return part * 2

    y = weft.fused_multi_transformer(x, layers, cache, counts=[2, 0], all_reduce=doubled, scaling="linear", factor=2.0,
                                     window=(1, 0), **options)
    assert seen == [(2, 8), (2, 8)] and cache.lengths == [2, 0] and (y[1] == 0).all()
    with pytest.raises(RuntimeError, match="rank is gone"):
        def failing(part):
            raise RuntimeError("rank is gone")
        weft.fused_multi_transformer(x, layers, cache, all_reduce=failing, **options)
    assert cache.lengths == [2, 0]
    with pytest.raises(ValueError, match="scaling: expected none"):
        weft.fused_multi_transformer(x, layers, cache, scaling="ntk", **options)


def test_an_mlp_of_8_bits_is_close_to_that_of_its_numbers():
    x, gate, up, down = draw(1, 3, 40), draw(2, 40, 50), draw(3, 40, 50), draw(4, 50, 20)
    codes = [weft.tensor(w * 448).to(weft.float8_e4m3fn) for w in (gate, up, down)]
    scale = weft.tensor(1 / 448, dtype=weft.float32)
    y = weft.fused_fp8_mlp(tensor(x, weft.float32), codes[0], scale, codes[2], scale, codes[1], scale).numpy()
    expected = (silu(x @ gate) * (x @ up)) @ down
    assert (y * expected).sum() / np.sqrt((y * y).sum() * (expected * expected).sum()) > 0.99
