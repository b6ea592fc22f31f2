"""Host values that a captured step reads: a change is used by the next call."""

import collections
import contextvars
import dataclasses
import functools
import gc
import itertools
import os
import random
import threading
import types
import weakref

import numpy as np
import pytest

import weft
from weft import nn

SCALES = {"scale": 1.0}
CONTEXT = contextvars.ContextVar("scale", default=1.0)
LOCAL = threading.local()
ALLOWED = {1.0}
VALUE = 1.0


class Slots:
    __slots__ = ("scale", "__dict__")


class OnlySlots:
    __slots__ = ("scale",)


class Config:
    scale = 1.0

    @classmethod
    def of_class(cls):
        return cls.scale

    @staticmethod
    def of_static():
        return SCALES["scale"]

    @property
    def of_property(self):
        return SCALES["scale"] * VALUE


@dataclasses.dataclass(slots=True)
class Options:
    scale: float = 1.0


class Named(nn.Module):
    def forward(self, x):
        return x * getattr(self, "scale", 1.0)


class Asked(nn.Module):
    def forward(self, x):
        return x * self.scale if hasattr(self, "scale") else x


class Listed(nn.Module):
    def forward(self, x):
        return x * vars(self)["factor"]


def scaled(values, x):
    return x * values[-1]


def keyword(x, *, scale=1.0):
    return x * scale


def default(x, scale=1.0):
    return x * scale


class Box:
    """Values behind special methods, which code calls without their names."""
    def __init__(self, held=1.0):
        self.held = held

    def __getitem__(self, i):
        return self.held

    def __len__(self):
        return int(self.held)

    def __float__(self):
        return self.held

    def __rmul__(self, other):
        return other * self.held

    def __call__(self):
        return self.held

    def __contains__(self, value):
        return value == self.held

    def __enter__(self):
        return self.held

    def __exit__(self, *error):
        pass

    def __iter__(self):
        yield self.held


class Computed:
    """Attributes that __getattr__ computes."""
    def __init__(self):
        self.__dict__["held"] = {"scale": 1.0}

    def __getattr__(self, name):
        return self.held[name]


class Descriptor:
    held = 1.0

    def __get__(self, owner, kind):
        return self.held


class Described:
    scale = Descriptor()


def with_attribute():
    return with_attribute.scale


def within(box):
    with box as held:
        return held


def of_box(read):
    box = Box()
    return lambda x: x * read(box), lambda value: setattr(box, "held", value)


def of_held(hold, read):
    """An object inside a container."""
    box = types.SimpleNamespace(scale=1.0)
    container = hold(box)
    return lambda x: x * read(container).scale, lambda value: setattr(box, "scale", value)


def of_weak_reference():
    box = Box()
    reference = weakref.ref(box)
    return lambda x: x * reference().held, lambda value: setattr(box, "held", value)


def of_attribute():
    with_attribute.scale = 1.0
    return lambda x: x * with_attribute(), lambda value: setattr(with_attribute, "scale", value)


def nested(value, depth):
    return [value] if depth == 0 else {"inside": nested(value, depth - 1)}


def innermost(value):
    return innermost(value["inside"]) if isinstance(value, dict) else value


def of_nested():
    values = nested(1.0, 12)
    return lambda x: x * innermost(values)[0], lambda value: innermost(values).__setitem__(0, value)


def of_chain(change):
    maps = {"s": 1.0}, {}
    chain = collections.ChainMap(maps[1], maps[0])
    return lambda x: x * chain["s"], lambda value: change(maps, value)


def of_proxy():
    held = {"s": 1.0}
    proxy = types.MappingProxyType(held)
    return lambda x: x * proxy["s"], lambda value: held.update(s=value)


def of_strided(base, view, read):
    return lambda x: x * float(read(view)), lambda value: base.__setitem__(Ellipsis, value)


def of_module(kind, name):
    net = kind()
    object.__setattr__(net, "factor", 1.0)
    return net, lambda value: setattr(net, name, value)


def of_partial(values, change):
    return functools.partial(scaled, values), change(values)


def of_object(owner, read):
    owner.scale = 1.0
    return lambda x: x * read(owner), lambda value: setattr(owner, "scale", value)


def of_value(value, read, write):
    return lambda x: x * read(value), lambda new: write(value, new)


def last(values):
    return lambda value: values.__setitem__(-1, value)


def replace(values):
    def write(value):
        values.clear()
        values.append(value)
    return write


def set_global(value):
    global VALUE
    VALUE = value


def array(*shape):
    return np.ones(shape)


