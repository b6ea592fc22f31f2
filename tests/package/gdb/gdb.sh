#!/usr/bin/env bash
# Prints tensors of a program in gdb: gdb.sh PROGRAM PRINTER
set -euo pipefail
command -v gdb >/dev/null || { echo "gdb was not found"; exit 77; }
out=$(gdb -q -batch -ex "source $2" -ex 'break stop' -ex run -ex 'print matrix' -ex 'print leaf' -ex 'print none' \
  -ex 'print shape' -ex 'print device' "$1" 2>&1) || { echo "$out"; exit 1; }
expect() { grep -qF -- "$1" <<<"$out" || { printf 'missing: %s\n%s\n' "$1" "$out"; exit 1; }; }
expect 'Tensor(int64 [3, 2] on cpu: 0, 3, 1, 4, 2, 5)'
expect 'Tensor(bfloat16 [2] on cpu: 1.5, -2, requires_grad)'
expect 'Tensor(undefined)'
expect '[2, 3]'
expect '= cpu'
