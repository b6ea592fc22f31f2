"""Fourier transforms beside NumPy's, on random calls."""
import numpy
import pytest

import weft

ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
MANY = ["fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2"]
NORMS = ["backward", "ortho", "forward"]


def signal(random, name, shape, kind):
    real = name.startswith(("rfft", "ihfft")) or random.random() < 0.2
    x = random.normal(size=shape)
    if not real:
        x = x + 1j * random.normal(size=shape)
    return x.astype({"d": numpy.float64, "f": numpy.float32}[kind] if real else
                    {"d": numpy.complex128, "f": numpy.complex64}[kind])


def same(found, wanted, kind):
    found = found.numpy()
    assert found.shape == wanted.shape
    assert numpy.iscomplexobj(found) == numpy.iscomplexobj(wanted)
    scale = max(1.0, float(numpy.abs(wanted).max(initial=0)))
    assert numpy.abs(found - wanted).max(initial=0) <= scale * {"d": 1e-12, "f": 3e-5}[kind]


def turned(random, x):
    """The array or one with other strides, and the same tensor."""
    t = weft.from_numpy(x.copy())
    if x.ndim > 1 and random.random() < 0.5:
        return x.swapaxes(0, -1), t.transpose(0, -1)
    if random.random() < 0.3:
        return x[::-1], t.flip(0)
    return x, t


@pytest.mark.parametrize("kind", "df")
@pytest.mark.parametrize("name", ONE)
def test_one_dimension_has_numpys_values(name, kind):
    random = numpy.random.default_rng(1)
    for _ in range(150):
        shape = [int(n) for n in random.integers(1, 9, random.integers(1, 4))]
        shape[random.integers(0, len(shape))] = int(random.choice([2, 3, 5, 8, 12, 17, 30, 37, 64, 101, 210]))
        x, t = turned(random, signal(random, name, shape, kind))
        axis = int(random.integers(-x.ndim, x.ndim))
        if name in ("irfft", "hfft") and x.shape[axis] == 1:
            continue
        n = None if random.random() < 0.5 else int(random.integers(1, 40))
        norm = NORMS[random.integers(0, 3)]
        same(getattr(weft.fft, name)(t, n, axis, norm), getattr(numpy.fft, name)(x, n, axis, norm), kind)


@pytest.mark.parametrize("kind", "df")
@pytest.mark.parametrize("name", MANY)
def test_several_dimensions_have_numpys_values(name, kind):
    random = numpy.random.default_rng(2)
    for _ in range(80):
        shape = [int(n) for n in random.integers(2, 7, random.integers(2, 4))]
        x, t = turned(random, signal(random, name, shape, kind))
        axes = tuple(int(a) for a in random.permutation(x.ndim)[:random.integers(1, x.ndim + 1)])
        if name.endswith("2"):
            axes = tuple(int(a) for a in random.permutation(x.ndim)[:2])
        s = None if random.random() < 0.5 else tuple(int(n) for n in random.integers(2, 9, len(axes)))
        norm = NORMS[random.integers(0, 3)]
        same(getattr(weft.fft, name)(t, s, axes, norm), getattr(numpy.fft, name)(x, s, axes, norm), kind)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 16, 31, 37, 97, 100, 1000, 1024, 1009, 4096, 4099, 5000, 8192, 65536, 10007])
def test_every_kind_of_length(n):
    random = numpy.random.default_rng(n)
    x = random.normal(size=(3, n)) + 1j * random.normal(size=(3, n))
    for lines in (1, 3):
        t = weft.from_numpy(x[:lines].copy())
        same(weft.fft.fft(t), numpy.fft.fft(x[:lines]), "d")
        same(weft.fft.ifft(weft.fft.fft(t)), x[:lines], "d")
        same(weft.fft.rfft(t.real), numpy.fft.rfft(x[:lines].real), "d")
        same(weft.fft.irfft(weft.fft.rfft(t.real), n), x[:lines].real, "d")
        same(weft.fft.fft(t.transpose(0, 1), dim=0), numpy.fft.fft(x[:lines].T, axis=0), "d")


def test_frequencies_and_shifts_are_numpys():
    for n in range(1, 9):
        assert numpy.allclose(weft.fft.fftfreq(n, 0.5).numpy(), numpy.fft.fftfreq(n, 0.5))
        assert numpy.allclose(weft.fft.rfftfreq(n, 0.5).numpy(), numpy.fft.rfftfreq(n, 0.5))
        x = numpy.arange(n * 3.0).reshape(n, 3)
        for axes in (None, (0,), (1,), (0, 1)):
            assert (weft.fft.fftshift(weft.from_numpy(x), axes).numpy() == numpy.fft.fftshift(x, axes)).all()
            assert (weft.fft.ifftshift(weft.from_numpy(x), axes).numpy() == numpy.fft.ifftshift(x, axes)).all()


def test_invalid_arguments_raise():
    x = weft.ones(4)
    with pytest.raises(ValueError, match="norm"):
        weft.fft.fft(x, norm="orthogonal")
    with pytest.raises(ValueError):
        weft.fft.fft(x, n=0)
    with pytest.raises(IndexError):
        weft.fft.fft(x, dim=1)
    with pytest.raises(TypeError):
        weft.fft.rfft(x * 1j)
    with pytest.raises(ValueError):
        weft.fft.fftn(weft.ones(2, 2), dim=(0, -2))
    with pytest.raises(ValueError):
        weft.fft.irfft(weft.ones(1) * 1j)


def test_the_spectrum_of_windows_gives_the_signal_back():
    random = numpy.random.default_rng(3)
    for n_fft, hop, length in ((16, 4, 100), (8, 3, 50), (9, 2, 41), (32, 8, 33)):
        x = weft.from_numpy(random.normal(size=(2, length)))
        window = weft.hann_window(n_fft, dtype=weft.float64) + 0.1
        for normalized in (False, True):
            spectrum = weft.stft(x, n_fft, hop, window=window, normalized=normalized)
            assert spectrum.shape == (2, n_fft // 2 + 1, 1 + (length + 2 * (n_fft // 2) - n_fft) // hop)
            back = weft.istft(spectrum, n_fft, hop, window=window, normalized=normalized, length=length)
            reached = min(length, (spectrum.shape[-1] - 1) * hop + n_fft - n_fft // 2)
            assert numpy.allclose(back.numpy()[:, :reached], x.numpy()[:, :reached])


def test_windows_are_those_that_numpy_would_cut():
    random = numpy.random.default_rng(4)
    x = random.normal(size=30)
    window = random.uniform(0.5, 1, size=6)
    found = weft.stft(weft.from_numpy(x), 8, 3, 6, weft.from_numpy(window), center=False).numpy()
    padded = numpy.concatenate([[0], window, [0]])
    wanted = numpy.stack([numpy.fft.rfft(x[i:i + 8] * padded) for i in range(0, 23, 3)], 1)
    assert numpy.allclose(found, wanted)
    centred = weft.stft(weft.from_numpy(x), 8, 3, 6, weft.from_numpy(window)).numpy()
    around = numpy.pad(x, 4, mode="reflect")
    wanted = numpy.stack([numpy.fft.rfft(around[i:i + 8] * padded) for i in range(0, 31, 3)], 1)
    assert numpy.allclose(centred, wanted)
