#!/bin/sh
# every_check.sh PROGRAM: for each check but those of ops a test in this folder names a device that fails it.
folder=$(dirname "$0")
names=$("$1" --device hpu | sed -n 's/^\([a-z]*\.[a-z_]*\)  *\(agrees\|deviates\).*/\1/p' | grep -v '^ops\.')
[ "$(printf '%s\n' "$names" | wc -l)" -gt 20 ] || { echo "the checks were not found"; exit 1; }
status=0
for name in $names; do
  grep -qw -e "$name" "$folder/CMakeLists.txt" "$folder/conform_test.cpp" || { echo "nothing fails $name"; status=1; }
done
exit $status
