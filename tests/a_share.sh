#!/usr/bin/env bash
# a_share.sh NUMBER PROGRAM ARGUMENT...: every third test of a GoogleTest program, from NUMBER on; all of them with
# WEFT_TEST_LARGE=1.
set -euo pipefail
if [[ -z ${WEFT_TEST_LARGE:-} ]]; then
  export GTEST_TOTAL_SHARDS=3 GTEST_SHARD_INDEX=$(($1 % 3))
fi
exec "${@:2}"
