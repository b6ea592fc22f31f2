#!/usr/bin/env bash
# Prints tensors, nodes and the graph of a program in gdb, and stops at its ops: gdb.sh PROGRAM PRINTER
set -euo pipefail
command -v gdb >/dev/null || { echo "gdb was not found"; exit 77; }
out=$(gdb -q -batch -ex "source $2" -ex 'break -qualified stop' -ex 'break -qualified stop_in_graph' -ex run \
  -ex 'print matrix' -ex 'print leaf' -ex 'print none' -ex 'print shape' -ex 'print device' -ex 'weft graph none' \
  -ex continue -ex 'print node' -ex 'print place' -ex 'print view' -ex 'weft graph loss' -ex 'echo depth\n' -ex 'weft graph loss 2' \
  -ex continue -ex 'weft stop' -ex 'weft where' -ex 'print x' \
  -ex continue -ex 'weft stop' -ex 'weft graph' -ex 'weft where' -ex continue "$1" 2>&1) || { echo "$out"; exit 1; }
expect() { grep -qF -- "$1" <<<"$out" || { printf 'missing: %s\n%s\n' "$1" "$out"; exit 1; }; }
expect 'Tensor(int64 [3, 2] on cpu: 0, 3, 1, 4, 2, 5)'
expect 'Tensor(bfloat16 [2] on cpu: 1.5, -2, requires_grad)'
expect 'Tensor(undefined)'
expect '[2, 3]'
expect '= cpu'
expect 'no op was recorded'
expect '= Node(sqrt at '
expect 'program.cpp:20, hooks: gradient)'
expect '= View(float32 [2] on cpu: 0, 4)'
graph=$(sed -n '/^Tensor(float32 \[\] on cpu: 16, requires_grad)$/,/^depth$/p' <<<"$out" | sed 's|at .*/|at |')
[[ $graph == *'
  sum at program.cpp:22
    mul at program.cpp:22
      sqrt at program.cpp:20, hooks: gradient
        mul at program.cpp:20
          a leaf
          accumulate_grad, as above
      sqrt, as above
depth'* ]] || { printf 'another graph:\n%s\n%s\n' "$graph" "$out"; exit 1; }
forward=$(sed -n '/weft: stopped before log/,/weft: stopped after sqrt/p' <<<"$out")
backward=$(sed -n '/weft: stopped after sqrt/,$p' <<<"$out")
out=$forward
expect 'received signal SIGTRAP'
expect '  input: float32 [2] on cpu: 0, 4'
expect 'in main () at '
expect '26	  log(x.detach());'
expect 'Tensor(float32 [2] on cpu: 0, 4, requires_grad)'
out=$backward
expect '  incoming: Tensor(float32 [2] on cpu: 0, 8'
expect '  outgoing: Tensor(float32 [2] on cpu: '
expect '28	  loss.backward();'
expect 'exited normally'
