// Generation with a language model: one token at a time, and reading a prompt. A token reads every weight once, so its
// GB/s can be compared with roof.read, and a prompt's GFLOP/s with a matrix product's. Models are created when a case
// first runs.
#include <memory>
#include <optional>

#include <weft/nn/causal_lm.hpp>
#include <weft/nn/quantize.hpp>

#include "case.hpp"

namespace weft::bench {

namespace {

struct Size {
  const char* name;
  nn::CausalLMOptions options;
};
const Size sizes[] = {
    {"llama4", {.vocabulary = 8192, .width = 512, .layers = 4, .heads = 8, .kv_heads = 4, .hidden = 1408}},
    {"llama100m", {.vocabulary = 32000, .width = 768, .layers = 12, .heads = 12, .kv_heads = 12, .hidden = 2048}},
};
struct Format {
  const char* name;
  DType dtype;
  int64_t bits = 0;
};
const Format formats[] = {{"f32", f32},      {"bf16", bf16},       {"f16", f16},        {"int8", bf16, 8},
                          {"int4", bf16, 4}, {"int8_f32", f32, 8}, {"int4_f32", f32, 4}};

/// A model with random weights and `context` cached tokens.
struct Model {
  nn::CausalLM net;
  nn::CausalLMCache cache;
  std::vector<int64_t> context;

  Model(const nn::CausalLMOptions& options, const Format& format, int64_t read)
      : net(options), cache(options, 1, 2048, {.dtype = format.dtype}), context{read} {
    net.eval();
    net.to(format.dtype);
    if (format.bits > 0) nn::quantize(net, {.targets = {"_proj$", "lm_head"}, .bits = format.bits});
    if (read > 0) net.read(randint(0, options.vocabulary, {read}), context, cache, /*only_last=*/true);
  }
};

Callback<Model&()> made_once(const nn::CausalLMOptions& options, const Format& format, int64_t context) {
  return [=, model = std::make_shared<std::optional<Model>>()]() -> Model& {
    if (!*model) model->emplace(options, format, context);
    return **model;
  };
}

/// Number of weights that are multiplied with each token.
double products(const nn::CausalLMOptions& o) {
  const int64_t depth = o.width / o.heads, layer = o.width * (2 * o.width + 2 * o.kv_heads * depth + 3 * o.hidden);
  return static_cast<double>(o.layers * layer + o.vocabulary * o.width);
}
double bytes_each(const Format& f) {
  const double scales = 4.0 / 128;
  return f.bits > 0 ? f.bits / 8.0 + scales : static_cast<double>(itemsize(f.dtype));
}

void add_decode_case(const Size& s, const Format& f, int64_t context) {
  const nn::CausalLMOptions& o = s.options;
  const double kept = static_cast<double>(2 * o.layers * context * o.kv_heads * (o.width / o.heads)) *
                      static_cast<double>(itemsize(f.dtype));
  const auto body = [model = made_once(o, f, context), token = tensor({7}), one = std::vector<int64_t>{1}] {
    Model& m = model();
    m.net.read(token, one, m.cache, true);
    m.cache.truncate(m.context);
  };
  add_case(std::string("gen.decode.") + s.name + "." + f.name, body, Mode::no_grad, products(o) * bytes_each(f) + kept,
           Rate::bytes);
}

void add_prefill_case(const Size& s, const Format& f, int64_t length) {
  const nn::CausalLMOptions& o = s.options;
  const double head = static_cast<double>(o.vocabulary * o.width);
  const double attention = static_cast<double>(2 * length * length * o.width * o.layers);  // half of it is masked
  const auto body = [model = made_once(o, f, 0), tokens = randint(0, o.vocabulary, {length}),
                     counts = std::vector<int64_t>{length}] {
    Model& m = model();
    m.net.read(tokens, counts, m.cache, true);
    m.cache.truncate(m.context);
  };
  add_case(std::string("gen.prefill.") + s.name + "." + f.name, body, Mode::no_grad,
           2 * (products(o) - head) * static_cast<double>(length) + attention, Rate::flops);
}

}  // namespace

void add_generation_cases() {
  for (const Size& s : sizes) {
    for (const Format& f : formats) add_decode_case(s, f, 128);
    for (const Format& f : formats) add_prefill_case(s, f, 512);
  }
  // The rate of a prompt's products alone.
  for (const DType dtype : {f32, bf16}) {
    const double work = 2.0 * 512 * 768 * 2048;
    add_case(
        std::string("gen.product.") + name(dtype),
        [x = randn({512, 768}).to(dtype), w = randn({2048, 768}).to(dtype)] { linear(x, w); }, Mode::no_grad, work,
        Rate::flops);
  }
}

}  // namespace weft::bench
