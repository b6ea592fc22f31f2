#include "../collate.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "../../ops/create.hpp"
#include "../../ops/join.hpp"
#include "../../ops/pointwise.hpp"
#include "../../tensor/checked.hpp"
#include "../../tensor/error.hpp"
#include "current_job-inl.hpp"

namespace weft::data {

namespace detail {

namespace {

[[noreturn]] void raise_unequal(std::span<const Tensor> samples, size_t other, const char* remedy) {
  const Tensor &a = samples[0], &b = samples[other];
  if (a.dtype() != b.dtype()) {
    raise<DTypeError>({.op = "collate",
                       .problem = fmt::format("{} and {} have different dtypes", sample_name(0), sample_name(other)),
                       .details = fmt::format("{} and {}", name(a.dtype()), name(b.dtype()))},
                      Location::none());
  }
  raise<ShapeError>({.op = "collate",
                     .problem = fmt::format("{} and {} have different shapes", sample_name(0), sample_name(other)),
                     .details = fmt::format("{} and {}", a.shape().text(), b.shape().text()),
                     .remedy = remedy},
                    Location::none());
}

bool same_beyond_first(const Tensor& a, const Tensor& b) {
  return a.dim() == b.dim() && std::equal(a.sizes().begin() + 1, a.sizes().end(), b.sizes().begin() + 1);
}

int64_t padded_length(std::span<const Tensor> samples, const PadOptions& o) {
  if (o.multiple_of < 1 || o.length < 0) {
    raise<ValueError>({.op = "pad", .problem = fmt::format("a length of {}, multiple of {}", o.length, o.multiple_of)},
                      Location::none());
  }
  int64_t longest = o.length;
  for (size_t i = 0; i < samples.size(); ++i) {
    const int64_t own = samples[i].size(0);
    if (o.length > 0 && own > o.length) {
      raise<ValueError>(
          {.op = "pad", .problem = fmt::format("{} has length {}, above {}", sample_name(i), own, o.length)},
          Location::none());
    }
    longest = std::max(longest, own);
  }
  const Checked rounded = (Checked(longest) + (o.multiple_of - 1));
  if (!rounded.fits()) {
    raise<ShapeError>({.op = "pad", .problem = "the common length overflows"}, Location::none());
  }
  return rounded.value() / o.multiple_of * o.multiple_of;
}

}  // namespace

namespace {

void check_defined(std::span<const Tensor> samples) {
  for (size_t i = 0; i < samples.size(); ++i) {
    if (samples[i].defined()) continue;
    raise<ValueError>({.op = "collate", .problem = fmt::format("{} is an undefined tensor", sample_name(i))},
                      Location::none());
  }
}

}  // namespace

Tensor stacked(std::span<const Tensor> samples) {
  check_defined(samples);
  for (size_t i = 1; i < samples.size(); ++i) {
    if (samples[i].shape() != samples[0].shape() || samples[i].dtype() != samples[0].dtype()) {
      raise_unequal(samples, i, "pad them with data::pad(), or make them equal in the dataset");
    }
  }
  return stack(samples);
}

Padded padded(std::span<const Tensor> samples, const PadOptions& options) {
  check_defined(samples);
  if (samples.empty() || samples[0].dim() == 0) return {stacked(samples), {}};
  for (size_t i = 1; i < samples.size(); ++i) {
    if (samples[i].dtype() != samples[0].dtype() || !same_beyond_first(samples[0], samples[i])) {
      raise_unequal(samples, i, "only dimension 0 is padded");
    }
  }
  Dims shape = samples[0].shape();
  shape[0] = padded_length(samples, options);
  shape.insert(0, static_cast<int64_t>(samples.size()));
  Padded out{full(shape, options.value, {samples[0].dtype(), samples[0].device()}), {}};
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < samples.size(); ++i) {
    lengths.push_back(samples[i].size(0));
    out.values.select(0, static_cast<int64_t>(i)).narrow(0, 0, lengths.back()).copy_(samples[i]);
  }
  out.lengths = weft::tensor(lengths);
  return out;
}

Tensor numbers(const void* values, DType element, size_t count, DType dtype) {
  return weft::detail::from_elements(values, element, Dims(count), {.dtype = dtype}, Location::none());
}

}  // namespace detail

Tensor Padded::mask(Location where) const {
  const int64_t length = values.size(1, where);
  return lt(arange(length, {.device = lengths.device(where)}, where), lengths.unsqueeze(1, where));
}

}  // namespace weft::data
