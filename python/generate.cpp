// Text from language models for Python; weft/generation.py gives it keywords.
#include "../generate/checkpoint.hpp"
#include "../generate/generate.hpp"
#include "../generate/token_queue.hpp"
#include "../nn/quantize.hpp"

#include <nanobind/stl/tuple.h>

#include "caster.hpp"

namespace weft::python {

namespace {

using Tokens = std::vector<int64_t>;

/// callable(tokens [batch, length]) -> logits, under whatever lock there is.
Tensor logits_of(const Callback& callable, const Tensor& tokens) {
  const WithGil gil;
  const Ref arguments(PyTuple_Pack(1, Ref(wrap(tokens)).get()));
  const Ref result(PyObject_Call(callable.get(), arguments.get(), nullptr));
  if (result.get() == nullptr) carry_error();
  if (!is_tensor(result.get()))
    throw_type_error("result of the model: expected a Tensor of logits, got " + type_name(result.get()));
  return tensor_of(result.get());
}

const char* name_of(generate::Finish finish) {
  constexpr const char* names[] = {"length", "end_token", "stop_sequence", "stopped"};
  return names[static_cast<size_t>(finish)];
}

/// on_token(sequence, token, log_probability, finish or None) -> whether to continue; None continues.
bool told(const Callback& callable, const generate::TokenEvent& e) {
  const WithGil gil;
  const nb::object finish = e.finish ? nb::cast(name_of(*e.finish)) : nb::none();
  const nb::tuple arguments = nb::make_tuple(e.sequence, e.token, e.log_probability, finish);
  const Ref result(PyObject_Call(callable.get(), arguments.ptr(), nullptr));
  if (result.get() == nullptr) carry_error();
  if (result.get() == Py_None) return true;
  const int is_true = PyObject_IsTrue(result.get());
  if (is_true < 0) carry_error();
  return is_true != 0;
}

generate::SamplingOptions sampling_of(const nb::tuple& given) {
  return {nb::cast<double>(given[0]), nb::cast<double>(given[1]), nb::cast<int64_t>(given[2]),
          nb::cast<double>(given[3]), nb::cast<double>(given[4])};
}

}  // namespace

void bind_generate(nb::module_& m) {
  using namespace generate;
  nb::class_<LanguageModel>(m, "_LanguageModel")
      .def_ro("vocabulary", &LanguageModel::vocabulary)
      .def_ro("context", &LanguageModel::context);
  m.def("_without_cache", [](nb::handle model, int64_t vocabulary, int64_t window) {
    return without_cache([callable = Callback(model)](const Tensor& tokens) { return logits_of(callable, tokens); },
                         vocabulary, window);
  });
  m.def(
      "_load_language_model",
      [](const std::string& folder, std::optional<DType> dtype, Device device, int64_t bits) {
        return without_gil([&](Location where) {
          nn::CausalLM model = load_causal_lm(folder, {.dtype = dtype}, where);
          if (bits > 0) nn::quantize(model, {.targets = {"_proj$"}, .bits = bits}, where);
          model.to(device);
          return language_model(model);
        });
      },
      nb::arg(), nb::arg().none(), nb::arg(), nb::arg());
  m.def("_end_tokens", [](const std::string& folder) { return end_tokens(folder, here()); });
  m.def(
      "_generate",
      [](const LanguageModel& model, const std::vector<Tokens>& prompts, int64_t max_new_tokens,
         const nb::tuple& sampling, uint64_t seed, const Tokens& end_tokens, const std::vector<Tokens>& stop_sequences,
         nb::handle on_token, int64_t beams, double length_penalty, std::optional<LanguageModel> draft,
         int64_t draft_tokens) {
        GenerateOptions o{.max_new_tokens = max_new_tokens,
                          .sampling = sampling_of(sampling),
                          .seed = seed,
                          .end_tokens = end_tokens,
                          .stop_sequences = stop_sequences,
                          .beams = beams,
                          .length_penalty = length_penalty,
                          .draft = std::move(draft),
                          .draft_tokens = draft_tokens};
        if (!on_token.is_none()) {
          o.on_token = [callable = Callback(on_token)](const TokenEvent& e) { return told(callable, e); };
        }
        const std::vector<Generation> made =
            without_gil([&](Location where) { return generate::generate(model, prompts, o, where); });
        nb::list out;
        for (const Generation& g : made) {
          out.append(nb::make_tuple(g.tokens, g.log_probability, name_of(g.finish), g.proposed, g.accepted));
        }
        return out;
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg(),
      nb::arg(), nb::arg().none(), nb::arg());
  m.def("_candidates", [](const Tensor& logits, const Tokens& sequence, const nb::tuple& sampling) {
    const std::vector<float> values = logits.to_vector<float>();
    nb::list out;
    for (const auto& [token, probability] : candidates(values, sequence, sampling_of(sampling), here())) {
      out.append(nb::make_tuple(token, probability));
    }
    return out;
  });
  nb::class_<TokenQueue>(m, "_TokenQueue")
      .def("__init__",
           [](TokenQueue* self, int id, double send_seconds, double receive_seconds, int64_t capacity_bytes) {
             new (self) TokenQueue(id, {send_seconds, receive_seconds, capacity_bytes}, here());
           })
      .def("send",
           [](TokenQueue& self, const Tensor& tokens, bool stop, int rank) {
             without_gil([&](Location where) { return self.send(tokens, stop, rank, where), 0; });
           })
      .def("receive", [](TokenQueue& self, bool block) -> nb::object {
        auto message = without_gil([&](Location where) { return self.receive(block, where); });
        return message ? nb::object(nb::make_tuple(message->tokens, message->stop)) : nb::none();
      });
  m.def("_remove_token_queue", &TokenQueue::remove);
}

}  // namespace weft::python
