"""Memory shared with NumPy, DLPack and buffers, both ways."""

import gc
import hashlib
import importlib.util
import sys

import numpy as np
import pytest

import weft

dtypes = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32",
          "float64"]
shapes = [(), (0,), (3,), (2, 3), (2, 0, 3), (1, 2, 1)]
EIGHT_BITS = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")


@pytest.mark.parametrize("dtype", dtypes)
@pytest.mark.parametrize("shape", shapes)
def test_numpy_both_ways_without_a_copy(dtype, shape):
    a = np.ones(shape, dtype)
    x = weft.from_numpy(a)
    assert x.dtype is getattr(weft, dtype) and x.shape == shape
    b = x.numpy()
    assert b.dtype == a.dtype and b.shape == shape and b.tolist() == a.tolist()
    if a.size:
        assert x.data_ptr() == a.ctypes.data == b.ctypes.data
        a[...] = 0
        assert not bool(x.to(weft.float64).any()) and b.sum() == 0
        x.copy_(weft.ones(shape))
        assert a.all()


@pytest.mark.parametrize("dtype", dtypes)
@pytest.mark.parametrize("shape", shapes)
def test_dlpack_both_ways_without_a_copy(dtype, shape):
    a = np.ones(shape, dtype)
    x = weft.from_dlpack(a)
    b = np.from_dlpack(x)
    assert x.dtype is getattr(weft, dtype) and b.dtype == a.dtype and x.shape == b.shape == shape
    if a.size:
        assert x.data_ptr() == a.ctypes.data == b.ctypes.data


def test_strides_are_kept():
    a = np.arange(24.0).reshape(4, 6)
    for view in (a[::2, 1:], a.T, a[::-1], a[:, ::-3]):
        x = weft.from_numpy(view)
        assert x.stride() == tuple(s // 8 for s in view.strides) and x.data_ptr() == view.ctypes.data
        np.testing.assert_array_equal(x.numpy(), view)
        assert x.numpy().strides == view.strides
        np.testing.assert_array_equal(np.from_dlpack(x), view)
        np.testing.assert_array_equal(weft.from_dlpack(view).numpy(), view)
    e = weft.ones(1, 3).expand(4, 3)
    assert e.numpy().strides == (0, 4) and np.from_dlpack(e).strides == (0, 4)
    assert weft.ones(1).expand(5).numpy().sum() == 5


def test_read_only_memory_is_copied_or_refused():
    a = np.arange(3.0)
    a.flags.writeable = False
    for view in (a, a[::2], a[::-1], a[:0], a[1:2].reshape(()), np.broadcast_to(np.float32(2), (2, 3))):
        copy = weft.from_numpy(view)
        assert copy.shape == view.shape and copy.numpy().tolist() == view.tolist()
        copy.fill_(7)
        assert a.tolist() == [0, 1, 2]
    assert weft.frombuffer(bytes(8), dtype=weft.int32).tolist() == [0, 0]
    assert weft.frombuffer(b"abcd", dtype=weft.uint8, count=2, offset=1).tolist() == [98, 99]
    with pytest.raises(TypeError):
        weft.from_numpy(np.float32(3))
    with pytest.raises(ValueError, match="read-only"):
        weft.asarray(a, copy=False)
    x = weft.asarray(a)
    x.fill_(7)
    assert a.tolist() == [0, 1, 2]
    assert weft.asarray(b"ab").tolist() == [97, 98]
    if hasattr(np, "from_dlpack") and np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        weft.from_dlpack(a).fill_(9)
        assert a.tolist() == [0, 1, 2]
        with pytest.raises(BufferError):
            weft.from_dlpack(a, copy=False)


def test_asarray_shares_where_it_can():
    a = np.arange(3.0)
    assert weft.asarray(a).data_ptr() == a.ctypes.data
    assert weft.asarray(a, copy=True).data_ptr() != a.ctypes.data
    assert weft.asarray(a, dtype=weft.int8).tolist() == [0, 1, 2]
    with pytest.raises(ValueError):
        weft.asarray(a, dtype=weft.int8, copy=False)
    with pytest.raises(ValueError):
        weft.asarray([1, 2], copy=False)
    x = weft.ones(2)
    assert weft.asarray(x) is x and weft.asarray(x, copy=True).data_ptr() != x.data_ptr()
    assert weft.asarray(bytearray(4)).dtype is weft.uint8 and weft.asarray(memoryview(bytearray(4))).shape == (4,)


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([object()]), np.zeros(2, "datetime64[s]"),
                                   np.zeros(2, [("a", "f4")]), np.arange(3, dtype=">f4")], ids=str)
