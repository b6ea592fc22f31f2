#!/usr/bin/env bash
# Includes point up the list of rooms that ARCHITECTURE.md gives, and resolve from the files themselves.
# usage: arrows.sh ROOT
set -euo pipefail
cd "$1"
rooms=(tensor backends autograd ops map func distributions sparse hooks optim nn io data distributed generate train bench python)
# Rows of the pointwise ops without their formulas, from which Tensor's methods are made.
allowed='tensor/tensor.hpp backends/functors/rows.hpp'

declare -A height
for i in "${!rooms[@]}"; do height[${rooms[i]}]=$i; done
failed=0 arrows=0
while IFS=: read -r file line; do
  if [[ $line == *'<weft/'* ]]; then
    echo "$file: $line: inside, an include is a path from the file"
    failed=1
    continue
  fi
  name=${line#*\"}
  name=${name%%\"*}
  target=$(realpath -ms --relative-to=. "$(dirname "$file")/$name")
  # What the CPU's backend is made of is its own; mapped functions, batches of data and the roofs of a benchmark run on its
  # threads.
  if [[ $target == backends/cpu/* && ! $file =~ ^(backends|map|data|bench)/ ]]; then
    echo "$file includes $target, which is the backend's own"
    failed=1
  fi
  [[ -e $target || $file == python/* ]] || { echo "$file: $name is not there"; failed=1; }
  from=${height[${file%%/*}]} to=${height[${target%%/*}]:-}
  arrows=$((arrows + 1))
  [[ -z $to || $to -le $from || "$file $target" == "$allowed" ]] && continue
  echo "$file includes $target, which stands below it"
  failed=1
done < <(grep -rsE '^# *include ("|<weft/)' "${rooms[@]}" --include='*.hpp' --include='*.cpp' --include='*.inc' --include='*.cu' --include='*.clcpp')
((arrows > 500)) || { echo "only $arrows includes were found"; failed=1; }
exit "$failed"
