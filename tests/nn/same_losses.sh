#!/usr/bin/env bash
# The character GPT and the ConvNet have the CPU's losses on another device, for 50 steps each.
# usage: same_losses.sh FOLDER_OF_EXAMPLES DEVICE
set -euo pipefail
programs=$1 device=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# numbers FILE WORD: those behind a word, one a line
numbers() { tr '\r' '\n' <"$1" | grep -oE "$2\"?:? +[0-9.]+" | grep -oE '[0-9.]+$'; }

for on in cpu "$device"; do
  "$programs/weft-train" --preset tiny --length 5 --steps 50 --device "$on" --out "gpt.${on//:/}" >/dev/null
  numbers "gpt.${on//:/}/metrics.jsonl" train_loss >"gpt.${on//:/}.losses"
  "$programs/weft-vision" --images 800 --batch 16 --epochs 1 --device "$on" --out v >"vision.${on//:/}.words"
  numbers "vision.${on//:/}.words" loss >"vision.${on//:/}.losses"
done
for net in gpt vision; do
  paste "$net.cpu.losses" "$net.${device//:/}.losses" | awk -v net="$net" '
    { difference = $1 > $2 ? $1 - $2 : $2 - $1; if (NF != 2 || difference > 2e-4 * $1) { print net, "line", NR ":", $0; wrong = 1 } }
    END { print net ": " NR " losses, from", first, "to", $1; exit wrong || NR < 5 }
    NR == 1 { first = $1 }'
done
