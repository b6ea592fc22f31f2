// Windows of a sequence of tokens, to train language models on.
#pragma once

#include <cstdint>
#include <span>

#include "../tensor/index.hpp"

namespace weft::data {

/// What a model reads, and, one token further, what it is to say. Of a sample i64 [context], of a batch i64
/// [batch, context].
struct TokenSample {
  Tensor inputs, targets;
};

/// A dataset of the windows of `context` tokens that begin at 0, stride, 2 · stride, … and have a token behind them.
/// With a stride of `context`, which 0 stands for, an epoch reads each token once; with 1 and a random order, windows
/// lie anywhere. Tokens may be of any integer dtype, such as the u16 of a mapped file.
class WEFT_API TokenWindows {
 public:
  /// ShapeError unless `tokens` is 1-d, DTypeError unless it is of integers, ValueError unless context >= 1, stride >=
  /// 0 and there are more tokens than `context`.
  TokenWindows(const Tensor& tokens, int64_t context, int64_t stride = 0, Location where = {});

  int64_t size() const { return size_; }
  TokenSample get(int64_t index) const;
  TokenSample get_batch(std::span<const int64_t> indices) const;

 private:
  Tensor tokens_;
  int64_t context_, stride_, size_;
};

/// Batches of windows that begin anywhere, drawn with replacement: batch number i depends on the tokens, the sizes, the
/// seed and i alone, never on the device or on what was drawn before. So there are no epochs, a run is a count of
/// steps, and it goes on at any of them with nothing but that count.
class WEFT_API TextLoader {
 public:
  /// Errors are TokenWindows'; ValueError for batches of less than one.
  TextLoader(const Tensor& tokens, int64_t batch, int64_t context, uint64_t seed = 0, Location where = {});

  /// Two new tensors i64 [batch, context] on `device`.
  TokenSample batch(int64_t number, Device device = {}, Location where = {}) const;
  const TokenWindows& windows() const { return windows_; }

 private:
  TokenWindows windows_;
  int64_t batch_;
  uint64_t seed_;
};

}  // namespace weft::data
