"""The type stubs: written from the records, understood by a type checker."""

import pathlib
import subprocess
import sys
import textwrap

import pytest

import weft

package = pathlib.Path(weft.__file__).parent


def test_the_stubs_name_every_op():
    text = (package / "__init__.pyi").read_text(encoding="utf-8")
    for name in weft._core._ops:
        if not name.startswith("_") and name in vars(weft):
            assert f"def {name}(" in text, name
    for stub in package.rglob("*.pyi"):
        compile(stub.read_text(encoding="utf-8"), str(stub), "exec")
    assert (package / "py.typed").exists()


def check(tmp_path, code):
    pytest.importorskip("mypy")
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(code), encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "mypy", "--no-incremental", str(path)], capture_output=True, text=True,
                          cwd=tmp_path, env={"MYPYPATH": str(package.parent), "PATH": ""}, timeout=300)
    return [line for line in done.stdout.splitlines() if ": error:" in line], done.stderr


def test_a_type_checker_accepts_a_right_program(tmp_path):
    errors, trouble = check(tmp_path, """
        import weft
        from weft import nn, optim

        x = weft.zeros(2, 3, dtype=weft.float32, requires_grad=True)
        y: weft.Tensor = weft.softmax(x @ x.T + 1, dim=1)
        n: int = len(y.sum(dim=(0, 1), keepdim=True).reshape(-1))
        f: float = float(y[0, 0]) + x.grad.item()
        weft.add(x, 2, alpha=0.5, out=x)
        weft.round(x, decimals=2, out=x)
        weft.zeros(2, layout=weft.strided, pin_memory=False)
        x.clone(memory_format=weft.preserve_format).contiguous(memory_format=weft.contiguous_format)
        y.copy_(x, non_blocking=True)
        nn.functional.mse_loss(x, y, size_average=None, reduce=None)
        weft.autograd.grad(y.sum(), [x])
        kind: weft.dtype = weft.int
        with weft.no_grad():
            w = weft.tensor([1, 2]).to(weft.bool)


        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer = nn.Linear(3, 3)

            def forward(self, x: weft.Tensor) -> weft.Tensor:
                return nn.functional.gelu(self.layer(x))


        optim.AdamW(Net().parameters(), lr=0.1).step()
        """)
    assert not errors and not trouble


def test_a_type_checker_finds_errors(tmp_path):
    errors, _ = check(tmp_path, """
        import weft

        weft.softmax(weft.ones(2), dim="a")
        weft.nothing
        weft.ones(2) + weft.zeros(2, dtype=3)
        """)
    assert [e.split(":")[1] for e in errors] == ["4", "5", "6"]
