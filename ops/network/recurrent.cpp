// Recurrent networks of several layers and directions, and single steps.
#include "../recurrent.hpp"

#include "../create.hpp"
#include "../detail/autocast.hpp"
#include "../detail/records.hpp"
#include "../detail/recurrent.hpp"
#include "../detail/reducing.hpp"
#include "../join.hpp"
#include "../packed.hpp"
#include "../random.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

/// All floating, of x's dtype and on its device.
void check_kinds(const Tensor& x, std::span<const Tensor> others) {
  check_floating(checked(x));
  for (const Tensor& t : others) {
    if (!t.defined()) continue;
    check_same_device({&x, &t});
    expect_one_dtype("x, states and parameters", x, t);
  }
}

RecurrentWeights widened(RecurrentWeights w) {
  for (Tensor* t : {&w.ih, &w.hh, &w.bias_ih, &w.bias_hh, &w.hr}) {
    if (t->defined()) *t = to_compute_type(*t);
  }
  return w;
}

struct Parameters {
  std::span<const Tensor> all;
  int per_layer;
  bool biased;

  RecurrentWeights of(int64_t number) const {
    const auto at = [&](int i) { return checked(all[static_cast<size_t>(number * per_layer + i)]); };
    RecurrentWeights w{at(0), at(1), {}, {}, {}};
    if (biased) w.bias_ih = at(2), w.bias_hh = at(3);
    if (const int rest = biased ? 4 : 2; per_layer > rest) w.hr = at(rest);
    return w;
  }
};

Parameters parameters_of(Cell cell, std::span<const Tensor> all, const RecurrentOptions& options) {
  expect_at_least("num_layers", options.num_layers, 1);
  const int plain = options.has_biases ? 4 : 2;
  const auto given = static_cast<int64_t>(all.size());
  if (options.num_layers > given) {
    raise<ValueError>({.problem = fmt::format("{} parameters are given for {} layers", given, options.num_layers)});
  }
  const int64_t groups = options.num_layers * (options.bidirectional ? 2 : 1);
  const bool projects = cell == Cell::lstm && given == groups * (plain + 1);
  if (given != groups * plain && !projects) {
    raise<ValueError>(
        {.problem = fmt::format("{} parameters are given for {} layers and directions, which have {} each", given,
                                groups, plain)});
  }
  return {all, projects ? plain + 1 : plain, options.has_biases};
}

void check_weights(const RecurrentWeights& w, Cell cell, int64_t inputs, int64_t states) {
  const int64_t gates = gates_of(cell);
  if (w.ih.dim() != 2 || w.ih.size(0) % gates != 0) {
    raise_shape("weight_ih", fmt::format("[{} * hidden, inputs]", gates), w.ih);
  }
  const int64_t width = w.ih.size(0);
  if (w.ih.size(1) != inputs) {
    raise<ShapeError>({.problem = fmt::format("the inputs are {} wide, where weight_ih {} takes {}", inputs,
                                              w.ih.shape().text(), w.ih.size(1))});
  }
  expect_shape("weight_hh", w.hh, {width, states});
  if (w.bias_ih.defined()) expect_shape("bias_ih", w.bias_ih, Dims(width));
  if (w.bias_hh.defined()) expect_shape("bias_hh", w.bias_hh, Dims(width));
  if (w.hr.defined()) expect_shape("weight_hr", w.hr, {states, width / gates});
  else if (width / gates != states) expect_shape("weight_ih", w.ih, {states * gates, inputs});
}

/// The arguments of an op; `c0` is for lstm.
struct Call {
  Cell cell;
  Tensor x, h0, c0;
  std::span<const Tensor> parameters;
  const RecurrentOptions& options;
};

/// x as rows, step after step, and how they go through the layers.
struct Rows {
  Tensor x;
  RecurrentPath path;
  int64_t batch;
  bool single, packed;
};

