#!/usr/bin/env bash
# A program whose own names are hidden finds all that it uses in the shared library that libweft.a would be. Linked, not run.
set -euo pipefail
compiler=$1 build=$2 source=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$compiler" -shared -o "$folder/libweft.so" -Wl,--whole-archive "$build/libweft.a" -Wl,--no-whole-archive
"$compiler" -std=c++20 -DWEFT_SHARED -fvisibility=hidden -I "$build/include" "$source/exports.cpp" -o "$folder/program" \
  -L "$folder" -lweft -Wl,--allow-shlib-undefined
