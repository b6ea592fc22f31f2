#!/usr/bin/env bash
# Follows a walk of CONTRIBUTING.md on a copy of the tree: walk.sh SOURCE WORK pointwise|kernel [ARGUMENTS of cmake].
# With --apply in the place of arguments it ends where the tree is changed and counted. Without WEFT_TEST_LARGE=1 it
# compiles the changed sources; with it, it builds the library and runs the new op's tests, which takes many minutes.
set -Eeuo pipefail
trap 'echo "line $LINENO failed: $BASH_COMMAND"' ERR
source=$1 work=$2 walk=$3
shift 3
case $walk in
  pointwise) section="Add a pointwise op" op=bent_identity document="x + (sqrt(1 + x * x) - 1) / 2" ;;
  kernel) section="Add an op with kernels of its own" op=unit_rows document="over the last dimension, where" ;;
  *) echo "no such walk: $walk"; exit 2 ;;
esac
tree=$work/tree
# As far below the sources as in the project's own tree, so that ccache knows most files already.
build=$tree/build/release
export CCACHE_BASEDIR=$tree
mkdir -p "$work"
rm -rf "$tree"
mkdir "$tree"
tar -C "$source" --exclude=./build --exclude=./.git -cf - . | tar -C "$tree" -xf -

# The block is a diff without line numbers: each hunk says what to insert before which line.
python3 - "$tree" "$section" <<'PYTHON'
import re, sys
tree, section = sys.argv[1:]
words = open(f"{tree}/CONTRIBUTING.md").read().split(f"\n## {section}\n")[1]
block = re.search(r"```diff\n(.*?)```", words, re.S).group(1)
count = lambda text: len(re.findall(r"^.*\S", text, re.M))
files = lines = in_loops = 0
for file in re.split(r"^--- .*\n", block, flags=re.M)[1:]:
    path = re.match(r"\+\+\+ b/(\S+)", file).group(1)
    text = open(f"{tree}/{path}").read()
    files += 1
    for hunk in file.split("@@\n")[1:]:
        hunk = hunk.rstrip("\n").split("\n")
        added = "".join(line[1:] + "\n" for line in hunk if line.startswith("+"))
        anchor = "".join(line[1:] + "\n" for line in hunk if line.startswith(" "))
        assert text.count(anchor) == 1, f"not found once in {path}: {anchor}"
        text = text.replace(anchor, added + anchor)
        lines += count(added)
        if path.startswith("backends/"):  # what stands between the braces of a function with a loop
            bodies = re.findall(r"\{\n((?: .*\n|\n)*)\}\n", added)
            in_loops += sum(count(body) for body in bodies if "for (" in body)
    open(f"{tree}/{path}", "w").write(text)
print(f"{section}: {files} files, {lines} lines, {lines - in_loops} of them outside the kernels' loops")
if files > 6 or lines - in_loops > 80:
    sys.exit("that is more than 6 files or 80 lines outside the kernels' loops")
PYTHON
[[ ${1:-} == --apply ]] && exit 0

configure() { # folder arguments...
  cmake -S "$tree" -B "$1" -G Ninja -DCMAKE_BUILD_TYPE=Release "${@:2}" >"$work/configure.log" 2>&1 ||
    { cat "$work/configure.log"; exit 1; }
}
compile() { # folder targets...
  ninja -C "$1" "${@:2}" >"$work/build.log" || { tail -30 "$work/build.log"; exit 1; }
}
has_target() { ninja -C "$1" -t query "$2" >/dev/null 2>&1; }
run_tests() { # expression: at least one test ran, none failed
  ctest --test-dir "$build" -R "$1" --no-tests=error --output-on-failure >"$work/tests.log" 2>&1 ||
    { cat "$work/tests.log"; exit 1; }
}
passed() { grep -qE "$1 \.+ +Passed" "$work/tests.log"; }
unchecked=()

