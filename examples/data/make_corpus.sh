#!/usr/bin/env bash
# Writes the project's sources and documents, without tests, to corpus.txt, sorted by path.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
git ls-files -z --cached --others --exclude-standard -- \
  '*.md' 'weft.hpp' {tensor,backends,autograd,ops,hooks,nn,io,examples}'/*.hpp' {tensor,autograd,ops,hooks,nn,io,examples}'/*.cpp' |
  LC_ALL=C sort -z | xargs -0 cat >"$here/corpus.txt"
