#include "attention.hpp"

#if WEFT_HAS_CUDNN

#include <limits>

#include "converted.hpp"
#include "../queue.hpp"

namespace weft::cuda {

// ---- graphs ---------------------------------------------------------------------------------------------------------

namespace {

using P = AttentionProblem;
using Tensor = OperationGraph::Tensor;

/// Common to both graphs: the scaled scores of queries and keys.
struct Scores {
  const P& problem;
  OperationGraph graph;
  Tensor q, k_transposed, scale, values;

  Scores(const P& p, int device) : problem(p), graph(device) {
    q = by_query(P::q, p.depth);
    k_transposed = by_key(P::k, p.depth, true);
    scale = graph.number(P::scale);
    values = graph.pointwise(CUDNN_POINTWISE_MUL, graph.product(q, k_transposed), scale);
  }

  Tensor operand(P::Id id, std::vector<int64_t> sizes, bool transposed) {
    std::vector<int64_t> strides(problem.strides[id].begin(), problem.strides[id].end());
    if (transposed) {
      std::swap(sizes[2], sizes[3]);
      std::swap(strides[2], strides[3]);
    }
    const bool is_wide = id == P::log_sum_exp;
    return graph.tensor(id, is_wide ? CUDNN_DATA_FLOAT : dnn_type(problem.dtype), sizes, strides);
  }
  Tensor by_query(P::Id id, int64_t depth) {
    return operand(id, {problem.batch, problem.heads, problem.queries, depth}, false);
  }
  Tensor by_key(P::Id id, int64_t depth, bool transposed = false) {
    return operand(id, {problem.batch, problem.key_heads, problem.keys, depth}, transposed);
  }

