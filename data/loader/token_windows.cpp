#include "../token_windows.hpp"

#include <cstring>

#include <fmt/format.h>

#include "../../ops/create.hpp"
#include "../../ops/random.hpp"
#include "../../tensor/error.hpp"
#include "../../tensor/generator.hpp"
#include "../dataset.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::data {

TokenWindows::TokenWindows(const Tensor& tokens, int64_t context, int64_t stride, Location where)
    : context_(context), stride_(stride == 0 ? context : stride) {
  constexpr const char* op = "TokenWindows";
  if (tokens.dim(where) != 1) {
    raise<ShapeError>({.op = op, .problem = mismatch_text("tokens", "shape [n]", tokens.shape())}, where);
  }
  if (is_floating(tokens.dtype()) || tokens.dtype() == DType::boolean) {
    raise<DTypeError>({.op = op, .problem = mismatch_text("tokens", "integers", tokens.dtype())}, where);
  }
  if (context < 1 || stride < 0 || tokens.numel() <= context) {
    raise<ValueError>({.op = op,
                       .problem = fmt::format("{} tokens have no window of {} and one more", tokens.numel(), context),
                       .details = fmt::format("context {}, stride {}", context, stride)},
                      where);
  }
  tokens_ = tokens.detach(where).to(Device(), where).contiguous(where);
  size_ = (tokens_.numel() - 1 - context) / stride_ + 1;
}

TokenSample TokenWindows::get(int64_t index) const {
  detail::check_index(index, size_);
  const Tensor window = tokens_.narrow(0, index * stride_, context_ + 1).to(DType::i64);
  return {window.narrow(0, 0, context_), window.narrow(0, 1, context_)};
}

TokenSample TokenWindows::get_batch(std::span<const int64_t> indices) const {
  const auto count = static_cast<int64_t>(indices.size());
  const Dims shape{count, context_};
  const Tensor inputs = empty(shape, tokens_.dtype()), targets = empty(shape, tokens_.dtype());
  const auto item = static_cast<size_t>(tokens_.itemsize()), bytes = static_cast<size_t>(context_) * item;
  const auto* from = static_cast<const std::byte*>(tokens_.data_ptr());
  auto* input = static_cast<std::byte*>(inputs.data_ptr());
  auto* target = static_cast<std::byte*>(targets.data_ptr());
  for (const int64_t i : indices) {
    detail::check_index(i, size_);
    const std::byte* window = from + static_cast<size_t>(i * stride_) * item;
    std::memcpy(input, window, bytes);
    std::memcpy(target, window + item, bytes);
    input += bytes;
    target += bytes;
  }
  return {inputs.to(DType::i64), targets.to(DType::i64)};
}

TextLoader::TextLoader(const Tensor& tokens, int64_t batch, int64_t context, uint64_t seed, Location where)
    : windows_(tokens, context, 1, where), batch_(batch), seed_(seed) {
  if (batch < 1) raise<ValueError>({.op = "TextLoader", .problem = mismatch_text("batch", "at least 1", batch)}, where);
}

TokenSample TextLoader::batch(int64_t number, Device device, Location where) const {
  Generator generator(seed_);
  generator.set_state({seed_, static_cast<uint64_t>(number), 0});
  const Tensor starts = randint(0, windows_.size(), batch_, DType::i64, &generator, where);
  const TokenSample drawn = windows_.get_batch({starts.data<int64_t>(), static_cast<size_t>(batch_)});
  return {drawn.inputs.to(device, where), drawn.targets.to(device, where)};
}

}  // namespace weft::data
