#!/bin/sh
# finds.sh PROGRAM CHECK DEVICE: the check runs on a device that does it wrong, and is found to deviate.
output=$("$1" --device "$3" --only "$2")
status=$?
printf '%s\n' "$output"
[ "$status" = 1 ] && printf '%s\n' "$output" | grep -q "^DEVIATION $2: expected .*, came .*--only $2\$"
