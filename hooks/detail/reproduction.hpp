// A folder with a kernel call, to replay it elsewhere. Not public; defined in io/, which writes files.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../../backends/watch/nan_check.hpp"
#include "../../tensor/index.hpp"

namespace weft::detail {

class Reproduction {
 public:
  /// Keeps and writes nothing if `folder` is empty.
  explicit Reproduction(std::string folder) : folder_(std::move(folder)) {}

  /// Copies the memory that the kernel overwrites, up to `most_bytes`.
  void before(const KernelCall& call);
  /// Writes the folder, once, and returns a text for the error: where it is, or why it is missing. Empty if no
  /// reproduction is wanted. `arrived`: the incoming gradients of the kernel's node; `known`: its saved tensors and
  /// leaves.
  std::string leave(const KernelCall& call, const MadeNonFinite& made, std::span<const Tensor> arrived = {},
                    std::span<const Tensor> known = {}) noexcept;

  /// Of all tensors together.
  static constexpr int64_t most_bytes = int64_t{64} << 20;

 private:
  std::string write(const KernelCall& call, const MadeNonFinite& made, std::span<const Tensor> arrived,
                    std::span<const Tensor> known);

  std::string folder_;
  /// By address.
  std::vector<std::pair<const void*, Tensor>> overwritten_;
};

}  // namespace weft::detail
