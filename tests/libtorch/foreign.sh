#!/usr/bin/env bash
# Compiles PyTorch's own C++ tests against Weft's libtorch interface and runs them.
#
#   tests/libtorch/foreign.sh [--only NAME,NAME] [--syntax] [--list-failures]
#
# The sources are those of Debian's package pytorch. They are fetched with apt-get into a cache folder outside of this
# repository; nothing of them is stored in it. WEFT_FOREIGN is the cache folder, WEFT_TORCH_CXX the compiler with its
# include folders, WEFT_TORCH_LIBS the libraries of the programs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${WEFT_FOREIGN:-${XDG_CACHE_HOME:-$HOME/.cache}/weft-foreign}

fetch() {
  mkdir -p "$cache"/{lists,parts,archives/partial,source}
  # The system's own archives, with their sources.
  cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | sed -n 's/^deb /deb-src /p' > "$cache/sources.list" || true
  for part in /etc/apt/sources.list.d/*.sources; do
    [ -f "$part" ] && sed 's/^Types:.*/Types: deb-src/' "$part" > "$cache/parts/$(basename "$part")"
  done
  local options=(-qq -o Dir::Etc::sourcelist="$cache/sources.list" -o Dir::Etc::sourceparts="$cache/parts"
    -o Dir::State::lists="$cache/lists" -o Dir::Cache="$cache")
  apt-get "${options[@]}" update
  # The archive of the original sources is enough: without Debian's patches the tests are the same.
  (cd "$cache/source" && apt-get "${options[@]}" source --download-only pytorch || true)
  mkdir -p "$cache/pytorch"
  tar xf "$cache"/source/pytorch_*.orig.tar.xz -C "$cache/pytorch" --strip-components=1 \
    --wildcards '*/test/cpp/api/*' '*/test/cpp/common/*'
}

[ -d "$cache/pytorch/test/cpp/api" ] || fetch
exec python3 "$here/foreign.py" --cache "$cache" --expected "$here/expected.txt" "$@"