def test_arrays_of_other_dtypes_are_type_errors(array):
    for call in (weft.from_numpy, weft.asarray, weft.tensor):
        with pytest.raises(TypeError):
            call(array)


def test_unaligned_arrays_are_copied_or_refused():
    raw = np.zeros(17, np.uint8)
    a = raw[1:17].view(np.float64) if False else np.ndarray((2,), np.float64, raw.data, 1)
    a[:] = [1, 2]
    assert weft.asarray(a).tolist() == [1, 2]
    with pytest.raises(ValueError):
        weft.from_numpy(a)
    record = np.zeros(3, [("a", "i1"), ("b", "f4")])
    assert weft.asarray(record["b"]).tolist() == [0, 0, 0]


def test_unsharable_tensors_raise():
    with pytest.raises(ValueError, match="detach"):
        weft.ones(2, requires_grad=True).numpy()
    assert weft.ones(2, requires_grad=True).numpy(force=True).tolist() == [1, 1]
    with pytest.raises(BufferError):
        weft.ones(2, requires_grad=True).__dlpack__()
    if importlib.util.find_spec("ml_dtypes") is None:
        with pytest.raises(TypeError, match="bfloat16 without the package ml_dtypes"):
            weft.ones(2, dtype=weft.bfloat16).numpy()
    with pytest.raises(BufferError):
        memoryview(weft.ones(2, dtype=weft.bfloat16))
    with pytest.raises(ValueError):
        np.asarray(weft.ones(2, requires_grad=True))
    for bad in (1, "a", [1], None, object(), weft):
        with pytest.raises(TypeError):
            weft.from_numpy(bad)
        with pytest.raises(TypeError):
            weft.from_dlpack(bad)


def test_capsules_are_consumed_once():
    x = weft.arange(4.0)
    capsule = x.__dlpack__()
    y = weft.from_dlpack(capsule)
    assert y.data_ptr() == x.data_ptr()
    with pytest.raises(ValueError, match="used_dltensor"):
        weft.from_dlpack(capsule)
    capsule = x.__dlpack__(max_version=(1, 0))
    assert "dltensor_versioned" in repr(capsule)
    assert weft.from_dlpack(capsule).tolist() == [0, 1, 2, 3]
    import datetime
    with pytest.raises(ValueError):
        weft.from_dlpack(datetime.datetime_CAPI if hasattr(datetime, "datetime_CAPI") else capsule)
    for keywords in ({"stream": 1}, {"dl_device": (2, 0)}):
        with pytest.raises(BufferError):
            x.__dlpack__(**keywords)
    for keywords in ({"bogus": 1}, {"max_version": 3}, {"dl_device": 1}, {"copy": 3}):
        with pytest.raises(TypeError):
            x.__dlpack__(**keywords)
    assert x.__dlpack_device__() == (1, 0)


def test_capsules_that_nobody_takes_leak_nothing():
    gc.collect()
    before = weft.live_tensors()
    for version in (None, (1, 0)):
        capsule = weft.ones(3).__dlpack__(max_version=version)
        del capsule
        weft.from_dlpack(weft.ones(3).__dlpack__(max_version=version))
    gc.collect()
    assert weft.live_tensors() == before


def test_producers_that_misbehave():
    class Wrong:
        def __init__(self, result):
            self.result = result

        def __dlpack__(self, **_):
            if isinstance(self.result, Exception):
                raise self.result
            return self.result

    for result, kind in [(1, TypeError), (None, TypeError), (RuntimeError("x"), RuntimeError), (ValueError(), ValueError)]:
        with pytest.raises(kind):
            weft.from_dlpack(Wrong(result))

    class Old:
        def __dlpack__(self):
            return weft.ones(2).__dlpack__()

    assert weft.from_dlpack(Old()).tolist() == [1, 1]


