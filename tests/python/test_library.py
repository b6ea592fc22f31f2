"""Ops that Python registers, and libraries of ops in C++."""

import os
import pathlib
import re
import subprocess
import threading
import warnings

import pytest

import weft
from weft import autograd, library

source = pathlib.Path(__file__).parents[2]
include = pathlib.Path(weft.__file__).parents[2] / "include"


@pytest.fixture
def cube():
    with library.custom_op("py::cube", cube_of, dtypes=[weft.float32, weft.float64]) as op:
        yield op


def cube_of(x, scale: float = 1.0):
    """x * x * x, times scale."""
    return scale * x * x * x


def cube_gradient(ctx, g):
    return 3 * ctx["scale"] * ctx["x"] ** 2 * g


def double(*values):
    return weft.tensor(values, dtype=weft.float64)


def test_ops_are_called_as_ops(cube):
    assert weft.ops.py.cube(double(1, 2), scale=2.0).tolist() == [2, 16]
    assert weft.ops.py.cube(double(2)).tolist() == [8]
    assert cube(double(2), 3).tolist() == [24]
    assert weft.ops.exp is weft.ops.exp and weft.ops.exp(double(0)).tolist() == [1]
    assert weft.ops.py.cube.__text_signature__ == "(x, scale=1.0)"
    assert "x * x * x, times scale." in weft.ops.py.cube.__doc__
    assert "cube" in dir(weft.ops.py) and "py" in dir(weft.ops) and "py::cube" in library.all_ops()
    out = double(0)
    weft.ops.py.cube(double(2), out=out)
    assert out.tolist() == [8]


def test_names_and_lines_of_errors(cube):
    x = double(1, 2).requires_grad_()
    y = weft.ops.py.cube(x)
    with pytest.raises(RuntimeError, match=r"\[py::cube\] it has no backward(.|\n)*test_library.py:\d+"):
        y.sum().backward()
    assert y.grad_fn.name() == "py::cube"
    with pytest.raises(NotImplementedError, match=r"no kernel for int64 on cpu(.|\n)*float32, float64 on cpu"):
        cube(weft.tensor([1]))
    with pytest.raises(TypeError, match="argument 'scale'"):
        weft.ops.py.cube(double(1), "much")
    with pytest.raises(TypeError, match="unexpected keyword argument 'power'"):
        weft.ops.py.cube(double(1), power=2)
    with pytest.raises(AttributeError, match="py::none"):
        weft.ops.py.none


def test_backward_in_python(cube):
    cube.register_autograd(cube_gradient)
    x = double(1, 2).requires_grad_()
    cube(x, 2.0).sum().backward()
    assert x.grad.tolist() == [6, 24]
    assert autograd.gradgradcheck(lambda t: cube(t, 2.0), [x])


def test_shapes_from_python(cube):
    meta = weft.empty(2, 3, device="meta")
    with pytest.raises(NotImplementedError, match="no infer_meta"):
        cube(meta)
    cube.register_fake(lambda x, scale: weft.empty(x.shape, dtype=x.dtype, device="meta"))
    assert tuple(cube(meta).shape) == (2, 3)
    cube.register_fake(lambda x, scale: weft.empty(1, device="meta"))
    with pytest.raises(ValueError, match="another shape than its infer_meta"):
        cube(weft.ones(2))


def test_check_op(cube):
    cube.register_samples(lambda make: [[make.tensor([2, 3]), 2.0], [make.tensor([4])]])
    cube.register_fake(lambda x, scale: weft.empty(x.shape, dtype=x.dtype, device="meta"))
    cube.register_autograd(cube_gradient)
    passed, text = library.check_op(cube)
    assert passed and "gradient" in text, text
    cube.register_autograd(lambda ctx, g: g)
    assert not library.check_op("py::cube")[0]
    passed, text = library.check_op("exp")
    assert passed, text


def test_lists_several_results_and_composite_bodies():
    def split(xs: list[weft.Tensor], w, n: int = 1, *, mode: str = "a"):
        total = sum(xs) * w
        return total, total * n

    with library.custom_op("py::split", split, schema=library.infer_schema(split, ["once", "times"]), composite=True):
        op = weft.ops.py.split
        assert op.__text_signature__ == "(xs, w, n=1, *, mode='a')"
        x, w = double(1, 2).requires_grad_(), double(3, 4).requires_grad_()
        result = op([x, x], w, n=2)
        assert result.times.tolist() == [12, 32] and result.once.tolist() == [6, 16]
        result.times.sum().backward()
        assert x.grad.tolist() == [12, 16]
    with pytest.raises(AttributeError):
        weft.ops.py.split


def test_in_place():
    def add_one(x):
        with weft.no_grad():
            return x.add_(1)

    with library.custom_op("py::add_one", add_one, inplace=[("x", "y")]):
        x = double(1, 2)
        assert weft.ops.py.add_one(x) is x and x.tolist() == [2, 3]
        with pytest.raises(RuntimeError, match="py::add_one"):
            weft.ops.py.add_one(double(1).requires_grad_())


def test_a_name_that_is_taken(cube):
    with pytest.raises(ValueError, match=r"already(.|\n)*test_library.py:\d+(.|\n)*test_library.py:\d+"):
        library.custom_op("py::cube", cube_of)
    assert not library.custom_op("py::cube", cube_of, policy="keep").active
    with pytest.raises(ValueError, match="policy"):
        library.custom_op("py::cube", cube_of, policy="maybe")
    with pytest.raises(ValueError, match="no name of an op"):
        library.custom_op("cube", cube_of)


