// A recurrent layer in one direction: by the device's kernel with one product for the inputs of all steps, or by ops.
//
// One kernel computes all steps, because a thread can run its sequences through all of them with the weight packed
// once. The node spans the inputs' product, so weight gradients are one product over all steps. Recorded backward
// runs the layer again with ops.
#include <algorithm>

#include "../../autograd/engine.hpp"
#include "../create.hpp"
#include "../detail/recurrent.hpp"
#include "../index.hpp"
#include "../join.hpp"
#include "../matmul.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"

namespace weft {

namespace {

/// The inputs of a layer, in the order of its node's edges.
enum Input : uint8_t { at_x, at_ih, at_hh, at_bias_ih, at_bias_hh, at_h0, at_c0, input_count };

// ---- by ops ----

struct Step {
  Tensor hidden, cell;
};

/// `input` is the contribution of x to the gates, biases of x included.
Step step_by_ops(Cell cell, const Tensor& input, const RecurrentWeights& w, const Tensor& h, const Tensor& c) {
  const Tensor from_state = linear(h, w.hh, w.bias_hh);
  if (cell == Cell::tanh) return {tanh(input + from_state), {}};
  if (cell == Cell::relu) return {relu(input + from_state), {}};
  if (cell == Cell::gru) {
    const std::vector<Tensor> x = input.chunk(3, 1), s = from_state.chunk(3, 1);
    const Tensor r = sigmoid(x[0] + s[0]), z = sigmoid(x[1] + s[1]), n = tanh(x[2] + r * s[2]);
    return {n + z * (h - n), {}};
  }
  const std::vector<Tensor> gate = (input + from_state).chunk(4, 1);
  const Tensor next = sigmoid(gate[1]) * c + sigmoid(gate[0]) * tanh(gate[2]);
  const Tensor out = sigmoid(gate[3]) * tanh(next);
  return {w.hr.defined() ? linear(out, w.hr) : out, next};
}

Tensor with_first(const Tensor& all, const Tensor& rows) {
  const int64_t count = rows.size(0), left = all.size(0) - count;
  return left == 0 ? rows : cat({rows, all.narrow(0, count, left)}, 0);
}

/// Meta tensors have shapes alone, and one step has those of all.
RecurrentStates on_meta(const RecurrentPath& path, const Tensor& input, const RecurrentWeights& w, const Tensor& h0,
                        const Tensor& c0) {
  const Step step = step_by_ops(path.cell, input.narrow(0, 0, h0.size(0)), w, h0, c0);
  const Tensor row = sum(step.hidden, {0}, /*keepdim=*/true);
  return {row.expand({input.size(0), row.size(1)}).contiguous(), step.hidden, step.cell};
}

RecurrentStates by_ops(const RecurrentPath& path, const Tensor& x, const RecurrentWeights& w, const Tensor& h0,
                       const Tensor& c0) {
  const Tensor input = linear(x, w.ih, w.bias_ih);
  if (is_meta(input)) return on_meta(path, input, w, h0, c0);
  RecurrentStates states{{}, h0, c0};
  std::vector<Tensor> outs;
  each_recurrent_step(path.steps(), h0.size(0), false, [&](const RecurrentStep& s) {
    const auto first = [&](const Tensor& t) { return t.defined() ? t.narrow(0, 0, s.count) : t; };
    const Step step =
        step_by_ops(path.cell, input.narrow(0, s.first, s.count), w, first(states.hidden), first(states.cell));
    outs.push_back(step.hidden);
    states.hidden = with_first(states.hidden, step.hidden);
    if (step.cell.defined()) states.cell = with_first(states.cell, step.cell);
  });
  if (path.reverse) std::reverse(outs.begin(), outs.end());
  states.out = cat(outs, 0);
  return states;
}

// ---- by kernel ----

View view_or_none(const Tensor& t) { return t.defined() ? t.raw_view() : View(); }

/// The states before each row's step: [rows, hidden].
Tensor states_before(const RecurrentPath& path, const Tensor& out, const Tensor& h0) {
  const int64_t batch = h0.size(0), rows = out.size(0);
  if (path.rows.empty()) {
    const Tensor kept = out.narrow(0, path.reverse ? batch : 0, rows - batch);
    return path.reverse ? cat({kept, h0}, 0) : cat({h0, kept}, 0);
  }
  std::vector<int64_t> from(static_cast<size_t>(rows));
  each_recurrent_step(path.steps(), batch, false, [&](const RecurrentStep& s) {
    for (int64_t b = 0; b < s.count; ++b) {
      from[static_cast<size_t>(s.first + b)] = b < s.known ? batch + s.before + b : b;
    }
  });
  return index_select(cat({h0, out}, 0), 0, tensor(from).to(out.device()));
}

struct LayerBackward {
  RecurrentPath path;
  Saved inputs[input_count];
  SavedOutput out;
  Tensor gates, kept;

