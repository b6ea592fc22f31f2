// log at /work/main/tests/python/test_hooks.py:201 made NaN.
// In CMake: find_package(weft REQUIRED), target_link_libraries(program PRIVATE weft::weft). Run it in this folder, with
// the name of a device if you like: it ends with 1 where the fault is there.
#include <weft/ops/library.hpp>
#include <weft/weft.hpp>

#include <cmath>
#include <iostream>

using namespace weft;

int main(int argc, char** argv) {
  const Device device(argc > 1 ? argv[1] : "cpu");
  const io::TensorMap kept = io::load_file("tensors.safetensors");
  const Tensor x = kept.at("x").to(device);
  const std::vector<Tensor> results = {weft::log(x)};
  const std::vector<Tensor>& made = results;
  for (const Tensor& t : {x}) std::cout << "read " << t << '\n';
  bool happens = false;
  for (const Tensor& t : made) {
    if (!t.defined()) continue;
    std::cout << "made " << t << '\n';
    happens |= (isnan(t)).any().item<bool>();
  }
  return happens ? 1 : 0;
}
