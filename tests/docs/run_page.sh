#!/bin/sh
# Runs a program in an empty folder that is removed afterwards. Usage: run_page.sh <program>
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"$1"