def test_memory_lives_as_long_as_anybody_looks_at_it():
    x = weft.from_numpy(np.arange(1000.0))
    gc.collect()
    assert x[999].item() == 999
    a = weft.arange(1000.0).numpy()
    gc.collect()
    assert a[999] == 999
    view = memoryview(weft.arange(10.0))
    gc.collect()
    assert view[9] == 9
    b = np.arange(10.0)
    count = sys.getrefcount(b)
    x = weft.from_numpy(b)
    y = x[3:]
    del x
    gc.collect()
    assert y[0].item() == 3
    del y
    weft.live_tensors()  # drops what other threads may have let go of
    assert sys.getrefcount(b) == count


def test_the_buffer_protocol_is_complete():
    x = weft.arange(6).reshape(2, 3)
    m = memoryview(x)
    assert (m.shape, m.strides, m.format, m.itemsize, m.readonly, m.nbytes) == ((2, 3), (24, 8), "q", 8, False, 48)
    assert m.tolist() == [[0, 1, 2], [3, 4, 5]] and bytes(m)[:8] == bytes(8)
    m[1, 2] = 50
    assert x[1, 2].item() == 50
    assert memoryview(weft.tensor(5)).tolist() == 5
    with pytest.raises(BufferError):
        hashlib.sha256(x.T)  # not contiguous
    assert weft.frombuffer(bytearray(8), dtype=weft.float32).tolist() == [0, 0]


class Produced:
    """A DLPack producer made by hand, with whatever one likes to put into the structure."""

    import ctypes as c

    class Structure(c.Structure):
        import ctypes as c
        _fields_ = [("data", c.c_void_p), ("device", c.c_int32 * 2), ("rank", c.c_int32), ("code", c.c_uint8),
                    ("bits", c.c_uint8), ("lanes", c.c_uint16), ("shape", c.c_void_p), ("strides", c.c_void_p),
                    ("offset", c.c_uint64), ("context", c.c_void_p), ("deleter", c.c_void_p)]

    def __init__(self, name=b"dltensor", **fields):
        c = self.c
        self.deleted, self.name = 0, name
        self.memory, self.shape, self.strides = (c.c_float * 4)(0, 1, 2, 3), (c.c_int64 * 1)(4), (c.c_int64 * 1)(1)

        def delete(_):
            self.deleted += 1

        self.delete = c.CFUNCTYPE(None, c.c_void_p)(delete)
        if "sizes" in fields:
            self.shape = (c.c_int64 * 1)(fields.pop("sizes"))
        values = dict(data=c.addressof(self.memory), device=(c.c_int32 * 2)(1, 0), rank=1, code=2, bits=32, lanes=1,
                      shape=c.addressof(self.shape), strides=c.addressof(self.strides), offset=0, context=None,
                      deleter=c.cast(self.delete, c.c_void_p))
        self.structure = self.Structure(**{**values, **fields})

    def __dlpack__(self, **_):
        new = self.c.pythonapi.PyCapsule_New
        new.restype, new.argtypes = self.c.py_object, (self.c.c_void_p, self.c.c_char_p, self.c.c_void_p)
        return new(self.c.addressof(self.structure), self.name, None)


def test_the_producer_frees_its_memory_once_when_nobody_needs_it():
    p = Produced()
    x = weft.from_dlpack(p)
    assert x.tolist() == [0, 1, 2, 3] and p.deleted == 0
    y = x[1:]
    del x
    gc.collect()
    assert p.deleted == 0 and y.tolist() == [1, 2, 3]
    del y
    weft.live_tensors()
    assert p.deleted == 1
    p = Produced()
    assert weft.from_dlpack(p, copy=True).tolist() == [0, 1, 2, 3] and p.deleted == 1
    p = Produced(strides=None, offset=4, sizes=3)
    assert weft.from_dlpack(p).tolist() == [1, 2, 3]


