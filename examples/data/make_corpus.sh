#!/usr/bin/env bash
# Freezes the project's own sources and documents, tests aside, into corpus.txt, in order of their paths.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
git ls-files -z --cached --others --exclude-standard -- \
  '*.md' 'weft.hpp' {tensor,backends,autograd,ops,hooks,nn,io,examples}'/*.hpp' {tensor,autograd,ops,hooks,nn,io,examples}'/*.cpp' |
  LC_ALL=C sort -z | xargs -0 cat >"$here/corpus.txt"
