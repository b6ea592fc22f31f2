#!/bin/sh
# What must not compile, and what the compiler must then say.
# Usage: refused.sh <compiler> <include folder>
set -u
compiler=$1
include=$2
failed=0

compile() {
  printf '#include <weft/tensor/index.hpp>\nusing namespace weft;\nvoid f(const Tensor& x, const Tensor& mask) {\n  %s\n}\n' "$1" |
    "$compiler" -std=c++20 -fsyntax-only -I"$include" -x c++ - 2>&1
}
refuse() {
  if said=$(compile "$1"); then
    echo "compiles, but should not: $1"
    failed=1
  elif ! echo "$said" | grep -qF "$2"; then
    printf 'does not say "%s": %s\n%s\n' "$2" "$1" "$said"
    failed=1
  fi
}

warn() {
  if ! compile "$1" | grep -qF "$2"; then
    printf 'does not warn "%s": %s\n' "$2" "$1"
    failed=1
  fi
}

if ! said=$(compile 'auto y = x[mask]; (void)y.sum(); y + 1; Tensor z = y; y[0][1] = 3; y = z; (void)x[mask].sum(); x[mask] + 1; x[0] = 1; x.add_(1);'); then
  printf 'should compile:\n%s\n' "$said"
  failed=1
fi
refuse 'auto y = x[0]; y = 1;' 'error'
warn 'x.to(f64);' "ignoring return value"
warn 'x[0].contiguous();' "ignoring return value"
warn 'x.view({-1});' "ignoring return value"
refuse 'x.view(4, 1);' 'in braces: x.view({4, 1})'
refuse 'x[0].permute(1, 0, 2);' 'in braces: x.view({4, 1})'
refuse 'x[0.5];' 'error'
condition='a tensor is not a condition: write equal(a, b), all(a).item<bool>()'
refuse 'if (x == mask) return;' "$condition"
refuse 'if (!x) return;' "$condition"
refuse 'while (x) return;' "$condition"
refuse 'bool both = x && mask;' "$condition"
refuse 'int n = x ? 1 : 2;' "$condition"
refuse 'if (x[0]) return;' "$condition"
refuse 'bool b(x > 1);' "$condition"
exit $failed
