#!/usr/bin/env bash
# Follows CONTRIBUTING.md's "Add a pointwise op" on a copy of the tree: walk.sh SOURCE WORK
set -euo pipefail
source=$1 work=$2
tree=$work/tree
# As far below the sources as in the project's own tree, so that ccache knows most files already.
build=$tree/build/release
export CCACHE_BASEDIR=$tree
mkdir -p "$work"
rm -rf "$tree"
mkdir "$tree"
tar -C "$source" --exclude=./build --exclude=./.git -cf - . | tar -C "$tree" -xf -

# The block is a diff without line numbers: each hunk says what to insert before which line.
python3 - "$tree" <<'EOF'
import re, sys
tree = sys.argv[1]
block = re.search(r"```diff\n(.*?)```", open(f"{tree}/CONTRIBUTING.md").read(), re.S).group(1)
for file in re.split(r"^--- .*\n", block, flags=re.M)[1:]:
    path = re.match(r"\+\+\+ b/(\S+)", file).group(1)
    text = open(f"{tree}/{path}").read()
    for hunk in file.split("@@\n")[1:]:
        lines = hunk.rstrip("\n").split("\n")
        added = "".join(line[1:] + "\n" for line in lines if line.startswith("+"))
        anchor = "".join(line[1:] + "\n" for line in lines if line.startswith(" "))
        assert text.count(anchor) == 1, f"not found once in {path}: {anchor}"
        text = text.replace(anchor, added + anchor)
    open(f"{tree}/{path}", "w").write(text)
EOF

cmake -S "$tree" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DWEFT_WITH_CUDA=OFF -DWEFT_WITH_HPU=OFF >/dev/null
ninja -C "$build" weft_ops_test weft_backends_test weft_ops weft_bench >"$work/build.log" || { tail -30 "$work/build.log"; exit 1; }

passed() { # program filter: at least one test ran, none failed
  local log=$work/$1.log
  "$build/tests/$1" --gtest_filter="$2" >"$log" || { tail -30 "$log"; exit 1; }
  grep -q '\[  PASSED  \] [1-9]' "$log" || { echo "$1 $2: no test ran"; exit 1; }
}
passed weft_ops_test '*softsign*'
passed weft_backends_test 'Pointwise.EveryRow*'
"$build/examples/weft-ops" --op softsign | grep softsign >/dev/null
"$build/examples/weft-ops" --markdown | grep "x / (1 + |x|)" >/dev/null
"$build/benchmarks/weft_bench" --benchmark_filter='^op.softsign$' --benchmark_min_time=0.01 | grep op.softsign >/dev/null
echo "softsign has tests, a gradient check, a benchmark, documentation and a matrix row"
