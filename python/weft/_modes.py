"""Modes of autograd and numerics: context managers that also work as decorators."""

import functools

from weft import _core


_GENERATOR = 0x20  # inspect.CO_GENERATOR; importing inspect takes longer than the rest of weft's Python


class _Mode:
    """Sets the calling thread's mode in a `with` block or, as a decorator, in a function."""

    def __init__(self):
        self._saved = []

    def _wanted(self, enabled, inference):
        raise NotImplementedError

    def __enter__(self):
        saved = _core._grad_mode()
        self._saved.append(saved)
        _core._set_grad_mode(*self._wanted(*saved))
        return self

    def __exit__(self, *_):
        _core._set_grad_mode(*self._saved.pop())

    def __call__(self, function):
        if getattr(getattr(function, "__code__", None), "co_flags", 0) & _GENERATOR:
            return _generator_inside(function, self._again)

        @functools.wraps(function)
        def inside(*arguments, **keywords):
            with self._again():
                return function(*arguments, **keywords)

        return inside

    def _again(self):
        return type(self)()

    def __new__(cls, function=None, *arguments, **keywords):
        # `@no_grad` without parentheses.
        self = super().__new__(cls)
        if callable(function):
            self.__init__()
            return self(function)
        return self


def _generator_inside(function, mode):
    """The generator function with its mode set while its own code runs, and not where it has yielded."""
    @functools.wraps(function)
    def inside(*arguments, **keywords):
        generator = function(*arguments, **keywords)
        resume = functools.partial(next, generator)
        try:
            while True:
                with mode():
                    value = resume()
                try:
                    resume = functools.partial(generator.send, (yield value))
                except GeneratorExit:
                    with mode():
                        generator.close()
                    raise
                except BaseException as error:
                    resume = functools.partial(generator.throw, error)
        except StopIteration as end:
            return end.value

    return inside


class no_grad(_Mode):
    """Disables recording: results require no gradient."""

    def _wanted(self, enabled, inference):
        return False, inference


class enable_grad(_Mode):
    """Enables recording inside no_grad."""

    def _wanted(self, enabled, inference):
        return True, False


class inference_mode(_Mode):
    """Disables recording; tensors created inside can never become part of a graph."""

    def __init__(self, mode=True):
        super().__init__()
        if not isinstance(mode, bool):
            raise TypeError(f"inference_mode(): argument 'mode': expected a bool, got {type(mode).__name__}")
        self._mode = mode

    def _wanted(self, enabled, inference):
        return (False, True) if self._mode else (enabled, inference)

    def _again(self):
        return type(self)(self._mode)


class set_grad_enabled(_Mode):
    """Switches recording on or off, immediately and until the end of a `with` block."""

    def __init__(self, mode):
        super().__init__()
        if not isinstance(mode, bool):
            raise TypeError(f"set_grad_enabled(): argument 'mode': expected a bool, got {type(mode).__name__}")
        self._mode = mode
        self._before = _core._grad_mode()
        _core._set_grad_mode(mode, self._before[1] and not mode)

    def __enter__(self):
        self._saved.append(self._before)
        _core._set_grad_mode(self._mode, self._before[1] and not self._mode)
        return self

    def __call__(self, function):
        _core._set_grad_mode(*self._before)
        return super().__call__(function)

    def _again(self):
        return type(self)(self._mode)


def is_grad_enabled():
    """Whether ops are recorded."""
    return _core._grad_mode()[0]


def is_inference_mode_enabled():
    return _core._grad_mode()[1]


class autocast:
    """Mixed precision in a `with` block or, as a decorator, in a function. Products, convolutions and attention run in
    `dtype`; losses, norms, softmax, powers and sums in float32. The default dtype is bfloat16 on the CPU, float16
    elsewhere."""

    def __init__(self, device_type="cpu", dtype=None, enabled=True, cache_enabled=True):
        if not isinstance(device_type, str):
            raise TypeError(f"autocast(): argument 'device_type': expected a str, got {type(device_type).__name__}")
        if dtype is None:
            dtype = _core.bfloat16 if device_type == "cpu" else _core.float16
        self.device, self.fast_dtype = device_type, dtype
        self._wanted = dtype, bool(enabled), device_type, bool(cache_enabled)
        self._saved = []

    def __enter__(self):
        self._saved.append(_core._enter_autocast(*self._wanted))
        return self

    def __exit__(self, *_):
        _core._leave_autocast(self._saved.pop())

    def __call__(self, function):
        @functools.wraps(function)
        def inside(*arguments, **keywords):
            with self:
                return function(*arguments, **keywords)

        return inside


def is_autocast_enabled(device_type="cpu"):
    """Whether autocast is active for this device type."""
    return _core._autocast_dtype(device_type) is not None


def get_autocast_dtype(device_type="cpu"):
    """The dtype of products on this device type; float32 outside of autocast."""
    return _core._autocast_dtype(device_type) or _core.float32


_debug_modes = ("default", "warn", "error")


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Raises an error, or warns, for registered ops that are declared nondeterministic. Weft's own ops are
    deterministic.

    In this mode, `empty` fills with NaN, or with the largest integer. WEFT_DETERMINISTIC=1 enables the mode at
    start-up.
    """
    _core._set_deterministic(0 if not mode else 1 if warn_only else 2)


def are_deterministic_algorithms_enabled():
    return _core._deterministic() != 0


def is_deterministic_algorithms_warn_only_enabled():
    return _core._deterministic() == 1


def set_deterministic_debug_mode(debug_mode):
    """0 or "default", 1 or "warn", 2 or "error"."""
    modes = {name: i for i, name in enumerate(_debug_modes)}
    mode = modes.get(debug_mode, debug_mode)
    if mode not in (0, 1, 2):
        raise ValueError(f"debug_mode: expected one of {', '.join(_debug_modes)} or 0, 1, 2, got {debug_mode!r}")
    _core._set_deterministic(int(mode))


def get_deterministic_debug_mode():
    return _core._deterministic()


def set_tf32(matmul=False):
    """Whether float32 products on CUDA round their operands to 10 mantissa bits; off by default. NVIDIA_TF32_OVERRIDE=0
    or 1 takes precedence."""
    _core._set_tf32(bool(matmul))


def tf32_state():
    """Whether this thread currently uses TF32."""
    return _core._tf32()


class _ThreadScope:
    """A `with` statement that sets a state of this thread by `_set`, which returns the previous state."""

    def __init__(self, on):
        self._on = bool(on)

    def __enter__(self):
        self._before = self._set(self._on)
        return self

    def __exit__(self, *_):
        self._set(self._before)


class tf32(_ThreadScope):
    """Sets TF32 for this thread, in a `with` statement."""
    _set = staticmethod(_core._set_thread_tf32)

    def __init__(self, matmul=True):
        super().__init__(matmul)


class check_indices(_ThreadScope):
    """In a `with` statement, waits for each kernel that reads indices on an HPU or a GPU. So the call itself raises
    IndexError, before anything is written, instead of the next synchronization."""
    _set = staticmethod(_core._set_thread_index_checks)

    def __init__(self, on=True):
        super().__init__(on)
