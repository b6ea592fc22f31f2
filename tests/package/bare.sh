#!/usr/bin/env bash
# What a new user does in a bare Debian 12, from a clone: bare.sh SOURCE WORK [--full]
# Trains two steps, then runs the tests of tensors, or with --full (or WEFT_TEST_BARE=full) every test. Uncommitted changes are
# not in the clone. WEFT_TEST_CCACHE=FOLDER is copied into the root, so that less is compiled.
set -Eeuo pipefail
trap 'echo "line $LINENO failed: $BASH_COMMAND"' ERR
[[ ${WEFT_TEST_LARGE:-} ]] || { echo "SKIPPED: compiles everything: run it by ./weft test -L large"; exit 77; }
source=$(realpath "$1") work=$(realpath -m "$2")
tests=(-R tensor)
[[ ${3:-} != --full && ${WEFT_TEST_BARE:-} != full ]] || tests=()
root=$work/root
source "$source/tests/package/bare_root.sh"
skip_unless_bare_root_works
make_bare_root "$work"
root_environment=(WEFT_JOBS="${WEFT_JOBS:-$(nproc)}" CCACHE_DIR=/root/ccache)
git clone -q "$source" "$root/root/weft"
[[ ! ${WEFT_TEST_CCACHE:-} ]] || cp -a "$WEFT_TEST_CCACHE" "$root/root/ccache"
# PyPI by this machine's certificates, where they are set.
if [[ -e ${PIP_CERT:-} ]]; then
  mkdir -p "$root/etc/ssl"
  cp "$PIP_CERT" "$root/etc/ssl/pip.pem"
  root_environment+=(PIP_CERT=/etc/ssl/pip.pem)
fi
run_in_clone() { in_root sh -c 'cd /root/weft && exec ./weft "$@"' weft "$@"; }
measure "./weft train --steps 2" run_in_clone train --steps 2
# The tests that ask for root's absence or for other machines skip themselves.
measure "./weft test ${tests[*]}" run_in_clone test "${tests[@]}"
leave_bare_root
rm -rf "$root"
