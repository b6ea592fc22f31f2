// A folder that holds the call of a kernel, to run it again elsewhere. Not public; defined in io/, which writes files.
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
  /// Nothing is kept or written where the folder has no name.
  explicit Reproduction(std::string folder) : folder_(std::move(folder)) {}

  /// Keeps what the kernel overwrites, up to `most_bytes`.
  void before(const KernelCall& call);
  /// Writes the folder, once, and says for an error's figures where it is, or why it is not there. Empty where none is
  /// wanted. `arrived`: the gradients that came to the node whose kernel this is, `known`: what that kept and its
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
