// What needs RTTI in other libraries: layers by their class, errors by their type, metrics by name.
#include <cstdio>
#include <sstream>

#include <weft/nn/registry.hpp>
#include <weft/train/evaluation.hpp>
#include <weft/weft.hpp>

using namespace weft;

namespace {

struct Net : nn::Layer<Net> {
  nn::Sequential body{nn::Linear(2, 3), nn::ReLU()};
  nn::ModuleList<nn::Linear> heads{nn::Linear(3, 1)};
  Net() { WEFT_REGISTER(body, heads); }
  Tensor forward(const Tensor& x) const { return heads[0](body(x)); }
};

template <class E, class F>
bool raises(const F& f) {
  try {
    f();
  } catch (const E&) {
    return true;
  }
  return false;
}

}  // namespace

int main() {
  Net net;
  std::ostringstream text;
  text << net;
  const nn::Module built = nn::ModuleRegistry::standard().build(nn::ModuleRegistry::standard().describe(net.body));
  train::Evaluation evaluation;
  evaluation.mean("loss").update(2);
  const bool checks[] = {
      net.body[0].as<nn::Linear>().weight.shape() == Dims{3, 2},
      raises<ValueError>([&] { (void)net.body[0].as<nn::ReLU>(); }),
      raises<ValueError>([&] { (void)evaluation.metric<train::Accuracy>("loss"); }),
      raises<ShapeError>([&] {
        (void)net(ones({1, 5}));
      }),
      raises<Error>([&] { (void)ones({2})[3].item(); }),
      text.str().find("Net") == 0,
      built.class_name() == "Sequential",
      nn::Layer<Net>(net).class_name() == "Net",
  };
  int failed = 0;
  for (const bool holds : checks) failed += holds ? 0 : 1;
  std::printf("%d checks failed\n", failed);
  return failed;
}
