// An outside program: loads a library of ops and calls one.
#include <cstdio>

#include <weft/ops/library.hpp>
#include <weft/weft.hpp>

int main(int, char** argv) {
  const auto names = weft::load_library(argv[1]);
  const double twice = weft::call_op("outside::times", weft::tensor({1.5})).item<double>();
  std::printf("%s gives %g\n", names.at(0).c_str(), twice);
  return twice == 3 ? 0 : 1;
}
