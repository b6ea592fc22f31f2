"""Complex numbers and integers in layers, losses and joins; the values are NumPy's."""

import math

import numpy as np
import pytest

import weft
from weft.nn import functional as F

RNG = np.random.default_rng(4)


def draw(*shape):
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


def leaf(values):
    return weft.tensor(values).requires_grad_()


JOINS = {"cat": lambda x, y: weft.cat([x, y]), "cat1": lambda x, y: weft.cat([y, x]), "stack": lambda x, y: weft.stack([x, y]),
         "hstack": lambda x, y: weft.hstack([x, y]), "vstack": lambda x, y: weft.vstack([x, y]),
         "dstack": lambda x, y: weft.dstack([x, y]), "column_stack": lambda x, y: weft.column_stack([x, y]),
         "block_diag": lambda x, y: weft.block_diag(x, y), "where": lambda x, y: weft.where(weft.tensor([True, True, False]), x, y),
         "kron": lambda x, y: weft.kron(x[:1] * 0 + 1, y) + 0 * x, "add": lambda x, y: x + y}


@pytest.mark.parametrize("real", [weft.float32, weft.float64])
@pytest.mark.parametrize("name", JOINS)
def test_real_numbers_joined_with_complex_ones_have_gradients(name, real):
    x = weft.tensor([1.0, 2.0, 3.0], dtype=real).requires_grad_()
    y = leaf(draw(3))
    gx, gy = weft.autograd.grad((JOINS[name](x, y) * (2 + 3j)).real.sum(), [x, y])
    assert gx.dtype is real and gy.dtype is weft.complex128
    assert set(gx.tolist()) <= {0.0, 2.0} and gx.any().item() == (name != "kron")
    assert set(gy.tolist()) <= {0j, 2 - 3j}


def test_deviations_of_equal_complex_numbers():
    x = leaf(np.full(3, 1 + 2j))
    for function in (weft.std, lambda t: weft.std_mean(t)[0], lambda t: t.std(0, correction=0)):
        y = function(x)
        assert y.item() == 0 and not weft.autograd.grad(y, x)[0].any().item()
    z = leaf(draw(2, 4))
    g, = weft.autograd.grad(z.std(1).sum(), z)
    a = z.detach().numpy()
    centred = a - a.mean(1, keepdims=True)
    np.testing.assert_allclose(g.numpy(), centred / (3 * a.std(1, ddof=1, keepdims=True)), rtol=1e-12)


def test_covariances_of_complex_numbers_are_numpys():
    a = draw(3, 5)
    x = weft.tensor(a)
    np.testing.assert_allclose(weft.cov(x).numpy(), np.cov(a), rtol=1e-12)
    np.testing.assert_allclose(weft.cov(x, correction=0, fweights=weft.tensor([1, 2, 1, 3, 1])).numpy(),
                               np.cov(a, ddof=0, fweights=[1, 2, 1, 3, 1]), rtol=1e-12)
    np.testing.assert_allclose(weft.cov(x[0]).numpy(), np.cov(a[0]), rtol=1e-12)
    np.testing.assert_allclose(weft.corrcoef(x).numpy(), np.corrcoef(a), rtol=1e-12)


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "nansum", "cumsum", "cumprod"])
@pytest.mark.parametrize("dtype", [weft.int64, weft.int32, weft.bool, weft.float32])
def test_a_dtype_without_imaginary_parts_is_refused(name, dtype):
    along = (0,) if name.startswith("cum") else ()
    with pytest.raises(TypeError):
        getattr(weft, name)(weft.tensor([1 + 2j, 3]), *along, dtype=dtype)


@pytest.mark.parametrize("values", [[1.0, 2.0, 3.0], [1, 2, 3], [True, True, True]])
def test_a_complex_dtype_of_real_numbers(values):
    x, a = weft.tensor(values), np.asarray(values)
    for name in ("sum", "prod", "mean", "nansum"):
        got = getattr(weft, name)(x, dtype=weft.complex128)
        assert got.dtype is weft.complex128
        np.testing.assert_allclose(got.numpy(), getattr(np, name)(a, dtype=complex))
    for name in ("cumsum", "cumprod"):
        got = getattr(weft, name)(x, 0, dtype=weft.complex64)
        assert got.dtype is weft.complex64
        np.testing.assert_allclose(got.numpy(), getattr(np, name)(a.astype(complex)))


def test_products_with_zeros_have_gradients():
    for values in ([1 + 1j, 0, 2j], [0, 0, 2j], [1j, 2, 3 + 1j]):
        x = leaf(np.asarray(values, complex))
        g, = weft.autograd.grad(x.prod().real, x)
        others = [np.prod(np.delete(values, i)) for i in range(3)]
        np.testing.assert_allclose(g.numpy(), np.conj(others), rtol=1e-12, atol=1e-15)


