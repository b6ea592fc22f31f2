#!/bin/sh
# Wrong calls of modules must not compile, and the compiler must say why within ten lines.
# Usage: refused_calls.sh <compiler> <include folder>
set -u
compiler=$1
include=$2
failed=0
program=$(mktemp --suffix=.cpp)
trap 'rm -f "$program"' EXIT

compile() {
  cat >"$program" <<EOF
#include <weft/nn/layers.hpp>
#include <string>
using namespace weft;
struct Net : nn::Layer<Net> { Tensor forward(const Tensor& x) const { return x; } };
struct Two : nn::Layer<Two> { Tensor forward(const Tensor& x, const Tensor& y, double s = 1) const { return x; } };
struct Counts : nn::Layer<Counts> { int n = 0; Tensor forward(const Tensor& x) { return ++n, x; } };
struct Batch { Tensor x; };
struct Reads : nn::Layer<Reads> { Tensor forward(const Batch& b) const { return b.x; } };
struct Empty : nn::Layer<Empty> {};
struct Hides : nn::Layer<Hides> { private: Tensor forward(const Tensor& x) const { return x; } };
void f(const Tensor& x, Net& net, Two& two, Reads& reads, Empty& empty, Hides& hides, const Counts& counts, Batch& b) {
  $1
}
EOF
  "$compiler" -std=c++20 -fsyntax-only -I"$include" "$program" 2>&1
}
refuse() {
  if said=$(compile "$1"); then
    echo "compiles, but should not: $1"
    failed=1
    return
  fi
  lines=$(echo "$said" | wc -l)
  if ! echo "$said" | grep -qF "$2" || [ "$lines" -gt 10 ]; then
    printf 'says "%s" not or not within ten lines (%s): %s\n%s\n' "$2" "$lines" "$1" "$said"
    failed=1
  fi
}

if ! said=$(compile 'net(x); Tensor y = two(x, x); two(x, x[0], 2); reads(b); Counts()(x); net(x[0]);'); then
  printf 'should compile:\n%s\n' "$said"
  failed=1
fi
others='forward() is missing, is not public, or takes other arguments'
refuse 'net(3);' "$others"
refuse 'net(std::string("x"));' "$others"
refuse 'net(x, x);' "$others"
refuse 'net();' "$others"
refuse 'Tensor y = net(x, 1).sum();' "$others"
refuse 'auto y = two(x);' "$others"
refuse 'two(x, std::string());' "$others"
refuse 'reads(x);' "$others"
refuse 'empty(x);' "$others"
refuse 'hides(x);' "$others"
refuse 'nn::Linear(2, 2)(x, x, x);' "$others"
refuse 'counts(x);' 'write `Tensor forward(const Tensor& x) const`'
refuse 'nn::Sequential(net, 3);' 'wrap other modules in a lambda'
refuse 'nn::Sequential{two};' 'wrap other modules in a lambda'
refuse 'nn::Sequential().append(reads);' 'wrap other modules in a lambda'
refuse 'nn::Sequential(net)[0].as<int>();' 'needs a class of modules'
exit $failed
