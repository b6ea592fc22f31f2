#include "attention_few.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "../thread_pool.hpp"

namespace weft::cpu {
namespace {

/// Keys of a part, whatever the number of threads.
constexpr int64_t keys_per_part = 128;

template <class T>
constexpr T nothing = -std::numeric_limits<T>::infinity();

/// Partial results for each part, head and query: the sums of values, weighted relative to 2^top, and the sums of the
/// weights.
template <class T>
class Parts {
 public:
  Parts(int64_t parts, int64_t lines, int64_t width)
      : lines_(lines),
        width_(width),
        memory_(static_cast<size_t>(std::max<int64_t>(parts * lines * (width + 2), 1)) * sizeof(T)),
        tops_(memory_.as<T>() + parts * lines * width),
        sums_(tops_ + parts * lines) {}
  T* values(int64_t part) const { return memory_.as<T>() + part * lines_ * width_; }
  T* tops(int64_t part) const { return tops_ + part * lines_; }
  T* sums(int64_t part) const { return sums_ + part * lines_; }

 private:
  int64_t lines_, width_;
  Workspace memory_;
  T *tops_, *sums_;
};

template <class T>
class FewQueries {
 public:
  FewQueries(const Problem<T>& p, const Rows<T>& out, const View& log_sum_exp, const Rows<T>& q, const View& k,
             const View& v)
      : p_(p),
        out_(out),
        log_sum_exp_(log_sum_exp),
        q_(q),
        k_(k),
        v_(v),
        parts_per_sequence_((visible_keys() + keys_per_part - 1) / keys_per_part + 1),
        parts_(p.sequences * parts_per_sequence_, p.heads * p.queries, p.width) {}

  void run() const {
    const int64_t numbers = p_.groups * std::min(keys_per_part, p_.keys) * (p_.depth + p_.width);
    parallel_for(p_.sequences * parts_per_sequence_, tasks_per_chunk(4 * numbers), [&](int64_t begin, int64_t end) {
      const Workspace scores(static_cast<size_t>(p_.heads * p_.queries * score_stride(keys_per_part)) * sizeof(T));
      std::vector<const T*> queries(static_cast<size_t>(p_.heads * p_.queries));
      for (int64_t task = begin; task < end; ++task) compute_part(task, scores.template as<T>(), queries.data());
    });
    const int64_t lines = p_.heads * p_.queries;
    parallel_for(p_.sequences * lines, tasks_per_chunk(4 * parts_per_sequence_ * p_.width),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) join_parts(i / lines, i % lines);
                 });
  }

 private:
  /// The most that a sequence's queries see between the first and the last of them.
  int64_t visible_keys() const {
    const AttentionPlan& plan = p_.plan();
    return std::min(p_.keys,
                    std::min(plan.before, p_.keys) + std::min(plan.after, p_.keys) + p_.queries + key_alignment);
  }
  StoredRows rows(const View& view, int64_t batch, int64_t row) const {
    const int64_t* steps = view.layout.strides;
    return {static_cast<const char*>(view.data) + batch * steps[0] + row * steps[2], steps[2], steps[1],
            view.layout.dtype};
  }
  KeyRange part(const Sequence& s, int64_t number) const {
    const KeyRange seen = p_.visible(s, 0, s.queries);
    const int64_t begin = seen.begin + number * keys_per_part;
    return {begin, std::min(begin + keys_per_part, seen.end)};
  }

  void compute_part(int64_t task, T* scores, const T** queries) const {
    const int64_t n = task / parts_per_sequence_;
    const Sequence s = p_.sequence(n);
    const KeyRange keys = part(s, task % parts_per_sequence_);
    if (keys.begin >= keys.end || s.queries == 0) return;
    const int64_t lines = p_.heads * s.queries, columns = keys.end - keys.begin, stride = score_stride(columns);
    for (int64_t i = 0; i < lines; ++i) queries[i] = q_.at(s.batch, i / s.queries, s.query + i % s.queries);
    const StoredQueries count{p_.groups, p_.heads_per_group() * s.queries};
    each_run(s, p_.plan().block_size, keys.begin, keys.end, [&](int64_t row, int64_t j, int64_t rows_here) {
      score_stored(count, rows_here, p_.depth, queries, rows(k_, s.batch, row), scores + (j - keys.begin), stride);
    });
    T *tops = parts_.tops(task), *sums = parts_.sums(task), *values = parts_.values(task);
    T rescale[most_stored_queries];
    std::fill_n(tops, lines, nothing<T>);
    std::fill_n(sums, lines, T{0});
    std::fill_n(values, lines * p_.width, T{0});
    for (int64_t head = 0; head < p_.heads; ++head) {
      const int64_t line = head * s.queries;
      softmax_block(p_.block(scores + line * stride, n, s, head, 0, s.queries, keys.begin, columns),
                    {tops + line, sums + line, rescale});
    }
    each_run(s, p_.plan().block_size, keys.begin, keys.end, [&](int64_t row, int64_t j, int64_t rows_here) {
      add_stored(count, rows_here, p_.width, scores + (j - keys.begin), stride, rows(v_, s.batch, row), values);
    });
  }

  /// The parts of one head's query, in their order.
  void join_parts(int64_t n, int64_t line) const {
    constexpr T ln2 = static_cast<T>(0.6931471805599453);
    const Sequence s = p_.sequence(n);
    if (line >= p_.heads * s.queries) return;
    const int64_t head = line / s.queries, row = s.query + line % s.queries, first = n * parts_per_sequence_;
    const KeyRange seen = p_.visible(s, 0, s.queries);
    const int64_t parts = (seen.end - seen.begin + keys_per_part - 1) / keys_per_part;
    T* out = out_.at(s.batch, head, row);
    std::fill_n(out, p_.width, T{0});
    T top = nothing<T>, sum = 0;
    for (int64_t i = 0; i < parts; ++i) {
      const T next = parts_.tops(first + i)[line];
      top = next <= top ? top : next;
    }
    for (int64_t i = 0; i < parts && top != nothing<T>; ++i) {
      const T own = parts_.tops(first + i)[line];
      if (own == nothing<T>) continue;
      const T factor = std::exp2(own - top);
      const T* values = parts_.values(first + i) + line * p_.width;
      sum += factor * parts_.sums(first + i)[line];
      for (int64_t d = 0; d < p_.width; ++d) out[d] += factor * values[d];
    }
    for (int64_t d = 0; d < p_.width && sum != 0; ++d) out[d] /= sum;
    element<T>(log_sum_exp_, s.batch, head, row) = top == nothing<T> ? top : top * ln2 + std::log(sum);
  }

  const Problem<T>& p_;
  const Rows<T>& out_;
  const View& log_sum_exp_;
  const Rows<T>& q_;
  const View &k_, &v_;
  int64_t parts_per_sequence_;
  Parts<T> parts_;
};

}  // namespace

void forward_by_stored_rows(const Problem<float>& p, const Rows<float>& out, const View& log_sum_exp,
                            const Rows<float>& q, const View& k, const View& v) {
  FewQueries<float>(p, out, log_sum_exp, q, k, v).run();
}
void forward_by_stored_rows(const Problem<double>& p, const Rows<double>& out, const View& log_sum_exp,
                            const Rows<double>& q, const View& k, const View& v) {
  FewQueries<double>(p, out, log_sum_exp, q, k, v).run();
}

}  // namespace weft::cpu