def test_losses_of_complex_numbers_measure_lengths():
    a, b = draw(2, 3), draw(2, 3)
    x, y = leaf(a), weft.tensor(b)
    lengths = np.abs(a - b)
    assert F.l1_loss(x, y).item() == pytest.approx(lengths.mean())
    assert F.mse_loss(x, y).item() == pytest.approx((lengths**2).mean())
    assert not F.mse_loss(x, y).is_complex() and F.mse_loss(x, y, reduction="none").shape == (2, 3)
    g, = weft.autograd.grad(F.mse_loss(x, y, reduction="sum"), x)
    np.testing.assert_allclose(g.numpy(), 2 * (a - b), rtol=1e-12)
    g, = weft.autograd.grad(F.l1_loss(x, y, reduction="sum"), x)
    np.testing.assert_allclose(g.numpy(), (a - b) / lengths, rtol=1e-12)
    same = leaf(b)
    assert not weft.autograd.grad(F.l1_loss(same, y), same)[0].any().item()


def test_normalize_of_complex_numbers():
    a = draw(2, 3)
    np.testing.assert_allclose(F.normalize(weft.tensor(a)).numpy(), a / np.linalg.norm(a, axis=1, keepdims=True), rtol=1e-12)
    zero = leaf(np.zeros((1, 3), complex))
    assert weft.autograd.grad(F.normalize(zero).real.sum(), zero)[0].isfinite().all().item()