cases = {
    "getattr with a default": lambda: of_module(Named, "scale"),
    "hasattr": lambda: of_module(Asked, "scale"),
    "vars": lambda: of_module(Listed, "factor"),
    "partial of a list": lambda: of_partial([1.0], last),
    "partial of a deque": lambda: of_partial(collections.deque([1.0]), replace),
    "partial of a UserList": lambda: of_partial(collections.UserList([1.0]), last),
    "partial of an array": lambda: of_partial(array(3), last),
    "long list": lambda: of_partial([1.0] * 9000, last),
    "slots": lambda: of_object(OnlySlots(), lambda o: o.scale),
    "slots beside a dictionary": lambda: of_object(Slots(), lambda o: o.scale),
    "dataclass with slots": lambda: of_object(Options(), lambda o: o.scale),
    "namespace": lambda: of_object(types.SimpleNamespace(), lambda o: o.scale),
    "class method": lambda: of_object(Config, lambda o: o.of_class()),
    "class method of an object": lambda: (lambda x: x * Config().of_class(), lambda v: setattr(Config, "scale", v)),
    "static method": lambda: (lambda x: x * Config.of_static(), lambda v: SCALES.update(scale=v)),
    "property": lambda: of_value(Config(), lambda o: o.of_property, lambda o, v: SCALES.update(scale=v)),
    "property of a global": lambda: of_value(Config(), lambda o: o.of_property, lambda o, v: set_global(v)),
    "set": lambda: (lambda x: x * (3 if 3.0 in ALLOWED else 1), lambda v: ALLOWED.add(v)),
    "UserDict": lambda: of_value(collections.UserDict(s=1.0), lambda d: d["s"], lambda d, v: d.update(s=v)),
    "OrderedDict": lambda: of_value(collections.OrderedDict(s=1.0), lambda d: d["s"], lambda d, v: d.update(s=v)),
    "Counter": lambda: of_value(collections.Counter(s=1), lambda d: d["s"], lambda d, v: d.update(s=int(v) - d["s"])),
    "array": lambda: of_value(array(2, 2), lambda a: float(a[1, 1]), lambda a, v: a.fill(v)),
    "array of no dimensions": lambda: of_value(array(), float, lambda a, v: a.fill(v)),
    "bytearray": lambda: of_value(bytearray(b"\1"), lambda b: float(b[0]), lambda b, v: b.__setitem__(0, int(v))),
    "context variable": lambda: (lambda x: x * CONTEXT.get(), CONTEXT.set),
    "thread local": lambda: of_object(LOCAL, lambda o: o.scale),
    "environment": lambda: (lambda x: x * float(os.environ.get("WEFT_TEST_SCALE", "1")),
                            lambda v: os.environ.__setitem__("WEFT_TEST_SCALE", str(v))),
    "getenv": lambda: (lambda x: x * float(os.getenv("WEFT_TEST_SCALE", "1")),
                       lambda v: os.environ.__setitem__("WEFT_TEST_SCALE", str(v))),
    "__getitem__": lambda: of_box(lambda b: b[0]),
    "__len__": lambda: of_box(len),
    "__float__": lambda: of_box(float),
    "__rmul__": lambda: of_box(lambda b: 1.0 * b),
    "__call__": lambda: of_box(lambda b: b()),
    "__contains__": lambda: of_box(lambda b: 3 if 3.0 in b else 1),
    "__enter__": lambda: of_box(within),
    "__iter__": lambda: of_box(lambda b: sum(b)),
    "__getattr__": lambda: of_value(Computed(), lambda o: o.scale, lambda o, v: o.held.update(scale=v)),
    "an attribute that hides __getattr__": lambda: of_value(Computed(), lambda o: o.scale, lambda o, v: setattr(o, "scale", v)),
    "descriptor": lambda: (lambda x: x * Described().scale, lambda v: setattr(Described.__dict__["scale"], "held", v)),
    "class of a descriptor": lambda: (lambda x: x * Described().scale, lambda v: setattr(Descriptor, "held", v)),
    "object in a dict": lambda: of_held(lambda o: {"a": 1, "b": o}, lambda d: d["b"]),
    "object in a list of a dict": lambda: of_held(lambda o: {"b": [o]}, lambda d: d["b"][0]),
    "object after many in a list": lambda: of_held(lambda o: [None] * 500 + [o], lambda v: v[-1]),
    "object after many objects": lambda: of_held(lambda o: [Box() for _ in range(300)] + [o], lambda v: v[-1]),
    "object in a deque": lambda: of_held(lambda o: collections.deque([o]), lambda v: v[0]),
    "object in a ChainMap": lambda: of_held(lambda o: collections.ChainMap({}, {"b": o}), lambda d: d["b"]),
    "object in a mapping proxy": lambda: of_held(lambda o: types.MappingProxyType({"b": o}), lambda d: d["b"]),
    "object in a named tuple": lambda: of_held(lambda o: collections.namedtuple("Pair", "a b")(0, o), lambda p: p.b),
    "weak reference": of_weak_reference,
    "attribute of a function": of_attribute,
    "deep containers": of_nested,
    "ChainMap": lambda: of_chain(lambda maps, v: maps[0].update(s=v)),
    "hidden in a ChainMap": lambda: of_chain(lambda maps, v: maps[1].update(s=v)),
    "mapping proxy": of_proxy,
    "columns of an array": lambda: (lambda base: of_strided(base, base[:, 1], lambda a: a[2]))(array(3, 3)),
    "reversed array": lambda: (lambda base: of_strided(base, base[::-1, ::2], lambda a: a[2, 1]))(array(3, 3)),
    "transposed array": lambda: (lambda base: of_strided(base, base.T, lambda a: a[2, 1]))(array(2, 3)),
    "read-only array": lambda: (lambda base: of_strided(base, np.broadcast_to(base, (4, 3)), lambda a: a[2, 1]))(array(3)),
    "memoryview": lambda: (lambda base: of_value(memoryview(base), lambda m: m[2], lambda m, v: base.__setitem__(2, v)))(array(3)),
    "keyword default": lambda: (keyword, lambda v: keyword.__kwdefaults__.update(scale=v)),
    "keyword defaults": lambda: (keyword, lambda v: setattr(keyword, "__kwdefaults__", {"scale": v})),
    "defaults": lambda: (default, lambda v: setattr(default, "__defaults__", (v,))),
    "defaults of a function that is called": lambda: (lambda x: default(x), lambda v: setattr(default, "__defaults__", (v,))),
}