@pytest.mark.parametrize("fields", [{"rank": -1}, {"rank": 100}, {"sizes": -4}, {"data": None}, {"shape": None},
                                    {"lanes": 2}, {"lanes": 0}, {"bits": 31}, {"bits": 0}, {"code": 5}, {"code": 99},
                                    {"device": (2, 0)}, {"device": (77, 3)}, {"name": b"nonsense"},
                                    {"sizes": 1 << 61}], ids=str)
def test_wrong_capsules_are_refused_and_stay_the_producers(fields):
    if "device" in fields:
        fields = {"device": (Produced.c.c_int32 * 2)(*fields["device"])}
    p = Produced(**fields)
    before = weft.live_tensors()
    with pytest.raises((BufferError, ValueError, MemoryError)):
        weft.from_dlpack(p)
    gc.collect()
    assert weft.live_tensors() == before and p.deleted == (0 if "sizes" not in fields or fields["sizes"] < 0 else p.deleted)


def test_devices_are_not_shared_but_copied_on_demand(device):
    x = weft.arange(3.0).to(device)
    assert x.__dlpack_device__() == ((1, 0) if device == "cpu" else (12, 0))
    if device != "cpu":
        with pytest.raises(BufferError, match="hpu"):
            x.__dlpack__()
        with pytest.raises(BufferError):
            x.__dlpack__(dl_device=(1, 0), copy=False)
    assert weft.from_dlpack(x.__dlpack__(dl_device=(1, 0))).tolist() == [0, 1, 2]
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 0))


def test_small_floats_travel_to_numpy_as_their_bits():
    for dtype, bits in ((weft.bfloat16, weft.int16), (weft.float8_e4m3fn, weft.uint8), (weft.float8_e5m2, weft.uint8),
                        (weft.float8_e4m3fnuz, weft.uint8), (weft.float8_e5m2fnuz, weft.uint8)):
        x = weft.tensor([1.0, -2.0, 0.5]).to(dtype)
        seen = x.view(bits).numpy()
        assert seen.ctypes.data == x.data_ptr() and seen.dtype.itemsize == x.itemsize
        assert weft.from_numpy(seen).view(dtype).to(weft.float32).tolist() == [1, -2, 0.5]


