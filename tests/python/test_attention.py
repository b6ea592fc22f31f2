"""Attention with heads inside, over packed sequences and over caches, against NumPy."""

import numpy
import pytest

import weft


def reference(q, k, v, causal=False, slopes=None, window=(-1, -1), mask=None):
    """Loops over heads in double; q [queries, heads, width]."""
    out = numpy.zeros(q.shape[:2] + v.shape[2:])
    shift = k.shape[0] - q.shape[0]
    for head in range(q.shape[1]):
        group = head // (q.shape[1] // k.shape[1])
        scores = q[:, head] @ k[:, group].T / q.shape[2] ** 0.5
        distance = numpy.arange(k.shape[0])[None] - numpy.arange(q.shape[0])[:, None] - shift
        if slopes is not None:
            scores = scores + slopes[head] * distance
        if mask is not None:
            scores = numpy.where(mask, scores, -numpy.inf)
        if causal:
            scores = numpy.where(distance <= 0, scores, -numpy.inf)
        for side, size in ((-distance, window[0]), (distance, window[1])):
            if size >= 0:
                scores = numpy.where(side <= size, scores, -numpy.inf)
        top = scores.max(axis=1, keepdims=True, initial=-1e300)
        weights = numpy.exp(scores - top)
        total = weights.sum(axis=1, keepdims=True)
        out[:, head] = numpy.where(total > 0, weights / numpy.where(total > 0, total, 1), 0) @ v[:, group]
    return out


def made(*shape):
    return weft.randn(*shape, dtype=weft.float64)


@pytest.mark.parametrize("backend", ["auto", "math", "fused"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [None, (2, 1)])
def test_attention_is_that_of_loops(backend, causal, window):
    q, k, v = made(2, 5, 4, 8), made(2, 7, 2, 8), made(2, 7, 2, 3)
    slopes, mask = weft.alibi_slopes(4), weft.rand(5, 7) < 0.7
    out = weft.attention(q, k, v, mask, causal, alibi_slopes=weft.tensor(slopes), window=window, backend=backend)
    for batch in range(2):
        expected = reference(q[batch].numpy(), k[batch].numpy(), v[batch].numpy(), causal, slopes, window or (-1, -1),
                             mask.numpy())
        numpy.testing.assert_allclose(out[batch].numpy(), expected, rtol=1e-10, atol=1e-12)


def test_names_of_other_libraries_and_weights():
    q = made(1, 3, 2, 4)
    out, weights = weft.attention(q, q, q, is_causal=True, softmax_scale=0.3, return_weights=True)
    assert weights.shape == (1, 2, 3, 3)
    numpy.testing.assert_allclose(weights.sum(-1).numpy(), numpy.ones((1, 2, 3)))
    same = weft.nn.functional.attention(q, q, q, causal=True, scale=0.3, window_size=(-1, -1))
    numpy.testing.assert_allclose(out.numpy(), same.numpy(), rtol=1e-12)


def test_backends_say_why_not():
    q = made(1, 3, 2, 4)
    states = dict(weft.attention_backends(q, q, q, dropout=0.1, return_weights=True))
    assert states["math"] == [] and len(states["fused"]) == 2
    assert dict(weft.attention_backends(q, q, q))["fused"] == []
    with pytest.raises(ValueError, match="dropout"):
        weft.attention(q, q, q, dropout=0.1, backend="fused")
    with pytest.raises(ValueError, match="'flash'"):
        weft.attention(q, q, q, backend="flash")
    with pytest.raises(ValueError, match="window"):
        weft.attention(q, q, q, window=(1, 2, 3))


def test_packed_sequences():
    q, k, v = made(6, 4, 8), made(9, 2, 8), made(9, 2, 8)
    out = weft.attention_varlen(q, k, v, weft.tensor([0, 2, 6]), weft.tensor([0, 5, 9]), causal=True)
    for (a, b), (c, d) in (((0, 2), (0, 5)), ((2, 6), (5, 9))):
        expected = reference(q[a:b].numpy(), k[c:d].numpy(), v[c:d].numpy(), causal=True)
        numpy.testing.assert_allclose(out[a:b].numpy(), expected, rtol=1e-10, atol=1e-12)
    with pytest.raises(ValueError, match="cu_seqlens_k"):
        weft.attention_varlen(q, k, v, weft.tensor([0, 6]), weft.tensor([0, 8]))


def test_caches_give_the_rows_of_one_call():
    q, k, v = made(1, 6, 4, 8), made(1, 6, 2, 8), made(1, 6, 2, 8)
    slopes = weft.tensor(weft.alibi_slopes(4))
    whole = weft.attention(q, k, v, causal=True, alibi_slopes=slopes).numpy()
    cache = weft.KvCache(1, 6, heads=2, depth=8, dtype=weft.float64)
    pages = weft.PagedKvCache(4, 2, heads=2, depth=8, dtype=weft.float64)
    sequence = pages.add_sequence()
    for begin, end in ((0, 3), (3, 4), (4, 6)):
        cache.append(k[:, begin:end], v[:, begin:end])
        pages.append([sequence], k[0, begin:end], v[0, begin:end], [end - begin])
        out = cache.attention(q[:, begin:end], alibi_slopes=slopes)
        numpy.testing.assert_allclose(out.numpy(), whole[:, begin:end], rtol=1e-10, atol=1e-12)
        out = pages.attention(q[0, begin:end], [end - begin], [sequence], alibi_slopes=slopes)
        numpy.testing.assert_allclose(out.numpy(), whole[0, begin:end], rtol=1e-10, atol=1e-12)
    assert cache.lengths == [6] and pages.length(sequence) == 6 and pages.free_blocks == 1
    with pytest.raises(IndexError):
        cache.append(k[:, :1], v[:, :1])
    cache.truncate(0, 3)
    assert cache.lengths == [3]
    fork = pages.fork(sequence)
    assert pages.blocks(fork) == pages.blocks(sequence)
    pages.remove(sequence)
    with pytest.raises(IndexError):
        pages.length(sequence)
