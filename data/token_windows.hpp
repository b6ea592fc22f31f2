// Windows of a token sequence, for training language models.
#pragma once

#include <cstdint>
#include <span>

#include "../tensor/index.hpp"

namespace weft::data {

/// Input tokens, and the targets, shifted by one token. i64 [context] for a sample, i64 [batch, context] for a batch.
struct TokenSample {
  Tensor inputs, targets;
};

/// A dataset of the windows of `context` tokens that begin at 0, stride, 2 · stride, … and are followed by a token. A
/// stride of 0 means `context`: an epoch then reads each token once. With stride 1 and a random order, windows begin at
/// random positions. Tokens may have any integer dtype, such as the u16 of a mapped file.
class WEFT_API TokenWindows {
 public:
  /// Raises ShapeError unless `tokens` is 1-d, DTypeError unless it is integral, and ValueError unless context >= 1,
  /// stride >= 0 and there are more tokens than `context`.
  TokenWindows(const Tensor& tokens, int64_t context, int64_t stride = 0, Location where = {});

  int64_t size() const { return size_; }
  TokenSample get(int64_t index) const;
  TokenSample get_batch(std::span<const int64_t> indices) const;

 private:
  Tensor tokens_;
  int64_t context_, stride_, size_;
};

/// Batches of windows at random positions, drawn with replacement. Batch i depends only on the tokens, the sizes, the
/// seed and i, not on the device or on earlier draws. So there are no epochs: a run is a number of steps, and can
/// resume from its step number.
class WEFT_API TextLoader {
 public:
  /// Errors as TokenWindows; ValueError for a batch size below 1.
  TextLoader(const Tensor& tokens, int64_t batch, int64_t context, uint64_t seed = 0, Location where = {});

  /// Returns two new tensors i64 [batch, context] on `device`.
  TokenSample batch(int64_t number, Device device = {}, Location where = {}) const;
  const TokenWindows& windows() const { return windows_; }

 private:
  TokenWindows windows_;
  int64_t batch_;
  uint64_t seed_;
};

}  // namespace weft::data