  /// x, and -inf where a query does not see a key.
  Tensor seen(Tensor x) {
    if (!problem.causal) return x;
    const Tensor query = graph.index(x, 2), key = graph.index(x, 3);
    const Tensor sees = graph.pointwise(CUDNN_POINTWISE_CMP_GE, query, key);
    return graph.select(sees, x, graph.number(P::minus_infinity));
  }
};

}  // namespace

Descriptor attention_graph(const P& p, cudnnHandle_t handle, int device) {
  Scores scores(p, device);
  OperationGraph& graph = scores.graph;
  const Tensor x = scores.seen(scores.values);
  const Tensor most = graph.reduce(CUDNN_REDUCE_TENSOR_MAX, x);
  const Tensor powers = graph.pointwise(CUDNN_POINTWISE_EXP, graph.pointwise(CUDNN_POINTWISE_SUB, x, most));
  const Tensor sum = graph.reduce(CUDNN_REDUCE_TENSOR_ADD, powers);
  const Tensor log_sum = graph.pointwise(CUDNN_POINTWISE_LOG, sum);
  graph.into(scores.by_query(P::log_sum_exp, 1)).pointwise(CUDNN_POINTWISE_ADD, most, log_sum);
  const Tensor weights = graph.as(dnn_type(p.dtype)).pointwise(CUDNN_POINTWISE_DIV, powers, sum);
  graph.into(scores.by_query(P::out, p.width)).product(weights, scores.by_key(P::v, p.width));
  return std::move(graph).finish(handle);
}

Descriptor attention_gradient_graph(const P& p, cudnnHandle_t handle, int device) {
  Scores scores(p, device);
  OperationGraph& graph = scores.graph;
  const cudnnDataType_t type = dnn_type(p.dtype);
  const Tensor g = scores.by_query(P::g, p.width), v_transposed = scores.by_key(P::v, p.width, true);
  // The sum over keys of weight times its gradient is that over columns of out times g.
  const Tensor products = graph.pointwise(CUDNN_POINTWISE_MUL, g, scores.by_query(P::out, p.width));
  const Tensor sums = graph.reduce(CUDNN_REDUCE_TENSOR_ADD, products);
  const Tensor product_sums = graph.tensor(P::product_sums, CUDNN_DATA_FLOAT, {p.batch, p.heads, p.queries, 1},
                                           {p.heads * p.queries, p.queries, 1, 1});
  graph.into(product_sums).pointwise(CUDNN_POINTWISE_MUL, sums, graph.number(P::one));

  const Tensor below = graph.pointwise(CUDNN_POINTWISE_SUB, scores.values, scores.by_query(P::log_sum_exp, 1));
  const Tensor weights = graph.pointwise(CUDNN_POINTWISE_EXP, scores.seen(below));
  const auto product_by_key = [&](Tensor result, Tensor a, Tensor b) {
    if (p.heads == p.key_heads) {
      graph.into(result).product(a, b);
    } else {
      const Tensor of_each_head = graph.as(type).product(a, b);
      graph.into(result).reduce(CUDNN_REDUCE_TENSOR_ADD, of_each_head);
    }
  };
  product_by_key(scores.by_key(P::dv, p.width), graph.as(type).transpose(weights), g);
  const Tensor centered = graph.pointwise(CUDNN_POINTWISE_SUB, graph.product(g, v_transposed), product_sums);
  const Tensor dvalues = graph.pointwise(CUDNN_POINTWISE_MUL, centered, weights);
  const Tensor dscores = graph.as(type).pointwise(CUDNN_POINTWISE_MUL, dvalues, scores.scale);
  product_by_key(scores.by_key(P::dk, p.depth), graph.as(type).transpose(dscores), scores.q);
  const Tensor k = graph.as(type).transpose(scores.k_transposed);
  graph.into(scores.by_query(P::dq, p.depth)).product(dscores, k);
  return std::move(graph).finish(handle);
}

// ---- supported cases ------------------------------------------------------------------------------------------------

namespace {

/// Engines read rows of vectors of 16 bytes.
constexpr int64_t vector_bytes = 16;

bool note_strides(P& p, P::Id id, const View& view) {
  const Layout& l = view.layout;
  const int64_t item = itemsize(l.dtype), vector = vector_bytes / item;
  if (l.dtype != p.dtype || alignment_of(view.data) < vector_bytes) return false;
  int64_t dense = 1;
  for (int d = 3; d >= 0; --d) {
    int64_t stride = l.strides[d] / item;
    if (l.sizes[d] == 1) stride = dense;  // of no meaning
    if (stride < 1 || (d == 3 ? stride != 1 : stride % vector != 0)) return false;
    p.strides[id][static_cast<size_t>(d)] = stride;
    dense = stride * l.sizes[d];
  }
  return true;
}

/// Whether each query sees all keys, or those up to its own place; nothing else is asked of cuDNN.
std::optional<bool> causality(const P& p, const AttentionPlan& settings) {
  const int64_t shift = settings.at_end ? p.keys - p.queries : 0;
  if (settings.before < p.queries - 1 + shift) return std::nullopt;
  if (settings.after + shift >= p.keys - 1) return false;
  if (settings.after == 0 && shift == 0) return true;
  return std::nullopt;
}

/// Empty for cases of the portable kernels: other masks, wider dtypes, and few queries, which would need a new plan for
/// each length of a growing text.
std::optional<P> problem_of(const View& q, const View& k, const View& v, const View& log_sum_exp, const View& mask,
                            const AttentionPlan& settings) {
  constexpr size_t first_sound_version = 91002;
  const DType t = q.layout.dtype;
  if (find_dnn() == nullptr || (t != DType::f16 && t != DType::bf16)) return std::nullopt;
  for (const View* other : {&mask, &settings.slopes, &settings.sequences, &settings.blocks}) {
    if (other->data != nullptr) return std::nullopt;
  }
  P p = {t,
         false,
         q.layout.sizes[0],
         q.layout.sizes[1],
         k.layout.sizes[1],
         q.layout.sizes[2],
         k.layout.sizes[2],
         q.layout.sizes[3],
         v.layout.sizes[3],
         {}};
  const bool has_numbers = p.batch > 0 && p.keys > 0 && p.depth > 0 && p.width > 0;
  if (!has_numbers || p.queries <= portable::attention_edge_small) return std::nullopt;
  if (!note_strides(p, P::q, q) || !note_strides(p, P::k, k) || !note_strides(p, P::v, v)) return std::nullopt;
  if (log_sum_exp.layout.dtype != DType::f32 || log_sum_exp.layout.contiguous == 0) return std::nullopt;
  p.strides[P::log_sum_exp] = {p.heads * p.queries, p.queries, 1, 1};
  const auto causal = causality(p, settings);
  if (!causal || dnn().cudnnGetVersion() < first_sound_version) return std::nullopt;
  p.causal = *causal;
  return p;
}

DnnKey key_of(const P& p, bool is_gradient) {
  DnnKey key = {static_cast<int64_t>(DnnKind::attention),
                is_gradient,
                static_cast<int64_t>(p.dtype),
                p.causal,
                p.batch,
                p.heads,
                p.key_heads,
                p.queries,
                p.keys,
                p.depth,
                p.width};
  auto next = key.begin() + 11;
  for (const auto& strides : p.strides) next = std::copy(strides.begin(), strides.end(), next);
  return key;
}

/// Where a problem is solved, by which plan.
struct Solver {
  CudaQueue& queue;
  int device;
  std::shared_ptr<const DnnPlan> plan;