def test_overriding_the_librarys_own():
    x = double(0.0)
    exp, method = weft.exp, weft.Tensor.exp
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        seven = library.override("exp")(lambda x: x * 0 + 7)
    assert len(told) == 1 and "replaces another definition" in str(told[0].message)
    assert exp(x).tolist() == weft.exp(x).tolist() == method(x).tolist() == x.exp().tolist() == [7]
    assert x.clone().exp_().tolist() == [1]  # in-place forms are the library's own
    seven.unregister()
    assert exp(x).tolist() == x.exp().tolist() == [1]


def test_kernels_from_elsewhere(cube):
    assert library.has_kernel("py::cube", "cpu", weft.float32) and not library.has_kernel("py::cube", "cpu", weft.int64)
    kernel = library.register_kernel("py::cube", "cpu", [weft.int64], lambda x, scale: x * 100)
    assert cube(weft.tensor([2])).tolist() == [200]
    with pytest.raises(ValueError, match="a kernel for int64 on cpu already"):
        library.register_kernel("py::cube", "cpu", [weft.int64], lambda x, scale: x)
    kernel.unregister()
    with pytest.raises(NotImplementedError):
        cube(weft.tensor([2]))


def test_errors_of_python_bodies_come_through(cube):
    class Odd(Exception):
        pass

    def fails(x):
        raise Odd("no")

    with library.custom_op("py::fails", fails), pytest.raises(Odd):
        weft.ops.py.fails(double(1))
    cube.register_autograd(fails_backward := lambda ctx, g: fails(g))
    assert fails_backward
    with pytest.raises(Odd):
        cube(double(1).requires_grad_()).backward()
    with library.custom_op("py::text", lambda x: object()), pytest.raises(TypeError, match="cannot return"):
        weft.ops.py.text(double(1))
    with pytest.raises(TypeError, match="fixed number"):
        library.custom_op("py::any", lambda *xs: xs)


def test_the_context_of_a_backward_ends_with_it(cube):
    kept = []

    def backward(ctx, g):
        kept.append(ctx)
        assert ctx.wants("x") and ctx.output().tolist() == [8]
        with pytest.raises(KeyError):
            ctx["y"]
        return g

    cube.register_autograd(backward)
    cube(double(2).requires_grad_()).backward()
    with pytest.raises(RuntimeError):
        kept[0]["x"]


def test_threads_call_while_the_op_changes(cube):
    errors = []

    def call():
        try:
            for _ in range(200):
                assert cube(double(2)).tolist() == [8]
        except Exception as e:  # noqa: BLE001
            errors.append(e)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for t in threads:
        t.start()
    for _ in range(50):
        cube.register_autograd(cube_gradient)
    for t in threads:
        t.join()
    assert not errors


# ---- libraries in C++ ----

def built(folder, code, name):
    path = folder / name
    (folder / "op.cpp").write_text(code, encoding="utf-8")
    compiler = os.environ.get("CXX", "g++")
    subprocess.run([compiler, "-std=c++20", "-O0", "-shared", "-fPIC", "-fno-gnu-unique", f"-I{include}", "op.cpp",
                    "-o", str(path)], cwd=folder, check=True)
    return path


@pytest.mark.skipif(not include.exists(), reason="the headers are not beside the module")
def test_the_library_of_the_page(tmp_path):
    page = (source / "docs" / "own_ops.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```c\+\+\n(.*?)```", page, re.S)
    path = built(tmp_path, code, "scale.so")
    assert library.load_library(path) == ["my::halve"]
    assert library.load_library(path) == ["my::halve"]
    x = double(1, 2).requires_grad_()
    y = weft.ops.my.halve(x)
    assert y.tolist() == [0.5, 1]
    y.sum().backward()
    assert x.grad.tolist() == [0.5, 0.5]
    del y
    library.unload_library(path)
    with pytest.raises(AttributeError):
        weft.ops.my.halve
    with pytest.raises(ValueError, match="not loaded"):
        library.unload_library(path)
    with pytest.raises(OSError):
        library.load_library(tmp_path / "none.so")


@pytest.mark.skipif(not include.exists(), reason="the headers are not beside the module")
def test_an_op_of_python_is_called_from_cpp(tmp_path, cube):
    cube.register_autograd(cube_gradient)
    path = built(tmp_path, """
        #include <weft/ops/library.hpp>
        #include <weft/ops/pointwise.hpp>
        const weft::RegisterOp twice(weft::OpBuilder("cpp::twice").schema("(x)").composite([](const weft::Tensor& x) {
          return weft::call_op("py::cube", weft::call_op("py::cube", x, 1.0));
        }));
        """, "twice.so")
    assert library.load_library(path) == ["cpp::twice"]
    x = double(2).requires_grad_()
    y = weft.ops.cpp.twice(x)
    assert y.tolist() == [512]
    y.backward()
    assert x.grad.tolist() == [9 * 2**8]
    del y
    library.unload_library(path)


def test_the_program_of_the_page():
    page = (source / "docs" / "own_ops.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    names = {}
    exec(compile(code, "own_ops.md", "exec"), names)
    names["cube"].unregister()
