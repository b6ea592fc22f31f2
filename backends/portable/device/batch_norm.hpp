// Norms of a channel over the batch: a team of work-items shares one channel.
#pragma once

#include "rows.hpp"

namespace weft::portable {

/// The elements of one channel as one row.
template <class C>
struct ChannelLine {
  In data;
  int64_t batch_step, step, length;
  DType dtype;
  WEFT_DEVICE int64_t offset(int64_t i) const {
    const int64_t n = quotient(i, length);
    return n * batch_step + (i - n * length) * step;
  }
  WEFT_DEVICE C at(int64_t i) const { return Memory<C>::load(data + offset(i), dtype); }
};
template <class C>
WEFT_DEVICE ChannelLine<C> channel_line(In data, const int64_t (&steps)[3], DType dtype, int64_t length,
                                        int64_t channel) {
  const ChannelLine<C> line = {data + channel * steps[1], steps[0], steps[2], length, dtype};
  return line;
}

template <class C>
WEFT_DEVICE C channel_item(In data, int64_t channel) {
  return peek<C>(data + channel * (int64_t)sizeof(C));
}
template <class C>
WEFT_DEVICE void put_channel_item(Out data, int64_t channel, C value) {
  poke<C>(data + channel * (int64_t)sizeof(C), value);
}

template <class C>
WEFT_DEVICE void batch_norm_team(Out out, Out mean, Out variance, In x, In weight, In bias, const BatchNorm& plan,
                                 C epsilon, WEFT_LOCAL C* shared) {
  const Team team = team_here(plan.length == 1);
  const bool active = team.number < plan.channels;
  const int64_t channel = active ? team.number : 0, count = plan.batch * plan.length;
  SquaredLine<C, ChannelLine<C>> squares;
  squares.line = channel_line<C>(x, plan.x, plan.x_dtype, plan.length, channel);
  squares.center = team_sum<C>(team, shared, active, count, squares.line) / (C)count;
  const C spread = team_sum<C>(team, shared, active, count, squares) / (C)count;
  if (!active) return;
  if (team.lane == 0) {
    put_channel_item<C>(mean, channel, squares.center);
    put_channel_item<C>(variance, channel, spread);
  }
  const C factor = (plan.has_weight ? channel_item<C>(weight, channel) : 1) / sqrt(spread + epsilon);
  const C shift = plan.has_bias ? channel_item<C>(bias, channel) : 0;
  const ChannelLine<C> to = channel_line<C>(out, plan.out, plan.out_dtype, plan.length, channel);
  for (int64_t i = team.lane; i < count; i += team.lanes) {
    Memory<C>::store(out + channel * plan.out[1] + to.offset(i), plan.out_dtype,
                     (squares.line.at(i) - squares.center) * factor + shift);
  }
}

template <class C>
struct ChannelProduct {
  ChannelLine<C> g, x;
  C center;
  WEFT_DEVICE C at(int64_t i) const { return g.at(i) * (x.at(i) - center); }
};

/// dx = w rstd (g - mean(g) - xhat mean(g xhat)), dweight = sum(g xhat), dbias = sum(g)
template <class C>
WEFT_DEVICE void batch_norm_gradient_team(Out dx, Out dweight, Out dbias, In g, In x, In mean, In rstd, In weight,
                                          const BatchNorm& plan, WEFT_LOCAL C* shared) {
  const Team team = team_here(plan.length == 1);
  const bool active = team.number < plan.channels;
  const int64_t channel = active ? team.number : 0, count = plan.batch * plan.length;
  ChannelProduct<C> product;
  product.g = channel_line<C>(g, plan.g, plan.g_dtype, plan.length, channel);
  product.x = channel_line<C>(x, plan.x, plan.x_dtype, plan.length, channel);
  product.center = channel_item<C>(mean, channel);
  const C inverse = channel_item<C>(rstd, channel);
  const C sum = team_sum<C>(team, shared, active, count, product.g);
  const C dot = team_sum<C>(team, shared, active, count, product) * inverse;
  if (!active) return;
  if (team.lane == 0 && plan.has_dweight) put_channel_item<C>(dweight, channel, dot);
  if (team.lane == 0 && plan.has_dbias) put_channel_item<C>(dbias, channel, sum);
  if (!plan.has_out) return;
  const C mean_g = sum / (C)count, slope = dot / (C)count * inverse;
  const C scale = (plan.has_weight ? channel_item<C>(weight, channel) : 1) * inverse;
  const ChannelLine<C> to = channel_line<C>(dx, plan.out, plan.out_dtype, plan.length, channel);
  for (int64_t i = team.lane; i < count; i += team.lanes) {
    const C centered = product.x.at(i) - product.center;
    Memory<C>::store(dx + channel * plan.out[1] + to.offset(i), plan.out_dtype,
                     (product.g.at(i) - mean_g - centered * slope) * scale);
  }
}

}  // namespace weft::portable
