#!/usr/bin/env bash
# The character GPT that computes its products in bfloat16 ends within 2 % of the loss that it has in float32.
# usage: same_mixed_loss.sh PROGRAM
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
loss() { tail -1 "$folder/$1/metrics.jsonl" | grep -oE '"val_loss": [0-9.]+' | grep -oE '[0-9.]+$'; }
for precision in full mixed; do
  flag=$([[ $precision == mixed ]] && echo --mixed || true)
  "$1" --preset tiny --steps 300 --length 1 --out "$folder/$precision" $flag >/dev/null
done
echo "loss in float32 $(loss full), in bfloat16 $(loss mixed)"
[[ $(loss full) != $(loss mixed) ]] || { echo "nothing was computed in bfloat16"; exit 1; }
awk -v a="$(loss full)" -v b="$(loss mixed)" 'BEGIN { d = a > b ? a - b : b - a; exit !(a < 3.2 && d <= 0.02 * a) }'