  Solver(const P& p, bool is_gradient, const View& q) : queue(cuda_queue_of(q)), device(queue.device().index) {
    const CurrentDevice current(device);
    DnnWorkplace& known = dnn_workplace_of(device);
    const auto graph = [&] {
      return (is_gradient ? attention_gradient_graph : attention_graph)(p, known.handle(), device);
    };
    plan = known.plan(key_of(p, is_gradient), [&] {
      return make_plan_if_served(graph, attention_wishes, {known.handle(), nullptr, device});
    });
  }

  /// Queues the plan on operands of the device and the problem's numbers.
  template <size_t count>
  void run(const P& p, double scale, const DnnOperand (&given)[count]) const {
    const CurrentDevice current(device);
    const auto bytes = static_cast<size_t>(std::max<int64_t>(plan->workspace_bytes, 1));
    const portable::host::ScratchMemory workspace(queue.accelerator(), bytes);
    std::array<DnnOperand, count> operands;
    std::copy(given, given + count, operands.begin());
    const bool causal = p.causal, is_gradient = count > 5;
    queue.run_library([=, used_plan = plan, index = device, memory = workspace.data()](cudaStream_t stream) {
      float numbers[] = {static_cast<float>(scale), 1, -std::numeric_limits<float>::infinity()};
      std::array<DnnOperand, count + 3> all;
      std::copy(operands.begin(), operands.end(), all.begin());
      size_t used = count;
      all[used++] = {P::scale, &numbers[0]};
      if (is_gradient) all[used++] = {P::one, &numbers[1]};
      if (causal) all[used++] = {P::minus_infinity, &numbers[2]};
      execute(*used_plan, std::span(all).first(used), memory, index, stream);
    });
  }
};

}  // namespace

void attention(const View& out, const View& log_sum_exp, const View& q, const View& k, const View& v, const View& mask,
               const AttentionPlan& settings) {
  const auto portably = [&] { portable::host::attention(out, log_sum_exp, q, k, v, mask, settings); };
  auto p = problem_of(q, k, v, log_sum_exp, mask, settings);
  if (!p) return portably();
  const Converted result(out, p->dtype);
  if (!note_strides(*p, P::out, result.view())) return portably();
  const Solver solver(*p, false, q);
  if (!solver.plan->execution) return portably();
  solver.run(*p, settings.scale,
             {{P::q, q.data},
              {P::k, k.data},
              {P::v, v.data},
              {P::out, result.view().data},
              {P::log_sum_exp, log_sum_exp.data}});
  result.write_back();
}

void attention_gradient(const View& dq, const View& dk, const View& dv, const View& g, const View& out,
                        const View& log_sum_exp, const View& q, const View& k, const View& v, const View& mask,
                        const AttentionPlan& settings) {
  const auto portably = [&] {
    portable::host::attention_gradient(dq, dk, dv, g, out, log_sum_exp, q, k, v, mask, settings);
  };
  auto p = problem_of(q, k, v, log_sum_exp, mask, settings);
  if (!p) return portably();
  const Converted incoming(g, p->dtype), result(out, p->dtype);  // the op keeps f32
  if (!note_strides(*p, P::g, incoming.view()) || !note_strides(*p, P::out, result.view()) ||
      !note_strides(*p, P::dq, dq) || !note_strides(*p, P::dk, dk) || !note_strides(*p, P::dv, dv)) {
    return portably();
  }
  const Solver solver(*p, true, q);
  if (!solver.plan->execution) return portably();
  incoming.read();
  result.read();
  const auto rows = static_cast<size_t>(log_sum_exp.layout.numel);
  const portable::host::ScratchMemory sums(portable::host::device_of(q), rows * sizeof(float));
  solver.run(*p, settings.scale,
             {{P::q, q.data},
              {P::k, k.data},
              {P::v, v.data},
              {P::out, result.view().data},
              {P::log_sum_exp, log_sum_exp.data},
              {P::g, incoming.view().data},
              {P::dq, dq.data},
              {P::dk, dk.data},
              {P::dv, dv.data},
              {P::product_sums, sums.data()}});
}

}  // namespace weft::cuda

#endif
