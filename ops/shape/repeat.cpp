// Each element several times, one after the other.
#include "../create.hpp"
#include "../detail/common.hpp"
#include "../detail/indices.hpp"
#include "../detail/records.hpp"
#include "../index.hpp"
#include "../join.hpp"
#include "../reduce.hpp"
#include "../scan.hpp"
#include "../search.hpp"
#include "../../tensor/checked.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

[[noreturn]] void raise_negative() {
  raise<ValueError>({.problem = "an element cannot be repeated a negative number of times"});
}

// x flattened, unless there is a dimension; which dimension counts then, from 0 on.
struct Lines {
  Tensor x;
  int dim;
};
Lines lines_of(const Tensor& x, std::optional<int64_t> dim) {
  if (!dim) return {checked(x).reshape({-1}), 0};
  const int d = wrap_dim(*dim, checked(x).dim());
  if (x.dim() == 0) raise<IndexError>({.problem = fmt::format("a 0-d tensor has no dimension {}", *dim)});
  return {x, d};
}

Tensor repeated_alike(const Tensor& x, int d, int64_t repeats) {
  if (repeats < 0) raise_negative();
  Dims shape = x.shape();
  const int64_t n = shape[d];
  const Checked size = Checked(n) * repeats;
  if (!size.fits()) {
    raise<ShapeError>(
        {.problem = fmt::format("dimension {} of size {} has too many elements {} times", d, n, repeats)});
  }
  shape[d] = size.value();
  check_sizes(shape, x.dtype());
  if (repeats == 0) return x.narrow(d, 0, 0).clone();
  if (x.numel() == 0) return x.reshape(shape).clone();
  Dims outer, inner;
  for (int i = 0; i < shape.size(); ++i) (i < d ? outer : inner).push_back(x.sizes()[static_cast<size_t>(i)]);
  const int64_t lines = outer.product(), line = inner.product() / n;
  const Tensor out = x.reshape({lines, n, 1, line}).expand({lines, n, repeats, line}).reshape(shape);
  return out.shares_storage(x) ? out.clone() : out;
}

// The numbers as i64, and their sum.
struct Repeats {
  Tensor numbers;
  int64_t total;
};
void check_repeats(const Tensor& repeats) {
  expect_integers("repeats", checked(repeats));
  if (repeats.dim() > 1) raise_rank("repeats", "at most 1 dimension", repeats);
}
Repeats checked_repeats(const Tensor& repeats, std::optional<int64_t> output_size) {
  const NoGradGuard unrecorded;
  const Tensor numbers = index_numbers(repeats).to(DType::i64).contiguous();
  if (output_size && *output_size < 0) raise<ValueError>({.problem = "the output cannot have a negative size"});
  if (is_meta(numbers)) {
    if (output_size) return {numbers, *output_size};
    raise<NotImplementedError>(
        {.problem = "the result's shape follows from values, which meta tensors lack", .remedy = "give output_size"});
  }
  Checked total = 0;
  for (const int64_t n : numbers.to_vector<int64_t>()) {
    if (n < 0) raise_negative();
    total += n;
  }
  if (!total.fits()) raise<ShapeError>({.problem = "the repeats add up to more than 63 bits can count"});
  if (output_size && *output_size != total.value()) {
    raise_value("output_size", fmt::format("{}, the sum of repeats", total.value()), *output_size);
  }
  return {numbers, total.value()};
}

// 0 numbers[0] times, 1 numbers[1] times, …
Tensor positions_of(const Repeats& repeats) {
  const NoGradGuard unrecorded;
  const TensorOptions options{DType::i64, repeats.numbers.device()};
  const Tensor ends = cumsum(repeats.numbers, 0), places = arange(0, repeats.total, 1, options);
  return searchsorted(ends, places, {.right = true});
}

}  // namespace

