#!/bin/sh
# Builds the stub device as its author would: a copy of its folder, elsewhere, against Weft's package.
# Usage: build_stub.sh CMAKE SOURCES TARGET_FOLDER WEFT_PACKAGE COMPILER
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp "$2"/* "$folder"
"$1" -S "$folder" -B "$folder/build" -Dweft_DIR="$4" -DCMAKE_CXX_COMPILER="$5" >/dev/null
"$1" --build "$folder/build"
mkdir -p "$3"
# Under a new name first: a program may be using the old object.
for kind in stub stub2; do cp "$folder/build/$kind.so" "$3/.$kind.so" && mv "$3/.$kind.so" "$3/$kind.so"; done