@pytest.fixture(autouse=True)
def initial_values():
    yield
    global VALUE
    VALUE, Config.scale, Descriptor.held = 1.0, 1.0, 1.0
    Described.__dict__["scale"].__dict__.clear()
    SCALES.update(scale=1.0), ALLOWED.clear(), ALLOWED.add(1.0), CONTEXT.set(1.0)
    os.environ.pop("WEFT_TEST_SCALE", None)
    keyword.__kwdefaults__, default.__defaults__ = {"scale": 1.0}, (1.0,)


@pytest.mark.parametrize("name", cases)
def test_a_changed_value_is_used(name):
    step, change = cases[name]()
    captured = weft.capture(step)
    for i in range(5):
        assert captured(weft.full((2,), float(i))).tolist() == [float(i)] * 2
    change(3.0)
    for i in range(5):
        assert captured(weft.full((2,), float(i))).tolist() == [3.0 * i] * 2
    assert captured.stats()["replayed"] >= 4


def test_threads_have_their_own_values():
    LOCAL.scale = 1.0
    captured, results = weft.capture(lambda x: x * LOCAL.scale), []

    def other():
        LOCAL.scale = 5.0
        results.extend(captured(weft.ones(1)).item() for _ in range(4))

    for _ in range(4):
        assert captured(weft.ones(1)).item() == 1
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert results == [5.0] * 4 and captured(weft.ones(1)).item() == 1


@pytest.mark.parametrize("draw", [lambda: random.random(), lambda: np.random.rand(), lambda g=np.random.default_rng(0): g.random(),
                                  lambda g=random.Random(1): g.random(), lambda i=iter([1.0] * 9): next(i),
                                  lambda i=itertools.count(): next(i), lambda i=(k for k in range(9)): next(i)])
def test_draws_of_other_generators_are_warned_about_once(draw):
    captured = weft.capture(lambda x: x * draw())
    with pytest.warns(UserWarning, match="recorded once") as caught:
        for _ in range(4):
            captured(weft.ones(2))
    assert len(caught) == 1


def test_an_object_that_holds_its_captured_step_is_collected():
    class Trainer:
        def __init__(self):
            self.net = nn.Linear(2, 2)
            self.step = weft.capture(self._step)

        def _step(self, x):
            return self.net(x).sum()

    trainer = Trainer()
    for _ in range(4):
        trainer.step(weft.ones(1, 2))
    freed = weakref.ref(trainer)
    del trainer
    gc.collect()
    assert freed() is None


def test_a_function_that_holds_its_captured_step_is_collected():
    def make():
        held = []

        def step(x):
            return x + len(held)

        held.append(weft.capture(step))
        held[0](weft.ones(2))
        return weakref.ref(step)

    freed = make()
    gc.collect()
    assert freed() is None
