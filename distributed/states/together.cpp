#include <algorithm>
#include <cstring>
#include <exception>

#include <fmt/format.h>

#include "../../ops/create.hpp"
#include "../collectives.hpp"
#include "../detail/together.hpp"

namespace weft::distributed::detail {

void together(const Group& group, const char* verb, const Callback<void()>& step) {
  std::exception_ptr own;
  try {
    step();
  } catch (...) {
    own = std::current_exception();
  }
  const int64_t failed = own != nullptr ? group.rank() : group.size();
  const auto first = all_reduce(tensor({failed}), group, ReduceOp::min).item<int64_t>();
  if (own != nullptr) std::rethrow_exception(own);
  if (first == group.size()) return;
  raise<IoError>({.problem = fmt::format("rank {} could not {} its part", first, verb)});
}

Tensor bytes_of(std::string_view text) {
  const Tensor out = empty({std::ssize(text)}, {.dtype = DType::u8});
  if (!text.empty()) std::memcpy(out.data_ptr(), text.data(), text.size());
  return out;
}

std::string text_of(const Tensor& bytes) {
  const auto* const letters = static_cast<const char*>(bytes.data_ptr());
  return bytes.numel() == 0 ? "" : std::string(letters, letters + bytes.numel());
}

std::string told_by_first(const std::string& text, const Group& group) {
  const auto size = broadcast(tensor({std::ssize(text)}), 0, group).item<int64_t>();
  const Tensor bytes = group.rank() == 0 ? bytes_of(text) : empty({size}, {.dtype = DType::u8});
  broadcast_(bytes, 0, group);
  return text_of(bytes);
}

}  // namespace weft::distributed::detail