CONVOLUTIONS = {
    "conv1d": ((2, 4, 7), (6, 2, 3), {"groups": 2, "padding": 1, "stride": 2}),
    "conv2d": ((1, 2, 5, 6), (3, 2, 2, 3), {"padding": (1, 0), "dilation": (1, 2)}),
    "conv3d": ((2, 3, 4, 3), (2, 2, 2, 1, 2), {}),
    "conv_transpose1d": ((2, 4, 5), (4, 3, 3), {"groups": 2, "stride": 2, "output_padding": 1}),
    "conv_transpose2d": ((1, 2, 3, 4), (2, 3, 2, 2), {"padding": 1}),
    "conv_transpose3d": ((2, 2, 3, 2), (2, 2, 1, 2, 2), {}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_of_complex_numbers(name):
    shape, weight, options = CONVOLUTIONS[name]
    function, a, w = getattr(F, name), draw(*shape), draw(*weight)
    b = draw(w.shape[1] * options.get("groups", 1) if "transpose" in name else w.shape[0])

    def part(x, y):
        return function(weft.tensor(np.ascontiguousarray(x)), weft.tensor(np.ascontiguousarray(y)), **options).numpy()

    wanted = part(a.real, w.real) - part(a.imag, w.imag) + 1j * (part(a.real, w.imag) + part(a.imag, w.real))
    wanted = wanted + b.reshape(-1, *[1] * (w.ndim - 2))
    x, y, z = leaf(a), leaf(w), leaf(b)
    got = function(x, y, z, **options)
    assert got.dtype is weft.complex128
    np.testing.assert_allclose(got.detach().numpy(), wanted, rtol=1e-10)
    assert weft.autograd.gradcheck(lambda *t: function(*t, **options), (x, y, z))


@pytest.mark.parametrize("dtype", [weft.int64, weft.int32, weft.int16, weft.int8, weft.uint8])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_of_integers_are_exact(name, dtype):
    shape, weight, options = CONVOLUTIONS[name]
    function = getattr(F, name)
    a, w = RNG.integers(0, 4, shape), RNG.integers(0, 3, weight)
    got = function(weft.tensor(a).to(dtype), weft.tensor(w).to(dtype), **options)
    assert got.dtype is dtype
    wanted = function(weft.tensor(a.astype(float)), weft.tensor(w.astype(float)), **options)
    assert weft.equal(got, wanted.to(weft.int64).to(dtype))
    if dtype is weft.int64:
        large = function(weft.tensor(a) + 2**53, weft.tensor(w), **options)
        assert weft.equal(large - got, function(weft.full(shape, 2**53), weft.tensor(w), **options))
    with pytest.raises(TypeError):
        function(weft.tensor(a).to(weft.bool), weft.tensor(w).to(weft.bool), **options)


def test_means_of_integers_have_no_fractions():
    x = weft.tensor([[[1, 2, 4, 8]]])
    assert F.avg_pool1d(x, 2).tolist() == [[[1, 6]]] and F.avg_pool1d(-x, 2).tolist() == [[[-1, -6]]]
    y = weft.arange(1, 10).reshape(1, 1, 3, 3)
    assert F.avg_pool2d(y, 2).tolist() == [[[[3]]]]
    assert F.avg_pool2d(y, 2, padding=1, count_include_pad=False).tolist() == [[[[1, 2], [5, 7]]]]
    assert F.avg_pool2d(y, 2, divisor_override=3).tolist() == [[[[4]]]]
    with pytest.raises(TypeError):
        F.avg_pool2d(y.to(weft.int32), 2)


# ---- calls that PyTorch takes -----------------------------------------------------------------------------------------

def test_numbers_beside_lists_of_indices():
    x, one, two = weft.tensor(5.0, requires_grad=True), weft.tensor([0]), weft.tensor([0, 0])
    assert weft.gather(x, 0, one).tolist() == [5] and weft.gather(x, -1, two).tolist() == [5, 5]
    assert weft.gather(weft.tensor([5.0, 6.0]), 0, weft.tensor(1)).item() == 6
    assert weft.autograd.grad(weft.gather(x, 0, two).sum(), x)[0].item() == 2
    plain = x.detach()
    assert weft.scatter(plain, 0, one, weft.tensor([1.0])).item() == 1
    assert weft.scatter(plain, 0, one, 3.0).item() == 3
    assert plain.scatter_add(0, two, weft.tensor([1.0, 2.0])).item() == 8
    assert weft.scatter_reduce(plain, 0, one, weft.tensor([1.0]), "sum").item() == 6
    assert weft.scatter(weft.tensor([5.0, 2.0]), 0, weft.tensor(1), weft.tensor(1.0)).tolist() == [5, 1]
    assert plain.clone().scatter_(0, one, weft.tensor([1.0])).item() == 1
    with pytest.raises(IndexError):
        weft.gather(plain, 0, weft.tensor([1]))


def test_gradient_without_a_spacing():
    assert weft.gradient(weft.tensor([1.0, 2.0, 4.0]), spacing=None)[0].tolist() == [1, 1.5, 2]


def test_spectra_as_pairs_of_real_numbers():
    x = weft.arange(8, dtype=weft.float64)
    pairs, spectrum = weft.stft(x, 4, return_complex=False), weft.stft(x, 4, return_complex=True)
    assert weft.equal(pairs, weft.view_as_real(spectrum))


def test_batch_norm_of_nothing():
    x = weft.zeros(0, requires_grad=True)
    y = F.batch_norm(x, None, None, training=True)
    assert y.shape == (0,) and weft.autograd.grad(y.sum(), x)[0].shape == (0,)
    assert F.batch_norm(weft.zeros(0), weft.zeros(0), weft.ones(0)).shape == (0,)
    with pytest.raises(ValueError):
        F.batch_norm(weft.zeros(4), weft.zeros(4), weft.ones(4))


@pytest.mark.parametrize("dtype", [weft.float16, weft.bfloat16])
def test_rms_norm_without_epsilon_uses_float32s(dtype):
    x = weft.tensor([[0.01, 0.02]], dtype=dtype)
    a = x.to(weft.float64).numpy()
    wanted = a / np.sqrt((a**2).mean() + 2.0**-23)
    for y in (F.rms_norm(x, (2,)), weft.nn.RMSNorm(2).to(dtype)(x), F.rms_norm(x, (2,), weft.ones(2, dtype=dtype))):
        np.testing.assert_allclose(y.detach().to(weft.float64).numpy(), wanted, rtol=0.01)


def test_a_two_sided_spectrum_is_read_whole():
    a = draw(4, 3)
    frames, signal, count = np.fft.ifft(a, axis=0).T, np.zeros(8, complex), np.zeros(8)
    for t in range(3):
        signal[2 * t:2 * t + 4] += frames[t]
        count[2 * t:2 * t + 4] += 1
    wanted = (signal / count)[2:6]
    keywords = {"hop_length": 2, "window": weft.ones(4, dtype=weft.float64)}
    np.testing.assert_allclose(weft.istft(weft.tensor(a), 4, onesided=False, return_complex=True, **keywords).numpy(), wanted)
    np.testing.assert_allclose(weft.istft(weft.tensor(a), 4, onesided=False, **keywords).numpy(), wanted.real)


def test_bernoulli_in_place_takes_a_tensor_of_probabilities():
    assert weft.empty(2, 3).bernoulli_(weft.tensor([0.0, 1.0, 0.0])).tolist() == [[0, 1, 0]] * 2


def test_diagonals_of_matrices_are_those_of_the_last_two_dimensions():
    x = weft.arange(24).reshape(2, 3, 4)
    assert weft.linalg.diagonal(x).tolist() == [[0, 5, 10], [12, 17, 22]]
    assert weft.linalg.diagonal(x, offset=1, dim1=0, dim2=1).tolist() == weft.diagonal(x, 1, 0, 1).tolist()
    assert math.prod(weft.linalg.diagonal(x).shape) == 6