Rows rows_of(const Call& call) {
  const RecurrentOptions& options = call.options;
  const bool packed = options.batch_sizes.defined();
  const int rank = call.x.dim();
  if (packed ? rank != 2 : rank != 2 && rank != 3) {
    raise_shape("x", packed ? "[rows, inputs]" : "[steps, batch, inputs] or [steps, inputs]", call.x);
  }
  const bool single = !packed && rank == 2;
  Tensor x = to_compute_type(call.x);
  RecurrentPath path{call.cell};
  if (packed) {
    path.rows = detail::rows_of_steps(options.batch_sizes, x.size(0));
    path.count = static_cast<int64_t>(path.rows.size());
  } else {
    if (single) x = x.unsqueeze(1);
    else if (options.batch_first) x = x.transpose(0, 1);
    path.count = x.size(0);
  }
  if (path.count == 0) raise<ValueError>({.problem = "there are no steps"});
  const int64_t batch = packed ? path.rows[0] : x.size(1), inputs = x.size(-1);
  if (!packed) x = x.reshape({path.count * batch, inputs});
  return {x, path, batch, single, packed};
}

/// States [layers * directions, batch, width], each taken alone.
Tensor states_of(const char* what, const Tensor& given, const Rows& rows, int64_t groups, int64_t width) {
  const Tensor t = to_compute_type(rows.single && given.dim() == 2 ? given.unsqueeze(1) : given);
  expect_shape(what, t, {groups, rows.batch, width});
  return t;
}

RecurrentOutput run_layers(const Call& call) {
  if (WEFT_UNLIKELY(autocasting())) {
    std::vector<Tensor> parameters;
    for (const Tensor& t : call.parameters) parameters.push_back(detail::lowered(t));
    const Tensor x = detail::lowered(call.x), h0 = detail::lowered(call.h0), c0 = detail::lowered(call.c0);
    const detail::AutocastModeGuard off({});
    return run_layers({call.cell, x, h0, c0, parameters, call.options});
  }
  const RecurrentOptions& options = call.options;
  check_kinds(call.x, call.parameters);
  const bool is_lstm = call.cell == Cell::lstm;
  const Tensor given[] = {checked(call.h0), is_lstm ? checked(call.c0) : Tensor()};
  check_kinds(call.x, given);
  if (!(options.dropout >= 0 && options.dropout <= 1)) {
    raise_value("dropout", "a number in [0, 1]", options.dropout);
  }
  const Parameters parameters = parameters_of(call.cell, call.parameters, options);
  const int64_t directions = options.bidirectional ? 2 : 1, groups = options.num_layers * directions;
  Rows rows = rows_of(call);
  const RecurrentWeights first = parameters.of(0);
  if (first.hh.dim() != 2) check_weights(first, call.cell, rows.x.size(1), 0);
  const int64_t width = first.hh.size(1), hidden = first.hh.size(0) / gates_of(call.cell);
  const Tensor h0 = states_of("h0", call.h0, rows, groups, width);
  const Tensor c0 = is_lstm ? states_of("c0", call.c0, rows, groups, hidden) : Tensor();
  for (int64_t i = 0; i < groups; ++i) {
    check_weights(parameters.of(i), call.cell, i < directions ? rows.x.size(1) : directions * width, width);
  }
  Tensor x = rows.x;
  const int64_t steps = rows.path.count;
  if (rows.batch == 0) rows.path.count = 1;  // all of them have no rows
  std::vector<Tensor> last_states, last_cells;
  for (int64_t layer = 0; layer < options.num_layers; ++layer) {
    if (layer > 0 && options.train && options.dropout > 0) x = dropout(x, options.dropout);
    std::vector<Tensor> outs;
    for (int64_t i = layer * directions; i < (layer + 1) * directions; ++i) {
      rows.path.reverse = i % directions == 1;
      const RecurrentStates states = recurrent_layer(rows.path, x, widened(parameters.of(i)), h0.select(0, i),
                                                     is_lstm ? c0.select(0, i) : Tensor());
      outs.push_back(states.out);
      last_states.push_back(states.hidden);
      last_cells.push_back(states.cell);
    }
    x = directions == 1 ? outs[0] : cat(outs, 1);
  }
  const auto shaped = [&](Tensor t) {
    t = t.to(call.x.dtype());
    return rows.single ? t.squeeze(1) : t;
  };
  if (!rows.packed) x = x.view({steps, rows.batch, directions * width});
  RecurrentOutput result{shaped(x), shaped(stack(last_states, 0)), {}};
  if (is_lstm) result.cell = shaped(stack(last_cells, 0));
  if (options.batch_first && !rows.packed && !rows.single) result.output = result.output.transpose(0, 1);
  return result;
}

