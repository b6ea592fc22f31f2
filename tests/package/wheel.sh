#!/usr/bin/env bash
# Builds the wheel as `pip install .` does, in an environment of its own, and uses it from a fresh one outside the tree:
# wheel.sh SOURCE WORK PYTHON [-DNAME=VALUE...]
set -euo pipefail
[[ ${WEFT_TEST_LARGE:-} ]] || { echo "compiles everything: run it by ./weft test -L large"; exit 77; }
source=$1 work=$2 python=$3
shift 3
export PIP_DISABLE_PIP_VERSION_CHECK=1 CCACHE_BASEDIR=$work
rm -rf "$work/dist" "$work/venv" "$work/away"
mkdir -p "$work/dist" "$work/away"
"$python" -m venv "$work/venv"
pip=("$work/venv/bin/python" -m pip)
"${pip[@]}" download -q --no-deps -d "$work/away" scikit-build-core 2>/dev/null || { echo "PyPI cannot be reached"; exit 77; }

settings=(-C "build-dir=$work/build")
for define in "$@"; do settings+=(-C "cmake.define.${define#-D}"); done
"${pip[@]}" wheel -q --no-deps -w "$work/dist" "${settings[@]}" "$source"
ls -l "$work"/dist/weft-*.whl
"${pip[@]}" install -q "$work"/dist/weft-*.whl
cd "$work/away"
"$work/venv/bin/python" - <<'EOF'
import importlib.metadata, pathlib, sys
import weft

assert "numpy" not in sys.modules and weft.__version__ == importlib.metadata.version("weft")
package = pathlib.Path(weft.__file__).parent
assert "site-packages" in package.parts and (package / "__init__.pyi").exists() and (package / "py.typed").exists()
x = weft.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
(x @ x).sum().backward()
assert x.grad.tolist() == [[7, 11], [9, 13]]
model = weft.nn.Sequential(weft.nn.Linear(2, 8), weft.nn.Tanh(), weft.nn.Linear(8, 1))
optimizer = weft.optim.AdamW(model.parameters(), lr=0.05)
for _ in range(200):
    optimizer.zero_grad()
    loss = weft.nn.functional.mse_loss(model(x.detach()), weft.tensor([[0.0], [1.0]]))
    loss.backward()
    optimizer.step()
assert loss.item() < 0.01
size = pathlib.Path(weft._core.__file__).stat().st_size
print(f"{weft.__version__} from a wheel works on Python {sys.version.split()[0]}; the extension has {size / 1e6:.2f} MB")
EOF
if "${pip[@]}" install -q numpy pytest 2>/dev/null; then
  "$work/venv/bin/python" -m pytest -q -p no:cacheprovider "$source/tests/python/test_interop.py"
fi
