#!/usr/bin/env bash
# Follows docs/adding_a_device.md in an empty folder, and compares the losses on its device with the CPU's.
# Usage: run_device_page.sh PAGE BLOCKS_AWK WEFT_PACKAGE PROGRAMS COMPILER
set -euo pipefail
page=$1 blocks=$2 programs=$4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export weft_DIR=$3 PATH=$programs:$PATH CXX=$5

block() { awk -v language="$1" '$0 == "```" language { on = 1; next } /^```/ { on = 0 } on' "$page"; }
block cmake >CMakeLists.txt
awk -f "$blocks" "$page" >toy.cpp
lines=$(grep -vc '^#line' toy.cpp)
((lines < 400)) || { echo "toy.cpp has $lines lines"; exit 1; }
block sh >commands.sh
bash -eu commands.sh

losses() { sed -n 's/.*"train_loss": *\([^,}]*\).*/\1/p' "$1/metrics.jsonl"; }
weft-train --device cpu --preset tiny --steps 5 --length 20 --out runs/cpu
losses runs/cpu >cpu
losses runs/toy >toy
[[ $(wc -l <cpu) == 5 ]] || { echo "there are no 5 losses:"; cat runs/cpu/metrics.jsonl; exit 1; }
diff cpu toy
echo "toy.cpp has $lines lines; losses of 5 steps are the CPU's: $(tr '\n' ' ' <toy)"
