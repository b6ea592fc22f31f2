#!/usr/bin/env bash
# Public headers compile in any order, with their templates instantiated after them. With WEFT_TEST_LARGE, each header
# comes first in one order.
# usage: header_orders.sh COMPILER INCLUDE_FOLDER PROGRAM HEADER...
set -euo pipefail
export compiler=$1 include=$2 program=$3
shift 3
headers=("$@")

check() {
  local said
  if ! said=$({ printf '#include <weft/%s>\n' "$@" && printf '#include "%s"\n' "$program"; } |
    "$compiler" -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I"$include" -x c++ - 2>&1); then
    printf 'headers in the order %s … do not compile:\n%s\n' "${*:1:8}" "$(head -20 <<<"$said")"
    return 1
  fi
}
export -f check

# Every header in a random order, the same in each run.
orders() {
  local first seed
  for seed in 1 2 3 4; do
    printf '%s\n' "${headers[@]}" | awk -v seed="$seed" 'BEGIN { srand(seed) } { print rand(), $0 }' | sort -n |
      cut -d ' ' -f 2 | tr '\n' ' ' && echo
  done
  [[ -z ${WEFT_TEST_LARGE:-} ]] || for first in "${headers[@]}"; do echo "$first weft.hpp ops/library.hpp func/func.hpp"; done
}
orders | xargs -P "$(nproc)" -I ORDER bash -c 'check ORDER' || { echo FAILED; exit 1; }
echo "$# headers"
