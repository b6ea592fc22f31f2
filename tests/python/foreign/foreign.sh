#!/usr/bin/env bash
# Runs PyTorch's own Python tests with Weft in PyTorch's place and prints passed, failed and not counted per file.
#
#   tests/python/foreign/foreign.sh [--only FILE,FILE] [--match TEXT] [--list-failures] [--json PATH]
#
# The sources are those of Debian's package pytorch. They are fetched with apt-get into a cache folder outside of this
# repository; nothing of them is stored in it. WEFT_FOREIGN is the cache folder, WEFT_PYTHON the Python that Weft was
# built for, PYTHONPATH the folder of its module.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${WEFT_FOREIGN:-${XDG_CACHE_HOME:-$HOME/.cache}/weft-foreign}
python=${WEFT_PYTHON:-python3}

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
}

if [ ! -d "$cache/python/test" ]; then
  ls "$cache"/source/pytorch_*.orig.tar.xz > /dev/null 2>&1 || fetch
  mkdir -p "$cache/python"
  tar xf "$cache"/source/pytorch_*.orig.tar.xz -C "$cache/python" --strip-components=1 --wildcards \
    '*/test/*.py' '*/test/distributions/*' '*/test/nn/*' '*/test/autograd/*' '*/test/optim/*' '*/torch/testing/*' || true
fi
if [ ! -x "$cache/venv/bin/python" ]; then
  "$python" -m venv "$cache/venv"
  # The releases that PyTorch 1.13 was tested with.
  "$cache/venv/bin/pip" install -q "numpy<1.24" "scipy<1.11" "setuptools<70" expecttest hypothesis pytest packaging
fi
exec "$cache/venv/bin/python" "$here/foreign.py" --sources "$cache/python" "$@"
