#!/usr/bin/env bash
# Every public header compiles alone, includes nothing that users should not need, and defines only WEFT_ macros.
# usage: headers.sh COMPILER INCLUDE_FOLDER HEADER...
set -euo pipefail
export compiler=$1 include=$2
shift 2
forbidden='/(fmt|xtensor|xtl|xsimd|hwy|level_zero|oneapi|nlohmann|CLI)/|/(cuda|cublas|cudnn|nccl|cblas|dnnl)[^/]*\.h'
export forbidden

check() {
  local header=$1 failed=0 seen
  if ! seen=$(printf '#include <weft/%s>\n' "$header" |
    "$compiler" -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I"$include" -H -x c++ - 2>&1); then
    printf '%s does not compile alone:\n%s\n' "$header" "$(grep -v '^[.!x]* /' <<<"$seen" | head -30)"
    return 1
  fi
  # A bridge to xtensor includes it: that is its purpose, and its user asked for it.
  if [[ $header != */xtensor.hpp ]] && grep -E "^\.+ .*($forbidden)" <<<"$seen"; then
    printf '%s includes what no public header may\n' "$header"
    failed=1
  fi
  if grep -nE '^[[:space:]]*#[[:space:]]*define[[:space:]]' "$include/weft/$header" |
    grep -vE 'define[[:space:]]+WEFT_'; then
    printf '%s defines a macro without the prefix WEFT_\n' "$header"
    failed=1
  fi
  return $failed
}
export -f check

printf '%s\0' "$@" | xargs -0 -n 1 -P "$(nproc)" bash -c 'check "$0"' || { echo FAILED; exit 1; }
echo "$# headers"
