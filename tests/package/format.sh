#!/usr/bin/env bash
# The sources are as clang-format writes them. usage: format.sh CLANG_FORMAT ROOT
set -euo pipefail
[[ -x $1 ]] || { echo "SKIPPED: clang-format-14 was not found"; exit 77; }
cd "$2"
folders=()
for folder in tensor backends autograd ops map func distributions sparse hooks optim nn io data generate train python distributed examples benchmarks tests; do
  [[ ! -d $folder ]] || folders+=("$folder")
done
{
  find . -maxdepth 1 -name '*.hpp' -print0
  find "${folders[@]}" -regextype posix-extended -regex '.*\.(hpp|cpp|h|c|cu|cuh)' -print0
} | xargs -0 -n 8 -P "$(nproc)" "$1" --dry-run -Werror --ferror-limit=3
