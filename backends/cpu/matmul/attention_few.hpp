// Attention of few queries, limited by reading keys and values: these are read once, in their own dtype and the order
// of memory, in parallel along the keys.
#pragma once

#include "attention_problem.hpp"

namespace weft::cpu {

template <class T>
bool has_few_queries(const Problem<T>& p, const View& k, const View& v) {
  const auto fits = [](const View& view) {
    const bool stored = view.layout.dtype == dtype_of<T>() ||
                        (sizeof(T) == 4 && (view.layout.dtype == DType::f16 || view.layout.dtype == DType::bf16));
    return stored && (columns_of(view) <= 1 || column_bytes(view) == itemsize(view.layout.dtype));
  };
  return p.groups > 0 && p.heads_per_group() * p.queries <= most_stored_queries && fits(k) && fits(v);
}

void forward_by_stored_rows(const Problem<float>& p, const Rows<float>& out, const View& log_sum_exp,
                            const Rows<float>& q, const View& k, const View& v);
void forward_by_stored_rows(const Problem<double>& p, const Rows<double>& out, const View& log_sum_exp,
                            const Rows<double>& q, const View& k, const View& v);

}  // namespace weft::cpu
