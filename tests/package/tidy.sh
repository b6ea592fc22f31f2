#!/usr/bin/env bash
# The public headers are clean under .clang-tidy. usage: tidy.sh CLANG_TIDY ROOT INCLUDE_FOLDER
set -euo pipefail
[[ -x $1 ]] || { echo "SKIPPED: clang-tidy 19 or later was not found"; exit 77; }
probe=$(mktemp --suffix=.cpp)
trap 'rm -f "$probe"' EXIT
echo '#include <weft/weft.hpp>' >"$probe"
"$1" --quiet --config-file="$2/.clang-tidy" --warnings-as-errors='*' "$probe" -- -std=c++20 -I"$3" -x c++
