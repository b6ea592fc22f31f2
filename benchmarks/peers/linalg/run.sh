#!/usr/bin/env bash
# What linear algebra could stand on: Eigen, and LAPACK on its own BLAS and on BLIS, each with its program's size.
# On Debian: apt-get install libeigen3-dev liblapack-dev libblas-dev libblis-serial-dev gfortran
# usage: run.sh [CORE]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
libraries=/usr/lib/$(uname -m)-linux-gnu
fortran=(-Wl,--as-needed -l:libgfortran.so.5 -lpthread -lm)
g++ -std=c++20 -O3 -march=native -w -I/usr/include/eigen3 "$here/eigen.cpp" -o "$folder/eigen"
g++ -std=c++20 -O2 "$here/lapack.cpp" "$libraries"/lapack/liblapack.a "$libraries"/blas/libblas.a "${fortran[@]}" -o "$folder/lapack"
g++ -std=c++20 -O2 "$here/lapack.cpp" "$libraries"/lapack/liblapack.a "$libraries"/blis-serial/libblis.a "${fortran[@]}" -o "$folder/lapack-blis"
for program in eigen lapack lapack-blis; do
  strip "$folder/$program"
  echo "== $program, $(stat -c %s "$folder/$program") bytes"
  taskset -c "${1:-0}" "$folder/$program"
done
