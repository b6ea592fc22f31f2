#!/usr/bin/env bash
# The character GPT whose blocks compute in 8-bit floats ends within 1 % of the loss that it has in bfloat16.
# usage: same_fp8_loss.sh PROGRAM
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
loss() { tail -1 "$folder/$1/metrics.jsonl" | grep -oE '"val_loss": [0-9.]+' | grep -oE '[0-9.]+$'; }
for precision in mixed fp8; do
  "$1" --preset tiny --steps 300 --length 1 --out "$folder/$precision" --$precision >/dev/null
done
echo "loss in bfloat16 $(loss mixed), in 8-bit floats $(loss fp8)"
[[ $(loss mixed) != $(loss fp8) ]] || { echo "nothing was computed in 8-bit floats"; exit 1; }
awk -v a="$(loss mixed)" -v b="$(loss fp8)" 'BEGIN { d = a > b ? a - b : b - a; exit !(a < 3.2 && d <= 0.01 * a) }'