check_pointwise() {
  configure "$build" -DWEFT_WITH_CUDA=OFF -DWEFT_WITH_HPU=OFF "$@"
  compile "$build" weft_ops_test weft_backends_test weft_ops weft_bench
  run_tests 'Pointwise\.EveryRow'
  run_tests "/${op}_on_"
}

# Its pointwise kernels take nvcc minutes; the op's are in the object that is compiled here.
check_cuda() {
  configure "$tree/build/cuda" -DWEFT_WITH_HPU=OFF -DWEFT_WITH_PYTHON=OFF -DWEFT_BUILD_TESTS=OFF \
    -DWEFT_BUILD_BENCHMARKS=OFF -DWEFT_BUILD_EXAMPLES=OFF "$@"
  local kernels=CMakeFiles/weft_cuda.dir/backends/cuda/kernels/rows.cu.o
  has_target "$tree/build/cuda" $kernels || { unchecked+=("CUDA's kernels: there is no nvcc"); return; }
  compile "$tree/build/cuda" $kernels CMakeFiles/weft_core_frequent.dir/backends/portable/host/host_rows.cpp.o
  for name in ${op}_f32 ${op}_gradient_f64; do grep -q "$name" "$tree/build/cuda/$kernels"; done
  unchecked+=("CUDA's kernels are compiled, not run")
}

check_python() {
  has_target "$build" weft_python_package || { unchecked+=("Python: there is no nanobind"); return; }
  compile "$build" weft_python_package
  local python
  python=$(sed -n 's/^Python_EXECUTABLE:.*=//p' "$build/CMakeCache.txt")
  PYTHONPATH=$build/python "$python" - <<'PYTHON'
import weft
x = weft.tensor([[3.0, 4.0], [0.0, 0.5]], requires_grad=True)
y = weft.unit_rows(x, eps=1)
y[:, 0].sum().backward()
assert weft.allclose(y, weft.tensor([[0.6, 0.8], [0.0, 0.5]])), y
assert weft.allclose(x.grad, weft.tensor([[0.128, -0.096], [1.0, 0.0]])), x.grad
PYTHON
  grep -q "^def $op(x: .*, eps: .* = 1e-12" "$build/python/weft/__init__.pyi"
}

check_kernel() {
  configure "$build" -DWEFT_WITH_CUDA=OFF "$@"
  compile "$build" weft_ops_test weft_ops weft_bench
  run_tests "/${op}_on_"
  if has_target "$build" weft_ze_cache; then passed "${op}_on_hpu"
  else unchecked+=("HPU's kernels: there is no compiler or no test driver for them"); fi
  check_python
  check_cuda "$@"
}

# The sources that the walk changes, and those that read the rows it adds.
compile_changes() {
  local sources=(backends/cpu/pointwise/loops_unary.cpp ops/pointwise/unary.cpp)
  [[ $walk == pointwise ]] ||
    sources=(backends/table.cpp backends/cpu/rows/norm.cpp ops/network/norm.cpp)
  configure "$build" -DWEFT_WITH_CUDA=OFF -DWEFT_WITH_HPU=OFF "$@"
  sources=("${sources[@]/#/$tree/}")
  compile "$build" "${sources[@]/%/^}"
  unchecked+=("the op's tests: they run with WEFT_TEST_LARGE=1")
}

if [[ -n ${WEFT_TEST_LARGE:-} ]]; then
  "check_$walk" "$@"
  passed "${op}_on_cpu"
  "$build/examples/weft-ops" --op "$op" | grep "$op" >/dev/null
  "$build/examples/weft-ops" --markdown | grep -F "$document" >/dev/null
  "$build/benchmarks/weft_bench" --benchmark_filter="^op.$op\$" --benchmark_min_time=0.01 | grep "op.$op" >/dev/null
  echo "$op has tests, a gradient check, a benchmark, documentation and a matrix row"
else
  compile_changes "$@"
fi
for what in "${unchecked[@]}"; do echo "not checked: $what"; done