@pytest.mark.parametrize("name", ("bfloat16", *EIGHT_BITS))
def test_small_floats_are_arrays_of_ml_dtypes(name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = getattr(weft, name)
    x = weft.tensor([[1.0, 2.0, 0.5], [4.0, 8.0, 16.0]]).to(dtype)
    a = x.t().numpy()
    assert a.dtype == getattr(ml_dtypes, name) and a.astype(float).tolist() == [[1, 4], [2, 8], [0.5, 16]]
    assert a.ctypes.data == x.data_ptr()
    back = weft.from_numpy(a)
    assert back.dtype is dtype and back.data_ptr() == x.data_ptr() and back.tolist() == x.t().tolist()
    assert weft.tensor(a).tolist() == x.t().tolist() and weft.asarray(a[:1, 1]).tolist() == [4]


def test_torch_both_ways():
    torch = pytest.importorskip("torch")
    t = torch.arange(6.0).reshape(2, 3)
    x = weft.from_dlpack(t)
    assert x.data_ptr() == t.data_ptr() and torch.from_dlpack(x).data_ptr() == t.data_ptr()
    b = weft.from_dlpack(torch.ones(3, dtype=torch.bfloat16))
    assert b.dtype is weft.bfloat16 and torch.from_dlpack(b).dtype is torch.bfloat16


@pytest.mark.parametrize("name", EIGHT_BITS)
def test_eight_bit_floats_travel_by_dlpack_and_have_limits(name):
    dtype = getattr(weft, name)
    x = weft.tensor([0.5, 2.0, 1.0]).to(dtype)
    again = weft.from_dlpack(x)
    assert again.dtype is dtype and again.data_ptr() == x.data_ptr() and again.tolist() == [0.5, 2, 1]
    limits = weft.finfo(dtype)
    for edge in (limits.max, limits.min, limits.smallest_normal, 1 + limits.eps):
        assert weft.tensor(edge, dtype=weft.float64).to(dtype).item() == edge
    assert dtype.is_floating_point and dtype.is_signed == (name != "float8_e8m0fnu")
    assert x.type() == f"weft.F{name[1:]}Tensor" and repr(dtype) == f"weft.{name}"


@pytest.mark.parametrize("name", EIGHT_BITS)
def test_eight_bit_floats_are_those_of_torch(name, tmp_path):
    torch = pytest.importorskip("torch")
    codes = np.arange(256, dtype=np.uint8)
    own = weft.from_numpy(codes).view(getattr(weft, name))
    other = torch.from_numpy(codes.copy()).view(getattr(torch, name))
    np.testing.assert_array_equal(own.to(weft.float64).numpy(), other.to(torch.float64).numpy())
    shared = weft.from_dlpack(other)
    assert shared.dtype is own.dtype and torch.from_dlpack(own).dtype is other.dtype
    limits, expected = weft.finfo(own.dtype), torch.finfo(other.dtype)
    for fact in ("bits", "eps", "max", "min", "tiny", "smallest_normal"):
        assert getattr(limits, fact) == getattr(expected, fact), fact
    torch.save({"x": other}, tmp_path / "x.pt")
    loaded = weft.load_pt(tmp_path / "x.pt")["x"]
    assert loaded.dtype is own.dtype and loaded.view(weft.uint8).tolist() == codes.tolist()


def test_every_number_of_16_bits_becomes_the_8_bits_that_torch_makes_of_it():
    torch = pytest.importorskip("torch")
    for source in ("float16", "bfloat16"):
        patterns = np.arange(65536, dtype=np.uint16)
        own = weft.from_numpy(patterns).view(getattr(weft, source))
        other = torch.from_numpy(patterns.view(np.int16)).view(getattr(torch, source))
        for target in EIGHT_BITS:
            got = own.to(getattr(weft, target)).view(weft.uint8).numpy()
            want = other.to(getattr(torch, target)).view(torch.uint8).numpy()
            np.testing.assert_array_equal(got, want, f"{source} to {target}")


def test_powers_of_two_are_rounded_down_and_up_by_frexp():
    x = weft.tensor([3, 5, 1, 0.75, 6e-39, 1.6e38, 2.0**127])
    m, e = weft.frexp(x)
    for exponent, want in ((e - 1, [2, 4, 1, 0.5, 2.0**-127, 2.0**126, 2.0**127]),
                           (e - (m == 0.5).to(e.dtype), [4, 8, 1, 1, 2.0**-126, 2.0**127, 2.0**127])):
        got = weft.ldexp(weft.ones(7), exponent).to(weft.float8_e8m0fnu)
        np.testing.assert_array_equal(got.to(weft.float64).numpy(), want)


def test_overflow_in_a_cast_follows_the_option():
    x = weft.tensor([464.0, 480.0, float("inf"), float("-inf"), float("nan")])
    nan, inf = float("nan"), float("inf")
    for dtype, overflow, want in (
            (weft.float8_e4m3fn, "by_format", [448, 448, 448, -448, nan]),
            (weft.float8_e4m3fn, "ieee", [448, nan, nan, nan, nan]),
            (weft.float8_e5m2, "saturate", [448, 512, 57344, -57344, nan]),
            (weft.float8_e5m2, "ieee", [448, 512, inf, -inf, nan]),
            (weft.float8_e4m3fnuz, "by_format", [nan] * 5), (weft.float8_e4m3fnuz, "saturate", [240, 240, 240, -240, nan]),
            (weft.float8_e5m2fnuz, "by_format", [448, 512, nan, nan, nan]),
            (weft.float8_e5m2fnuz, "saturate", [448, 512, 57344, -57344, nan]),
            (weft.float8_e8m0fnu, "by_format", [512, 512, nan, nan, nan])):
        np.testing.assert_array_equal(weft.cast(x, dtype, overflow=overflow).to(weft.float32).numpy(), want)
    with pytest.raises(ValueError, match="by_format"):
        weft.cast(x, weft.float16, overflow="wrap")
    small = x.to(weft.float8_e5m2)
    assert weft.isinf(small).tolist() == [False, False, True, True, False]
    assert (small == small).tolist() == [True] * 4 + [False]
