// A library of ops, built by a test outside of the tree. NAME is the op's name, FACTOR its factor; STATIC registers at
// namespace scope, and OTHER_VERSION simulates headers of Weft 7.3.
#ifdef OTHER_VERSION
#include <weft/tensor/version.hpp>
namespace weft::detail {
inline constexpr int other_version = 7003;
}
#define header_version other_version
#endif
#include <weft/ops/library.hpp>
#include <weft/ops/pointwise.hpp>

namespace {

weft::OpBuilder op() {
  weft::OpBuilder builder(NAME);
  builder.schema("(x)")
      .kernel(weft::DeviceType::cpu, weft::floating_dtypes, [](const weft::Tensor& x) { return x * FACTOR; })
      .backward([](const weft::OpGradient& g) { return g.gradient() * FACTOR; })
      .infer_meta([](const weft::Tensor& x) {
        return weft::TensorMeta{x.shape(), x.dtype()};
      })
      .samples([](weft::SampleMaker& make) {
        return std::vector<weft::Values>{{make.tensor({2, 3})}};
      })
      .document("x times a number.");
  return builder;
}

}  // namespace

#ifdef POLICY
constexpr weft::OpPolicy policy = weft::OpPolicy::POLICY;
#else
constexpr weft::OpPolicy policy = weft::OpPolicy::error;
#endif

#if defined(STATIC)
const weft::RegisterOp registered(op(), policy);
#elif !defined(EMPTY)
extern "C" void weft_register_ops(weft::OpLibrary& library) {
  library.keep(op().register_(policy));
#ifdef BREAK
  throw weft::ValueError("this library does not want to be loaded");
#endif
}
#endif