  Tensor input(const Node& self, int i) const { return inputs[i].defined() ? inputs[i].get(self) : Tensor(); }

  /// The layer again by ops, and their gradients, which can be differentiated.
  void by_ops(Node& self, const Tensor* incoming, Tensor* outgoing) const {
    Tensor again[input_count];
    std::vector<Tensor> wanted, results, seeds;
    for (int i = 0; i < input_count; ++i) {
      again[i] = input(self, i);
      if (!self.wants(i)) continue;
      again[i] = again[i].view(again[i].sizes());  // a place of its own in the graph
      wanted.push_back(again[i]);
    }
    const RecurrentWeights w{again[at_ih], again[at_hh], again[at_bias_ih], again[at_bias_hh], {}};
    const RecurrentStates states = weft::by_ops(path, again[at_x], w, again[at_h0], again[at_c0]);
    const Tensor* const all[] = {&states.out, &states.hidden, &states.cell};
    for (int i = 0; i < 3; ++i) {
      if (!all[i]->defined() || !incoming[i].defined()) continue;
      results.push_back(*all[i]);
      seeds.push_back(incoming[i]);
    }
    std::vector<Tensor> gradients = grad(results, wanted, seeds, {.create_graph = true, .allow_unused = true});
    size_t next = 0;
    for (int i = 0; i < input_count; ++i) {
      if (self.wants(i)) outgoing[i] = std::move(gradients[next++]);
    }
  }

  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) const {
    if (recording()) return by_ops(self, incoming, outgoing);
    const Tensor x = input(self, at_x), ih = input(self, at_ih), hh = input(self, at_hh), h0 = input(self, at_h0),
                 c0 = input(self, at_c0), states = out.get(self);
    const int64_t hidden = hh.size(1), rows = states.size(0);
    const bool is_gru = path.cell == Cell::gru;
    const auto last = [](const Tensor& given, const Tensor& like) {
      return !like.defined() ? like : given.defined() ? given.clone().contiguous() : zeros_like(like);
    };
    const Tensor g = incoming[0].defined() ? incoming[0].contiguous() : Tensor();
    const Tensor dgates = make(Dims{rows, hh.size(0)}, x.dtype(), x.device());
    const Tensor dkept = is_gru ? make(Dims{rows, hidden}, x.dtype(), x.device()) : Tensor();
    const Tensor dstate = last(incoming[1], h0), dcell = last(incoming[2], c0);
    WEFT_KERNEL(recurrent_gradient, x)
    (dgates.raw_view(), view_or_none(dkept), dstate.raw_view(), view_or_none(dcell), view_or_none(g), states.raw_view(),
     gates.raw_view(), view_or_none(kept), h0.raw_view(), view_or_none(c0), hh.raw_view(), path.cell, path.steps());
    if (self.wants(at_x)) outgoing[at_x] = matmul(dgates, ih);
    if (self.wants(at_ih)) outgoing[at_ih] = matmul(dgates.t(), x);
    const bool wants_bias = self.wants(at_bias_ih) || self.wants(at_bias_hh);
    const Tensor sums = wants_bias ? sum(dgates, {0}) : Tensor();
    if (self.wants(at_bias_ih)) outgoing[at_bias_ih] = sums;
    if (self.wants(at_bias_hh)) {
      outgoing[at_bias_hh] = is_gru ? cat({sums.narrow(0, 0, 2 * hidden), sum(dkept, {0})}, 0) : sums;
    }
    if (self.wants(at_hh)) {
      const Tensor before = states_before(path, states, h0);
      outgoing[at_hh] = !is_gru
                            ? matmul(dgates.t(), before)
                            : cat({matmul(dgates.narrow(1, 0, 2 * hidden).t(), before), matmul(dkept.t(), before)}, 0);
    }
    if (self.wants(at_h0)) outgoing[at_h0] = dstate;
    if (self.wants(at_c0)) outgoing[at_c0] = dcell;
  }
};

/// The inputs' bias plus the part of the states' bias that is added before the gates.
Tensor joined_bias(Cell cell, const RecurrentWeights& w, int64_t hidden) {
  if (!w.bias_hh.defined()) return w.bias_ih;
  const Tensor early = cell != Cell::gru
                           ? w.bias_hh
                           : cat({w.bias_hh.narrow(0, 0, 2 * hidden), zeros_like(w.bias_hh.narrow(0, 0, hidden))});
  return w.bias_ih.defined() ? w.bias_ih + early : early;
}

RecurrentStates by_kernel(const RecurrentPath& path, const Tensor (&given)[input_count]) {
  const bool recorded = recording() && std::ranges::any_of(given, [](const Tensor& t) {
                          return t.defined() && needs_gradient(t.impl());
                        });
  Tensor in[input_count];
  RecurrentStates states;
  Tensor gates, kept;
  const auto kernel = kernels(given[at_x].raw_view()).recurrent;
  {
    for (int i = 0; i < input_count; ++i) {
      if (given[i].defined()) in[i] = given[i].contiguous();
    }
    const NoGradGuard unrecorded;
    const RecurrentWeights w{in[at_ih], in[at_hh], in[at_bias_ih], in[at_bias_hh], {}};
    const int64_t rows = in[at_x].size(0), hidden = w.hh.size(1);
    gates = linear(in[at_x], w.ih, joined_bias(path.cell, w, hidden));
    states = {make(Dims{rows, hidden}, gates.dtype(), gates.device()), in[at_h0].clone(), {}};
    if (in[at_c0].defined()) states.cell = in[at_c0].clone();
    const bool gated = path.cell == Cell::lstm || path.cell == Cell::gru;
    if (recorded && gated) kept = make_like(states.out);
    const Tensor late =
        path.cell == Cell::gru && w.bias_hh.defined() ? w.bias_hh.narrow(0, 2 * hidden, hidden) : Tensor();
    kernel(states.out.raw_view(), gates.raw_view(), view_or_none(kept), states.hidden.raw_view(),
           view_or_none(states.cell), w.hh.raw_view(), view_or_none(late), path.cell, path.steps());
  }
  if (!recorded) return states;
  LayerBackward backward{path, {}, SavedOutput(states.out), gates, kept};
  for (int i = 0; i < input_count; ++i) {
    if (in[i].defined()) backward.inputs[i] = Saved(in[i]);
  }
  const Tensor* const outputs[] = {&states.out, &states.hidden, &states.cell};
  const int count = states.cell.defined() ? 3 : 2;
  GeneralNode* node = make_general_node(in, 3, std::move(backward));
  for (int i = 0; i < count; ++i) {
    if (i > 0) node->refs.increment();
    set_history(outputs[i]->impl(), node, static_cast<uint16_t>(i));
  }
  return states;
}

}  // namespace

RecurrentStates recurrent_layer(const RecurrentPath& path, const Tensor& x, const RecurrentWeights& w, const Tensor& h0,
                                const Tensor& c0) {
  const bool fused = kernels(x.raw_view()).recurrent != nullptr && !w.hr.defined() && h0.numel() != 0;
  return fused ? by_kernel(path, {x, w.ih, w.hh, w.bias_ih, w.bias_hh, h0, c0}) : by_ops(path, x, w, h0, c0);
}

}  // namespace weft
