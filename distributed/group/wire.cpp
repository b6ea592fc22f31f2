#include "../detail/wire.hpp"

#include <cstring>

#include <fmt/format.h>

#include "../error.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::distributed::detail {

Wire::~Wire() = default;
Wire::Transfer::~Transfer() = default;

void Wire::count_sent(std::span<const Sent> sends, int rank) {
  size_t bytes = 0;
  for (size_t r = 0; r < sends.size(); ++r) bytes += static_cast<int>(r) == rank ? 0 : sends[r].bytes;
  count_sent(bytes);
}

std::string CallRecord::text() const {
  std::string text = place.op != nullptr ? place.op : "a collective";
  if (has_tensor) {
    std::string sizes;
    for (const int64_t n : shape) sizes += (sizes.empty() ? "" : ", ") + (n < 0 ? "*" : std::to_string(n));
    text += fmt::format(" of {} [{}]", weft::name(dtype), sizes);
  }
  if (reduction >= 0) text += fmt::format(" by {}", name(static_cast<ReduceOp>(reduction)));
  if (root >= 0) text += fmt::format(" from rank {}", root);
  if (on_device) text += " on a device";
  if (recorded) text += ", recorded";
  return text;
}

bool CallRecord::agrees(const CallRecord& other) const {
  return std::strcmp(place.op, other.place.op) == 0 && has_tensor == other.has_tensor && recorded == other.recorded &&
         on_device == other.on_device && dtype == other.dtype && shape == other.shape && reduction == other.reduction &&
         root == other.root;
}

void raise_disagreement(int rank, const CallRecord& call, int other_rank, const std::string& other_text,
                        const std::string& other_place) {
  throw DistributedError(format_error(
      {.op = call.place.op,
       .problem = fmt::format("rank {} calls {}, but rank {} calls {}", rank, call.text(), other_rank, other_text),
       .details =
           fmt::format("rank {} is at {}; it is collective {} of this group", other_rank, other_place, call.number)},
      call.place.where));
}

bool is_same_header(const Wire::Header& a, const Wire::Header& b) {
  return a.dtype == b.dtype && Dims(std::span(a.sizes, a.rank)) == Dims(std::span(b.sizes, b.rank));
}

void check_header(const CallPlace& place, int from, const Wire::Header& sent, const Wire::Header& expected) {
  const auto shape = [](const Wire::Header& h) { return Dims(std::span(h.sizes, h.rank)); };
  if (is_same_header(sent, expected)) return;
  throw DistributedError(
      format_error({.op = place.op,
                    .problem = mismatch_text(fmt::format("tensor from rank {}", from),
                                             fmt::format("{} {}", weft::name(expected.dtype), shape(expected).text()),
                                             fmt::format("{} {}", weft::name(sent.dtype), shape(sent).text())),
                    .remedy = "receive(from) takes whatever comes"},
                   place.where));
}

}  // namespace weft::distributed::detail