/// One step: [batch, hidden] or [hidden].
LstmState step(Cell cell, const Tensor& x, const Tensor& h, const Tensor& c, const Tensor& weight_ih,
               const Tensor& weight_hh, const Tensor& bias_ih, const Tensor& bias_hh) {
  const Tensor others[] = {
      checked(h), cell == Cell::lstm ? checked(c) : c, checked(weight_ih), checked(weight_hh), bias_ih, bias_hh};
  check_kinds(x, others);
  expect_shape("x", x, x.dim() == 1 || x.dim() == 2, "[batch, inputs] or [inputs]");
  const bool single = x.dim() == 1;
  const auto rows = [&](const Tensor& t) { return !t.defined() ? t : to_compute_type(single ? t.unsqueeze(0) : t); };
  const RecurrentWeights w = widened({weight_ih, weight_hh, bias_ih, bias_hh, {}});
  const Tensor input = rows(x), before = rows(h), cells = rows(c);
  const int64_t width = w.hh.dim() == 2 ? w.hh.size(1) : 0;
  check_weights(w, cell, input.size(1), width);
  expect_shape("h", before, {input.size(0), width});
  if (cells.defined()) expect_shape("c", cells, {input.size(0), width});
  const RecurrentStates states = recurrent_layer({cell}, input, w, before, cells);
  const auto shaped = [&](const Tensor& t) {
    const Tensor rounded = t.defined() ? t.to(x.dtype()) : t;
    return single && t.defined() ? rounded.squeeze(0) : rounded;
  };
  return {shaped(states.out), shaped(states.cell)};
}

}  // namespace

RecurrentOutput lstm(const Tensor& x, const Tensor& h0, const Tensor& c0, std::span<const Tensor> parameters,
                     const RecurrentOptions& options, Location where) {
  const CallScope call("lstm", where);
  return run_layers({Cell::lstm, x, h0, c0, parameters, options});
}
LstmState lstm_cell(const Tensor& x, const Tensor& h, const Tensor& c, const Tensor& weight_ih, const Tensor& weight_hh,
                    const Tensor& bias_ih, const Tensor& bias_hh, Location where) {
  const CallScope call("lstm_cell", where);
  WEFT_IN_LOWER(lstm_cell, x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, where);
  return step(Cell::lstm, x, h, c, weight_ih, weight_hh, bias_ih, bias_hh);
}

