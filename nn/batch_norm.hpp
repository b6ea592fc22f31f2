// Normalisation of channels. weight and running variances are initialised to 1, bias and running means to 0.
#pragma once

#include <optional>

#include "../ops/batch_norm.hpp"
#include "function_layer.hpp"

namespace weft::nn {

struct WEFT_API BatchNormSettings {
  double eps = 1e-5;
  /// Weight of a new batch in the running statistics; if empty, they are averages over all batches.
  std::optional<double> momentum = 0.1;
  /// Whether the layer has a weight and a bias.
  bool affine = true;
  /// Whether the layer has running statistics, which it uses in evaluation. Without them it always uses those of x.
  bool track_running_stats = true;
};

namespace detail {

enum class NormOver : uint8_t { batch, instance };

/// For x [N, C, ...] with `least` to `most` dimensions.
template <class Self, NormOver over, int least, int most>
class WEFT_API ChannelNorm : public Layer<Self> {
 public:
  /// Updates the running statistics in training. Raises ShapeError for another number of dimensions.
  Tensor forward(const Tensor& x, Location where);

  Parameter weight, bias;
  Buffer running_mean, running_var;
  /// Number of batches in the running statistics: i64 [].
  Buffer num_batches_tracked;

 private:
  friend Self;
  ChannelNorm(int64_t channels, const BatchNormSettings& settings, Location where);

  BatchNormSettings settings_;
};

}  // namespace detail

/// weft::batch_norm of x [N, C] or [N, C, L].
struct WEFT_API BatchNorm1d : detail::ChannelNorm<BatchNorm1d, detail::NormOver::batch, 2, 3> {
  explicit BatchNorm1d(int64_t channels, const BatchNormSettings& settings = {}, Location where = {})
      : ChannelNorm(channels, settings, where) {}
};
/// weft::batch_norm of x [N, C, H, W].
struct WEFT_API BatchNorm2d : detail::ChannelNorm<BatchNorm2d, detail::NormOver::batch, 4, 4> {
  explicit BatchNorm2d(int64_t channels, const BatchNormSettings& settings = {}, Location where = {})
      : ChannelNorm(channels, settings, where) {}
};
/// weft::batch_norm of x [N, C, D, H, W].
struct WEFT_API BatchNorm3d : detail::ChannelNorm<BatchNorm3d, detail::NormOver::batch, 5, 5> {
  explicit BatchNorm3d(int64_t channels, const BatchNormSettings& settings = {}, Location where = {})
      : ChannelNorm(channels, settings, where) {}
};

/// weft::group_norm as a layer.
class WEFT_API GroupNorm : public Layer<GroupNorm> {
 public:
  /// Raises ValueError unless groups divides channels.
  GroupNorm(int64_t groups, int64_t channels, double eps = 1e-5, bool affine = true, Location where = {});
  Tensor forward(const Tensor& x, Location where) const;

  Parameter weight, bias;

 private:
  int64_t groups_;
  double eps_;
};

/// weft::instance_norm as a layer. By default it has no weight, bias and running statistics.
struct WEFT_API InstanceNorm1d : detail::ChannelNorm<InstanceNorm1d, detail::NormOver::instance, 2, 3> {
  explicit InstanceNorm1d(int64_t channels,
                          BatchNormSettings settings = {.affine = false, .track_running_stats = false},
                          Location where = {})
      : ChannelNorm(channels, settings, where) {}
};
struct WEFT_API InstanceNorm2d : detail::ChannelNorm<InstanceNorm2d, detail::NormOver::instance, 3, 4> {
  explicit InstanceNorm2d(int64_t channels,
                          BatchNormSettings settings = {.affine = false, .track_running_stats = false},
                          Location where = {})
      : ChannelNorm(channels, settings, where) {}
};
struct WEFT_API InstanceNorm3d : detail::ChannelNorm<InstanceNorm3d, detail::NormOver::instance, 4, 5> {
  explicit InstanceNorm3d(int64_t channels,
                          BatchNormSettings settings = {.affine = false, .track_running_stats = false},
                          Location where = {})
      : ChannelNorm(channels, settings, where) {}
};

/// weft::local_response_norm as a layer.
struct WEFT_API LocalResponseNorm : FunctionLayer<LocalResponseNorm> {
  explicit LocalResponseNorm(int64_t size, double alpha = 1e-4, double beta = 0.75, double k = 1, Location where = {});
};

}  // namespace weft::nn