Tensor repeat_interleave(const Tensor& x, int64_t repeats, std::optional<int64_t> dim, Location where) {
  const CallScope call("repeat_interleave", where);
  const Lines lines = lines_of(x, dim);
  return repeated_alike(lines.x, lines.dim, repeats);
}

Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<int64_t> dim,
                         std::optional<int64_t> output_size, Location where) {
  const CallScope call("repeat_interleave", where);
  check_repeats(repeats);
  const Lines lines = lines_of(x, dim);
  check_same_device({&x, &repeats});
  const int64_t n = lines.x.sizes()[static_cast<size_t>(lines.dim)];
  if (repeats.numel() != 1 && repeats.numel() != n) {
    raise<ShapeError>({.problem = fmt::format("{} repeats for dimension {} of size {}", repeats.numel(), lines.dim, n),
                       .remedy = "give one, or one for each"});
  }
  const Repeats numbers = checked_repeats(repeats.reshape({-1}).expand({n}), output_size);
  Dims shape = lines.x.shape();
  shape[lines.dim] = numbers.total;
  check_sizes(shape, x.dtype());
  return index_select(lines.x, lines.dim, positions_of(numbers));
}

Tensor repeat_interleave(const Tensor& repeats, Location where) {
  const CallScope call("repeat_interleave", where);
  check_repeats(repeats);
  if (repeats.dim() != 1 || (repeats.dtype() != DType::i32 && repeats.dtype() != DType::i64)) {
    raise_dtype("repeats", "int32 or int64 of 1 dimension", describe(repeats));
  }
  return positions_of(checked_repeats(repeats, {})).to(repeats.dtype());
}

namespace {

Tensor call_repeat_interleave(const Tensor& x, const Value& repeats, std::optional<int64_t> dim,
                              std::optional<int64_t> output_size) {
  if (std::holds_alternative<std::monostate>(repeats)) {
    if (dim) throw BadArgument(1);
    const Tensor places = repeat_interleave(x);
    if (output_size && *output_size != places.numel()) {
      raise_value("output_size", fmt::format("{}, the sum of repeats", places.numel()), *output_size);
    }
    return places;
  }
  if (const auto* t = std::get_if<Tensor>(&repeats); t != nullptr) return repeat_interleave(x, *t, dim, output_size);
  if (!std::holds_alternative<int64_t>(repeats)) {
    const std::vector<int64_t> list = integers_in(repeats, 1);
    const Tensor numbers =
        tensor(std::span<const int64_t>(list), Dims(list.size()), DType::i64).to(checked(x).device());
    Checked total = 0;
    for (const int64_t n : list) total += std::max<int64_t>(n, 0);
    if (!output_size && list.size() != 1 && total.fits()) output_size = total.value();
    return repeat_interleave(x, numbers, dim, output_size);
  }
  const int64_t count = std::get<int64_t>(repeats);
  const Lines lines = lines_of(x, dim);
  const Checked total = Checked(count) * lines.x.sizes()[static_cast<size_t>(lines.dim)];
  if (output_size && count >= 0 && (!total.fits() || *output_size != total.value())) {
    raise<ValueError>({.problem = fmt::format("{} repeats do not make {} elements", count, *output_size)});
  }
  return repeat_interleave(x, count, dim);
}

std::vector<Values> repeat_samples(SampleMaker& make) {
  const std::monostate none;
  const Tensor numbers = tensor({2, 0, 3}, TensorOptions{DType::i64, make.device()});
  return {{make.tensor({2, 3}), int64_t{2}},
          {make.tensor({2, 3}), int64_t{3}, int64_t{-2}},
          {make.tensor({}), int64_t{2}},
          {make.tensor({2, 3}), numbers, int64_t{1}},
          {make.tensor({3, 2}), numbers, int64_t{0}, int64_t{5}},
          {make.tensor({3}), Dims{1, 0, 2}},
          {make.tensor({2, 3}), int64_t{0}, int64_t{1}},
          {make.tensor({0, 2}), int64_t{2}, int64_t{1}, none}};
}

constexpr OpRecord repeat_op_records[] = {
    {"repeat_interleave", "repeat_interleave(x, repeats=None, dim=None, *, output_size=None)",
     "Each slice along dim as often as repeats says: a number, or a list or tensor with one for each slice. Without "
     "dim "
     "x is seen flat; without repeats x has the numbers, and the result is 0 x[0] times, 1 x[1] times, ...",
     OpFacts(true, OpFacts::reads_values), OpRecord::Domain::any, repeat_samples, parts::along,
     detail::boxed<call_repeat_interleave>},
};

}  // namespace

std::span<const OpRecord> repeat_records() { return repeat_op_records; }

}  // namespace weft
