#!/usr/bin/env bash
# Which program `./weft train …` runs, and with which arguments. usage: train_command.sh ROOT
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/build/release/examples"
touch "$work/build/release/build.ninja"
cp "$1/weft" "$work"
# Nothing is installed or compiled; programs say how they were called.
printf '#!/bin/sh\nexit 0\n' >"$work/bin/ninja"
printf '#!/bin/sh\nprintf installed\n' >"$work/bin/dpkg-query"
for program in train training_loop spiral vision vae lstm_text finetune; do
  printf '#!/bin/sh\necho "$(basename "$0")" "$@"\n' >"$work/build/release/examples/weft-${program//_/-}"
done
chmod +x "$work"/bin/* "$work"/build/release/examples/*

failed=0
expect() {
  local wanted=$1 said
  said=$(PATH="$work/bin:$PATH" "$work/weft" train "${@:2}" 2>&1 | tail -1) || true
  [[ $said == "$wanted" ]] || { echo "weft train ${*:2}: \"$said\" instead of \"$wanted\""; failed=1; }
}
expect "weft-train"
expect "weft-train --steps 3" --steps 3
expect "weft-train --device cpu" --device cpu
expect "weft-training-loop" xor
expect "weft-vision --epochs 1" vision --epochs 1
expect "weft-lstm-text" lstm
exit $failed