#define WEFT_RECURRENT(name, kind)                                                                       \
  RecurrentOutput name(const Tensor& x, const Tensor& h0, std::span<const Tensor> parameters,            \
                       const RecurrentOptions& options, Location where) {                                \
    const CallScope call(#name, where);                                                                  \
    return run_layers({kind, x, h0, {}, parameters, options});                                           \
  }                                                                                                      \
  Tensor name##_cell(const Tensor& x, const Tensor& h, const Tensor& weight_ih, const Tensor& weight_hh, \
                     const Tensor& bias_ih, const Tensor& bias_hh, Location where) {                     \
    const CallScope call(#name "_cell", where);                                                          \
    WEFT_IN_LOWER(name##_cell, x, h, weight_ih, weight_hh, bias_ih, bias_hh, where);                     \
    return step(kind, x, h, {}, weight_ih, weight_hh, bias_ih, bias_hh).hidden;                          \
  }
WEFT_RECURRENT(gru, Cell::gru)
WEFT_RECURRENT(rnn_tanh, Cell::tanh)
WEFT_RECURRENT(rnn_relu, Cell::relu)
#undef WEFT_RECURRENT

namespace {

using Layered = RecurrentOutput (*)(const Tensor&, const Tensor&, std::span<const Tensor>, const RecurrentOptions&,
                                    Location);

template <Layered op>
std::vector<Tensor> call_layers(const Tensor& x, const Tensor& hx, std::span<const Tensor> params, bool has_biases,
                                int64_t num_layers, double dropout, bool train, bool bidirectional, bool batch_first,
                                const Tensor& batch_sizes) {
  const RecurrentOutput out =
      op(x, hx, params, {num_layers, has_biases, dropout, train, bidirectional, batch_first, batch_sizes}, {});
  return {out.output, out.hidden};
}
std::vector<Tensor> call_lstm(const Tensor& x, std::span<const Tensor> hx, std::span<const Tensor> params,
                              bool has_biases, int64_t num_layers, double dropout, bool train, bool bidirectional,
                              bool batch_first, const Tensor& batch_sizes) {
  if (hx.size() != 2) raise_value("hx", "h0 and c0", fmt::format("{} tensors", hx.size()));
  const RecurrentOutput out = lstm(
      x, hx[0], hx[1], params, {num_layers, has_biases, dropout, train, bidirectional, batch_first, batch_sizes}, {});
  return {out.output, out.hidden, out.cell};
}
std::vector<Tensor> call_lstm_cell(const Tensor& x, std::span<const Tensor> hx, const Tensor& w_ih, const Tensor& w_hh,
                                   const Tensor& b_ih, const Tensor& b_hh) {
  if (hx.size() != 2) raise_value("hx", "h and c", fmt::format("{} tensors", hx.size()));
  const LstmState out = lstm_cell(x, hx[0], hx[1], w_ih, w_hh, b_ih, b_hh);
  return {out.hidden, out.cell};
}

std::vector<Tensor> sample_parameters(SampleMaker& make, int64_t gates, int64_t inputs, int64_t hidden, bool biased,
                                      int64_t layers, bool both, int64_t projected = 0) {
  std::vector<Tensor> all;
  const int64_t directions = both ? 2 : 1, width = projected > 0 ? projected : hidden;
  for (int64_t i = 0; i < layers * directions; ++i) {
    all.push_back(make.tensor({gates * hidden, i < directions ? inputs : directions * width}, -0.8, 0.8));
    all.push_back(make.tensor({gates * hidden, width}, -0.8, 0.8));
    if (biased) all.push_back(make.tensor({gates * hidden})), all.push_back(make.tensor({gates * hidden}));
    if (projected > 0) all.push_back(make.tensor({projected, hidden}));
  }
  return all;
}

template <int64_t gates>
std::vector<Values> layer_samples(SampleMaker& make) {
  const auto states = [&](const Dims& shape) -> Value {
    if (gates == 4) return std::vector<Tensor>{make.tensor(shape), make.tensor(shape)};
    return make.tensor(shape);
  };
  const Tensor sizes = tensor(std::vector<int64_t>{3, 2, 1});
  return {{make.tensor({3, 2, 4}), states({1, 2, 3}), sample_parameters(make, gates, 4, 3, true, 1, false)},
          {make.tensor({2, 2, 3}), states({4, 2, 2}), sample_parameters(make, gates, 3, 2, false, 2, true), false,
           int64_t{2}, 0.0, false, true, true},
          {make.tensor({6, 2}), states({2, 3, 3}), sample_parameters(make, gates, 2, 3, true, 1, true), true,
           int64_t{1}, 0.0, false, true, false, sizes},
          {make.tensor({2, 3}), states({1, 2}), sample_parameters(make, gates, 3, 2, true, 1, false)},
          {make.tensor({2, 0, 3}), states({1, 0, 2}), sample_parameters(make, gates, 3, 2, true, 1, false)}};
}
std::vector<Values> lstm_samples(SampleMaker& make) {
  std::vector<Values> all = layer_samples<4>(make);
  all.push_back({make.tensor({2, 2, 3}), std::vector<Tensor>{make.tensor({1, 2, 2}), make.tensor({1, 2, 4})},
                 sample_parameters(make, 4, 3, 4, true, 1, false, 2)});
  return all;
}
template <int64_t gates>
std::vector<Values> cell_samples(SampleMaker& make) {
  const auto states = [&](const Dims& shape) -> Value {
    if (gates == 4) return std::vector<Tensor>{make.tensor(shape), make.tensor(shape)};
    return make.tensor(shape);
  };
  return {{make.tensor({2, 4}), states({2, 17}), make.tensor({gates * 17, 4}), make.tensor({gates * 17, 17}, -0.5, 0.5),
           make.tensor({gates * 17}), make.tensor({gates * 17})},
          {make.tensor({3}), states({2}), make.tensor({gates * 2, 3}), make.tensor({gates * 2, 2})}};
}

size_t states_of(const WholeCall& call) {
  const auto* list = std::get_if<std::vector<Tensor>>(&call["hx"]);
  return list != nullptr ? list->size() : 1;
}

/// Sequences by themselves.
Partition run_over_steps(const WholeCall& call) {
  if (call.inputs()[0].dim() != 3 || call.tensor("batch_sizes").defined()) return parts::whole(call);
  const std::string word = call.flag("batch_first") ? "n11" : "1n1";
  std::vector<std::string> in{word}, out{word};
  for (size_t i = 1; i < call.inputs().size(); ++i) {
    in.push_back(i <= states_of(call) ? "1n1" : parts::uncut(call.inputs()[i]));
  }
  for (size_t i = 1; i < call.results().size(); ++i) out.emplace_back("1n1");
  return {.letters = parts::notation(in, out)};
}

Partition stepped(const WholeCall& call) {
  if (call.inputs()[0].dim() != 2) return parts::whole(call);
  std::vector<std::string> in{"n1"};
  for (size_t i = 1; i < call.inputs().size(); ++i) {
    in.push_back(i <= states_of(call) ? "n1" : parts::uncut(call.inputs()[i]));
  }
  return {.letters = parts::notation(in, std::vector<std::string>(call.results().size(), "n1"))};
}

#define WEFT_LAYERS                                                                                \
  "(x, hx, params, has_biases=True, num_layers=1, dropout=0.0, train=False, bidirectional=False, " \
  "batch_first=False, batch_sizes=None) -> (output, h_n"
#define WEFT_CELL "_cell(x, hx, w_ih, w_hh, b_ih=None, b_hh=None)"
constexpr OpRecord records[] = {
    {"lstm", "lstm" WEFT_LAYERS ", c_n)",
     "Layers of long short-term memory over x [steps, batch, inputs]; hx are h0 and c0, params the weights and biases "
     "of each layer and direction. With batch_sizes x is the data of a PackedSequence.",
     OpFacts(true, Autocast::lower, OpFacts::reads_values), OpRecord::Domain::floating, lstm_samples, run_over_steps,
     detail::boxed<call_lstm>},
    {"gru", "gru" WEFT_LAYERS ")",
     "Layers of gated recurrent units over x [steps, batch, inputs]; arguments as lstm's.",
     OpFacts(true, Autocast::lower, OpFacts::reads_values), OpRecord::Domain::floating, layer_samples<3>,
     run_over_steps, detail::boxed<call_layers<gru>>},
    {"rnn_tanh", "rnn_tanh" WEFT_LAYERS ")", "Layers of h = tanh(W x + b + W h + b); arguments as lstm's.",
     OpFacts(true, Autocast::lower, OpFacts::reads_values), OpRecord::Domain::floating, layer_samples<1>,
     run_over_steps, detail::boxed<call_layers<rnn_tanh>>},
    {"rnn_relu", "rnn_relu" WEFT_LAYERS ")", "Layers of h = relu(W x + b + W h + b); arguments as lstm's.",
     OpFacts(true, Autocast::lower, OpFacts::reads_values), OpRecord::Domain::floating, layer_samples<1>,
     run_over_steps, detail::boxed<call_layers<rnn_relu>>},
    {"lstm_cell", "lstm" WEFT_CELL " -> (h, c)", "One step of a layer of lstm; hx are its state and its cell.",
     OpFacts(true, Autocast::lower), OpRecord::Domain::floating, cell_samples<4>, stepped,
     detail::boxed<call_lstm_cell>},
    {"gru_cell", "gru" WEFT_CELL, "One step of a layer of gru.", OpFacts(true, Autocast::lower),
     OpRecord::Domain::floating, cell_samples<3>, stepped, detail::boxed<gru_cell>},
    {"rnn_tanh_cell", "rnn_tanh" WEFT_CELL, "tanh(w_ih x + b_ih + w_hh h + b_hh)", OpFacts(true, Autocast::lower),
     OpRecord::Domain::floating, cell_samples<1>, stepped, detail::boxed<rnn_tanh_cell>},
    {"rnn_relu_cell", "rnn_relu" WEFT_CELL, "relu(w_ih x + b_ih + w_hh h + b_hh)", OpFacts(true, Autocast::lower),
     OpRecord::Domain::floating, cell_samples<1>, stepped, detail::boxed<rnn_relu_cell>},
};
#undef WEFT_LAYERS
#undef WEFT_CELL

}  // namespace

std::span<const OpRecord> recurrent_records() { return records; }

}  // namespace weft
