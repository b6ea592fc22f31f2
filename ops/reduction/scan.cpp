#include "../scan.hpp"

#include "../detail/autocast.hpp"
#include "../detail/write.hpp"
#include "../detail/records.hpp"
#include "../detail/complex.hpp"
#include "../detail/reducing.hpp"
#include "../detail/parts.hpp"

namespace weft {

namespace {

void run_cumsum(const Tensor& out, const Tensor& x, int dim, bool exclusive, bool reverse) {
  const auto kernel = WEFT_KERNEL(cumsum, x);
  each_part(out.raw_view(), x.raw_view(), [&](const View& sums, const View& part) {
    kernel(at_least_1d(sums), at_least_1d(part), dim, exclusive, reverse);
  });
}

struct CumsumBackward {
  int dim;
  bool exclusive, reverse;
  Tensor operator()(Tensor&& g) { return cumsum(g, dim, exclusive, !reverse); }
};

}  // namespace

Tensor cumsum(const Tensor& operand, std::optional<int64_t> dim, bool exclusive, bool reverse,
              std::optional<DType> dtype, Location where) {
  const CallScope call("cumsum", where);
  WEFT_IN_FULL(cumsum, operand, dim, exclusive, reverse, dtype, where);
  checked(operand);
  if (!dim) return cumsum(operand.reshape({-1}), 0, exclusive, reverse, dtype);
  const int along = wrap_dim(*dim, operand.dim());
  const Tensor x = operand.to(sum_type(operand, dtype));
  Tensor out = make_like(x);
  run_cumsum(out, x, along, exclusive, reverse);
  if (should_record(x)) record(out, CumsumBackward{along, exclusive, reverse}, x);
  return out;
}

const Tensor& cumsum_(const Tensor& x, int64_t dim, bool exclusive, bool reverse, Location where) {
  const CallScope call("cumsum_", where);
  const int along = wrap_dim(dim, checked(x).dim());
  if (sum_type(x) != x.dtype()) {
    raise<DTypeError>({.problem = fmt::format("sums of {} are int64 and do not fit in place", name(x.dtype())),
                       .remedy = "use cumsum"});
  }
  check_target(x);
  write_recorded(
      x, [&] { run_cumsum(x, x, along, exclusive, reverse); },
      [&] {
        return CumsumBackward{along, exclusive, reverse};
      },
      x);
  return x;
}

namespace {

std::vector<Values> cumsum_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), int64_t{1}},
          {make.tensor({2, 3, 2}), int64_t{-2}, true, false},
          {make.tensor({4}), int64_t{0}, false, true},
          {make.tensor({2, 2}), std::monostate{}, true, true},
          {make.tensor({}), int64_t{0}},
          {make.tensor({0, 3}), int64_t{0}}};
}

constexpr OpRecord records[] = {
    {"cumsum",
     "cumsum(x, dim=None, exclusive=False, reverse=False, *, dtype=None)",
     "Prefix sums along dim, or of the flattened tensor. exclusive leaves the element itself out, reverse sums from "
     "the "
     "end. Integers give int64; 16-bit floats accumulate in float32.",
     OpFacts(true, Autocast::full),
     OpRecord::Domain::any,
     cumsum_samples,
     parts::along,
     detail::boxed<weft::cumsum>,
     {},
     detail::boxed<+[](const Tensor& x, int64_t dim, bool exclusive, bool reverse) -> const Tensor& {
       return cumsum_(x, dim, exclusive, reverse);
     }>},
};

}  // namespace

std::span<const OpRecord> scan_records() { return records; }

}  // namespace weft
