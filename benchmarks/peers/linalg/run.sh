#!/usr/bin/env bash
# Compares candidates for linear algebra: LAPACK on its own BLAS and on BLIS, and Eigen, each with its program's size.
# Eigen is last, because compiling it takes longer than all measurements.
# On Debian: apt-get install libeigen3-dev liblapack-dev libblas-dev libblis-serial-dev gfortran
# usage: run.sh [CORE [lapack|lapack-blis|eigen]...]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
libraries=/usr/lib/$(uname -m)-linux-gnu
fortran=(-Wl,--as-needed -l:libgfortran.so.5 -lpthread -lm)
core=${1:-0}
programs=("${@:2}")
[[ ${#programs[@]} -gt 0 ]] || programs=(lapack lapack-blis eigen)
for program in "${programs[@]}"; do
  case $program in
    lapack) build=(-O2 "$here/lapack.cpp" "$libraries/lapack/liblapack.a" "$libraries/blas/libblas.a" "${fortran[@]}") ;;
    lapack-blis) build=(-O2 "$here/lapack.cpp" "$libraries/lapack/liblapack.a" "$libraries/blis-serial/libblis.a" "${fortran[@]}") ;;
    eigen) build=(-O3 -march=native -w -I/usr/include/eigen3 "$here/eigen.cpp") ;;
    *) echo "there is no program $program" >&2 && exit 2 ;;
  esac
  g++ -std=c++20 "${build[@]}" -o "$folder/$program"
  strip "$folder/$program"
  echo "== $program, $(stat -c %s "$folder/$program") bytes"
  taskset -c "$core" "$folder/$program"
done
