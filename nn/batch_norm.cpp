#include "batch_norm.hpp"

#include "../autograd/mode.hpp"
#include "../ops/channels.hpp"
#include "description-inl.hpp"
#include "update_bn.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft::nn {

/// `is_on` is the default of affine and track_running_stats.
static auto channel_norm(std::string name, bool is_on) {
  using O = BatchNormSettings;
  auto affine = option("affine", &O::affine), tracks = option("track_running_stats", &O::track_running_stats);
  affine.otherwise = tracks.otherwise = is_on;
  return described(std::move(name), "", required<int64_t>("num_features").bare(), option("eps", &O::eps),
                   option("momentum", &O::momentum), affine, tracks);
}
static auto describe(Of<BatchNorm1d>) { return channel_norm("BatchNorm1d", true); }
static auto describe(Of<BatchNorm2d>) { return channel_norm("BatchNorm2d", true); }
static auto describe(Of<BatchNorm3d>) { return channel_norm("BatchNorm3d", true); }
static auto describe(Of<InstanceNorm1d>) { return channel_norm("InstanceNorm1d", false); }
static auto describe(Of<InstanceNorm2d>) { return channel_norm("InstanceNorm2d", false); }
static auto describe(Of<InstanceNorm3d>) { return channel_norm("InstanceNorm3d", false); }
static auto describe(Of<GroupNorm>) {
  return described("GroupNorm", "", required<int64_t>("num_groups").bare(), required<int64_t>("num_channels").bare(),
                   option("eps", 1e-5), option("affine", true));
}
static auto describe(Of<LocalResponseNorm>) {
  return described("LocalResponseNorm", "local_response_norm", required<int64_t>("size").bare(), option("alpha", 1e-4),
                   option("beta", 0.75), option("k", 1.0));
}

namespace detail {

template <class Self, NormOver over, int least, int most>
ChannelNorm<Self, over, least, most>::ChannelNorm(int64_t channels, const BatchNormSettings& settings, Location where)
    : settings_(settings) {
  check_size("nn::" + this->class_name(), "channels", channels, where);
  if (settings.affine) {
    weight = ones(channels, {}, where);
    bias = zeros(channels, {}, where);
  }
  if (settings.track_running_stats) {
    running_mean = zeros(channels, {}, where);
    running_var = ones(channels, {}, where);
    num_batches_tracked = zeros({}, {.dtype = DType::i64}, where);
  }
  this->register_parameter("weight", weight);
  this->register_parameter("bias", bias);
  this->register_buffer("running_mean", running_mean);
  this->register_buffer("running_var", running_var);
  this->register_buffer("num_batches_tracked", num_batches_tracked);
  set_options_of<Self>(*this, where, channels, settings);
}

template <class Self, NormOver over, int least, int most>
Tensor ChannelNorm<Self, over, least, most>::forward(const Tensor& x, Location where) {
  if (x.dim() < least || x.dim() > most) {
    const std::string expected = least == most ? std::to_string(least) : fmt::format("{} to {}", least, most);
    raise<ShapeError>({.op = ("nn::" + this->class_name()).c_str(),
                       .problem = mismatch_text("x", expected + " dimensions", "shape " + x.shape().text())},
                      where);
  }
  const bool own = this->is_training() || !running_mean.defined();
  const bool counts = this->is_training() && num_batches_tracked.defined() && !recomputing();
  double momentum = settings_.momentum.value_or(0);
  const bool counts_alike =
      counts && (!settings_.momentum || (over == NormOver::batch && RenewedStatistics::covers(*this)));
  if (counts_alike) momentum = 1 / static_cast<double>(num_batches_tracked.template item<int64_t>() + 1);
  const MemberTensor scale = this->borrowed(weight, where), offset = this->borrowed(bias, where);
  const bool batched = over == NormOver::batch || x.dim() == most;
  Tensor y = batched ? x : x.unsqueeze(0);
  if constexpr (over == NormOver::batch) {
    y = batch_norm(y, running_mean, running_var, scale, offset, {own, momentum, settings_.eps}, where);
  } else {
    y = instance_norm(y, running_mean, running_var, scale, offset, {own, momentum, settings_.eps}, where);
  }
  if (counts) num_batches_tracked.add_(1);  // after batch_norm: a call that raises is not counted
  return batched ? y : y.squeeze(0);
}

}  // namespace detail

template class detail::ChannelNorm<BatchNorm1d, detail::NormOver::batch, 2, 3>;
template class detail::ChannelNorm<BatchNorm2d, detail::NormOver::batch, 4, 4>;
template class detail::ChannelNorm<BatchNorm3d, detail::NormOver::batch, 5, 5>;
template class detail::ChannelNorm<InstanceNorm1d, detail::NormOver::instance, 2, 3>;
template class detail::ChannelNorm<InstanceNorm2d, detail::NormOver::instance, 3, 4>;
template class detail::ChannelNorm<InstanceNorm3d, detail::NormOver::instance, 4, 5>;

GroupNorm::GroupNorm(int64_t groups, int64_t channels, double eps, bool affine, Location where)
    : groups_(groups), eps_(eps) {
  check_size("nn::GroupNorm", "channels", channels, where);
  if (groups < 1 || channels % groups != 0) {
    raise<ValueError>(
        {.op = "nn::GroupNorm", .problem = fmt::format("{} groups do not divide {} channels", groups, channels)},
        where);
  }
  if (affine) {
    weight = ones(channels, {}, where);
    bias = zeros(channels, {}, where);
  }
  register_parameter("weight", weight);
  register_parameter("bias", bias);
  set_options(*this, where, groups, channels, eps, affine);
}

Tensor GroupNorm::forward(const Tensor& x, Location where) const {
  return group_norm(x, groups_, borrowed(weight, where), borrowed(bias, where), eps_, where);
}

LocalResponseNorm::LocalResponseNorm(int64_t size, double alpha, double beta, double k, Location where) {
  set_function(
      [=](const Tensor& x, bool, Location place) { return local_response_norm(x, size, alpha, beta, k, place); });
  set_options(*this, where, size, alpha, beta, k);
  forward(empty_batch(1), where);
}

void detail::describe_norms(LayerList& list) {
  list.add<BatchNorm1d, BatchNorm2d, BatchNorm3d, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, GroupNorm,
           LocalResponseNorm>();
}

}  // namespace weft::nn
