// One step of a recurrent layer: a work-item for each unit.
#pragma once

#include "../../functors/recurrent.hpp"
#include "device.hpp"

namespace weft::portable {

template <class C>
WEFT_DEVICE C number_at(In numbers, int64_t i) {
  return peek<C>(numbers + i * (int64_t)sizeof(C));
}
template <class C>
WEFT_DEVICE void put_number(Out numbers, int64_t i, C x) {
  poke<C>(numbers + i * (int64_t)sizeof(C), x);
}

/// `product` is W h. gates get their values where they are kept.
template <class C, class Cell>
WEFT_DEVICE void recurrent_item(Out out, Out gates, Out kept, Out state, Out cell, In product, In bias,
                                const RecurrentUnits& plan, int64_t item) {
  if (item >= plan.count * plan.hidden) return;
  const int64_t row = quotient(item, plan.hidden), unit = item - row * plan.hidden;
  const int64_t first = row * Cell::gates * plan.hidden + unit;
  const bool is_lstm = Cell::gates == 4, is_gru = Cell::gates == 3;
  C gate[4], keep = 0, before = 0;
  for (int i = 0; i < Cell::gates; ++i) {
    const int64_t at = first + i * plan.hidden;
    gate[i] = number_at<C>(gates, at);
    if (!is_gru || i < 2) gate[i] = gate[i] + number_at<C>(product, at);
  }
  if (is_gru) {
    keep = number_at<C>(product, first + 2 * plan.hidden);
    if (plan.has_bias) keep = keep + number_at<C>(bias, unit);
    before = number_at<C>(state, item);
  }
  if (is_lstm) before = number_at<C>(cell, item);
  const C next = Cell::template step<C>(gate, before, keep);
  if (plan.keeps) {
    for (int i = 0; i < Cell::gates; ++i) put_number<C>(gates, first + i * plan.hidden, gate[i]);
    put_number<C>(kept, item, keep);
  }
  if (is_lstm) put_number<C>(cell, item, keep);
  put_number<C>(state, item, next);
  put_number<C>(out, item, next);
}

/// `through` receives the gradients of W h, which are those of the gates except gru's last. dstate receives the direct
/// part of the previous state's gradient. The gates of a plain cell are the states themselves.
template <class C, class Cell>
WEFT_DEVICE void recurrent_gradient_item(Out dgates, Out dkept, Out dstate, Out dcell, Out through, In g, In gates,
                                         In kept, In before, In first, const RecurrentUnits& plan, int64_t item) {
  if (item >= plan.count * plan.hidden) return;
  const int64_t row = quotient(item, plan.hidden), unit = item - row * plan.hidden;
  const int64_t at = row * Cell::gates * plan.hidden + unit;
  const bool is_lstm = Cell::gates == 4, is_gru = Cell::gates == 3;
  C gate[4], d[4], keep = 0, old = 0, dc = 0, dk = 0;
  for (int i = 0; i < Cell::gates; ++i) gate[i] = number_at<C>(gates, at + i * plan.hidden);
  if (is_lstm || is_gru) {
    keep = number_at<C>(kept, item);
    old = row < plan.known ? number_at<C>(before, item) : number_at<C>(first, item);
  }
  if (is_lstm) dc = number_at<C>(dcell, item);
  C dh = number_at<C>(dstate, item);
  if (plan.has_g) dh = dh + number_at<C>(g, item);
  const C rest = Cell::template gradient<C>(d, dc, dk, dh, gate, keep, old);
  for (int i = 0; i < Cell::gates; ++i) {
    put_number<C>(dgates, at + i * plan.hidden, d[i]);
    put_number<C>(through, at + i * plan.hidden, is_gru && i == 2 ? dk : d[i]);
  }
  if (is_lstm) put_number<C>(dcell, item, dc);
  if (is_gru) put_number<C>(dkept, item, dk);
  put_number<C>(dstate, item, rest);
}

}  // namespace weft::portable
