// Every op on every device, from its record alone: an op that has a record needs no test of its own for any of this.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <weft/ops/gradcheck.hpp>
#include <weft/backends/backend.hpp>
#include <weft/ops/join.hpp>
#include <weft/tensor/threads.hpp>

#include "samples.hpp"

namespace weft::testing {
namespace {

// ---- fields of a record ---------------------------------------------------------------------------------------------

std::span<const DType> dtypes_of(const OpRecord& record) {
  static constexpr DType all[] = {DType::f32, DType::f64, DType::f16,    DType::bf16, DType::i64,
                                  DType::u64, DType::i32, DType::u32,    DType::i16,  DType::u16,
                                  DType::i8,  DType::u8,  DType::boolean};
  if (record.domain == OpRecord::Domain::floating) return std::span(all).first(4);
  return record.domain == OpRecord::Domain::any ? std::span(all) : std::span(all).first(std::size(all) - 1);
}

std::vector<Values> samples_of(const OpRecord& record, DType dtype, Device device = {}) {
  SampleMaker make(dtype, device);
  return record.samples(make);
}

Tensors copies(const Values& values) {
  Tensors out;
  for (const Tensor& t : tensors_in(values)) out.push_back(t.clone());
  return out;
}

// The same elements where no two neighbours are adjacent in memory, last dimension outermost.
Tensor strided(const Tensor& t) {
  Dims reversed, order;
  for (int i = t.dim() - 1; i >= 0; --i) {
    reversed.push_back(2 * t.sizes()[static_cast<size_t>(i)]);
    order.push_back(i);
  }
  if (t.dim() == 0) reversed.push_back(2);
  Tensor view = full(reversed, 1, {t.dtype(), t.device()});
  for (int i = 0; i < view.dim(); ++i) view = view.slice(i, 1, {}, 2);
  view = t.dim() == 0 ? view.select(0, 0) : view.permute(order);
  view.copy_(t);
  return view;
}

// ---- the checks -----------------------------------------------------------------------------------------------------

void runs_and_is_finite(const OpRecord& record, DType dtype) {
  for (const Values& values : samples_of(record, dtype)) {
    const Tensors before = copies(values);
    for (const Tensor& out : call(record, values)) {
      if (!is_inexact(out.dtype())) continue;
      for (double v : elements(out)) EXPECT_TRUE(std::isfinite(v)) << v;
    }
    expect_same(tensors_in(values), before);
    if (record.facts.differentiable && is_floating(dtype)) {
      for (const Tensor& g : gradients(record, values)) {
        if (!g.defined()) continue;
        for (double v : elements(g)) EXPECT_TRUE(std::isfinite(v)) << "gradient " << v;
      }
      expect_same(tensors_in(values), before);
    }
  }
}

void takes_its_defaults(const OpRecord& record) {
  const std::vector<Argument>& arguments = record.signature().arguments;
  const auto required = static_cast<size_t>(std::ranges::count(arguments, true, &Argument::required));
  for (Values values : samples_of(record, DType::f32)) {
    EXPECT_LE(values.size(), arguments.size());
    EXPECT_GE(values.size(), required);
    values.resize(required);
    try {
      call(record, values);
    } catch (const Error&) {  // an op may ask for one of two
    }
  }
}

Tensor as_it_is(const Tensor& t) { return t; }
/// The same elements, contiguous behind others.
Tensor behind_others(const Tensor& t) {
  const Tensor both = stack(Tensors{full_like(t, 7), t});
  return both.select(0, 1);
}

// A backward that is recorded may be another formula, which its own derivatives tell nothing of; and gradients come in
// any layout.
void has_one_gradient(const OpRecord& record, const GradcheckFunction& function, const Tensors& inputs) {
  const auto gradients_of = [&](bool recorded, Tensor (*placed)(const Tensor&) = as_it_is) {
    Tensors outputs = function(inputs), seeds;
    std::erase_if(outputs, [](const Tensor& t) { return !t.requires_grad(); });
    for (const Tensor& out : outputs) {
      seeds.push_back(placed(seed_of(record, out, 99)));
    }
    if (outputs.empty()) return Tensors{};
    return grad(outputs, inputs, seeds, {.create_graph = recorded, .allow_unused = true});
  };
  const Tensors expected = gradients_of(false);
  using Placed = std::pair<Tensor (*)(const Tensor&), const char*>;
  for (const auto& [placed, what] : {Placed(behind_others, "behind others"), Placed(strided, "with strides")}) {
    SCOPED_TRACE(what);
    expect_close(gradients_of(false, placed), expected, tolerance_of(DType::f64));
  }
  SCOPED_TRACE("recorded backward");
  expect_close(gradients_of(true), expected, tolerance_of(DType::f64));
}

/// Those that read one triangle of a symmetric matrix have the gradient of both.
bool reads_one_triangle(const OpRecord& record) {
  static const std::set<std::string_view> ops = {"linalg_cholesky", "linalg_cholesky_ex", "linalg_eigh",
                                                 "linalg_eigvalsh"};
  return ops.contains(record.name);
}

void has_right_gradients(const OpRecord& record) {
  for (const Values& values : samples_of(record, DType::f64)) {
    Tensors inputs;
    for (const Tensor& t : tensors_in(values)) {
      if (is_inexact(t.dtype())) inputs.push_back(t.clone().requires_grad_());
    }
    if (inputs.empty()) continue;
    const bool symmetric = reads_one_triangle(record);
    const GradcheckFunction function = [&](std::span<const Tensor> given) {
      size_t next = 0;
      const Values replaced = mapped(values, [&](const Tensor& t) {
        if (!is_inexact(t.dtype())) return t;
        const Tensor& x = given[next++];
        return symmetric ? (x + x.transpose(-2, -1)) * 0.5 : x;
      });
      Tensors outputs = call(record, replaced);
      std::erase_if(outputs, [](const Tensor& t) { return !is_inexact(t.dtype()); });
      return outputs;
    };
    has_one_gradient(record, function, inputs);
    const GradcheckFunction steady = [&](std::span<const Tensor> given) {
      Tensors outputs = function(given);
      for (Tensor& out : outputs) {
        if (has_any_phase(record, out)) out = abs(out);
      }
      return outputs;
    };
    const GradcheckOptions told = {.raise_exception = false};
    const GradcheckResult first = gradcheck(steady, inputs, told);
    EXPECT_TRUE(first.passed) << first.message;
    const GradcheckResult second = gradgradcheck(steady, inputs, told);
    EXPECT_TRUE(second.passed) << "second derivative: " << second.message;
  }
}

void takes_any_strides(const OpRecord& record, Device device) {
  for (const Values& values : samples_of(record, DType::f32, device)) {
    const Values spread = mapped(values, strided);
    expect_close(call(record, spread, device), call(record, values, device), tolerance_of(DType::f32));
    if (record.facts.differentiable) {
      expect_close(gradients(record, spread, device), gradients(record, values, device), tolerance_of(DType::f32));
    }
  }
}

void is_close_in_half_precision(const OpRecord& record, DType half) {
  for (const Values& values : samples_of(record, half)) {
    if (draws(record, values)) continue;
    Values wide = mapped(values, [&](const Tensor& t) { return t.dtype() == half ? t.to(DType::f32) : t; });
    for (Value& v : wide) {
      if (auto* t = std::get_if<DType>(&v)) *t = DType::f32;
    }
    const Tensors rounded = call(record, values), exact = call(record, wide);
    ASSERT_EQ(rounded.size(), exact.size());
    for (size_t i = 0; i < exact.size(); ++i) {
      double largest = 0;
      for (double v : elements(exact[i])) largest = std::max(largest, std::fabs(v));
      const double relative = half == DType::f16 ? 2e-3 : 1.6e-2;
      EXPECT_TRUE(close(rounded[i], exact[i], {relative, relative * largest})) << "output " << i;
    }
  }
}

void ignores_the_thread_count(const OpRecord& record) {
  const int before = num_threads();
  for (const Values& values : samples_of(record, DType::f32)) {
    set_num_threads(1);
    const Tensors one = call(record, values);
    const Tensors one_gradient = record.facts.differentiable ? gradients(record, values) : Tensors{};
    set_num_threads(2);
    expect_same(call(record, values), one);
    if (record.facts.differentiable) expect_same(gradients(record, values), one_gradient);
  }
  set_num_threads(before);
}

void agrees_with_cpu(const OpRecord& record, Device device, DType dtype) {
  const std::vector<Values> here = samples_of(record, dtype, device), there = samples_of(record, dtype);
  for (size_t i = 0; i < here.size(); ++i) {
    SCOPED_TRACE("sample " + std::to_string(i));
    const Tensors before = copies(here[i]);
    const Tensors expected = call(record, there[i]), actual = call(record, here[i], device);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t k = 0; k < actual.size(); ++k) {
      EXPECT_EQ(actual[k].dtype(), expected[k].dtype());
      EXPECT_TRUE(close(actual[k], expected[k], tolerance_of(expected[k].dtype()))) << "output " << k;
    }
    expect_same(tensors_in(here[i]), before);
    if (record.facts.differentiable && is_floating(dtype)) {
      expect_close(gradients(record, here[i], device), gradients(record, there[i]), tolerance_of(dtype));
    }
  }
}

void has_the_same_bits_in_every_run(const OpRecord& record, Device device) {
  for (const Values& values : samples_of(record, DType::f32, device)) {
    expect_same(call(record, values, device), call(record, values, device));
    if (record.facts.differentiable) expect_same(gradients(record, values, device), gradients(record, values, device));
  }
}

void knows_shapes_without_elements(const OpRecord& record, DType dtype) {
  const Device meta(DeviceType::meta);
  const std::vector<Values> here = samples_of(record, dtype, meta), there = samples_of(record, dtype);
  for (size_t i = 0; i < here.size(); ++i) {
    const Tensors expected = call(record, there[i]);
    Tensors actual;
    try {
      actual = call(record, here[i]);
    } catch (const NotImplementedError& e) {  // honest where the shape follows from values
      EXPECT_NE(std::string(e.what()).find("values"), std::string::npos) << e.what();
      continue;
    }
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t k = 0; k < actual.size(); ++k) {
      EXPECT_EQ(actual[k].shape().text(), expected[k].shape().text());
      EXPECT_EQ(actual[k].dtype(), expected[k].dtype());
    }
  }
}

// Of tensors anywhere, with any strides, as of the elements that come out.
void infers_what_it_gives(const OpRecord& record, DType dtype) {
  for (const Values& values : samples_of(record, dtype)) {
    for (const Values& given : {values, mapped(values, strided)}) {
      std::vector<TensorMeta> expected, actual;
      for (const Tensor& t : call(record, given)) expected.push_back({t.shape(), t.dtype()});
      const GeneratorState before = default_generator().state();
      try {
        actual = record.infer(given);
      } catch (const NotImplementedError& e) {
        EXPECT_NE(std::string(e.what()).find("values"), std::string::npos) << e.what();
        continue;
      }
      EXPECT_TRUE(default_generator().state() == before) << "it drew numbers";
      EXPECT_EQ(actual, expected);
    }
  }
}

// ---- one test for each op and device --------------------------------------------------------------------------------

struct Case {
  const OpRecord* record;
  DeviceType device;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.record->name << " on " << Device(c.device).name(); }

class RecordTest : public ::testing::TestWithParam<Case> {
 protected:
  template <class F>
  static void check(const std::string& what, F&& f) {
    SCOPED_TRACE(what);
    try {
      f();
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
  }
  static void check_on_cpu(const OpRecord& record) {
    for (DType t : dtypes_of(record)) check(name(t), [&] { runs_and_is_finite(record, t); });
    check("defaults", [&] { takes_its_defaults(record); });
    check("strides", [&] { takes_any_strides(record, {}); });
    check("threads", [&] { ignores_the_thread_count(record); });
    for (DType half : {DType::f16, DType::bf16}) {
      check(std::string("close in ") + name(half), [&] { is_close_in_half_precision(record, half); });
    }
    if (record.facts.differentiable) check("gradcheck", [&] { has_right_gradients(record); });
  }
  static void check_on_meta(const OpRecord& record) {
    for (DType t : dtypes_of(record)) {
      check(name(t), [&] { knows_shapes_without_elements(record, t); });
      check(name(t), [&] { infers_what_it_gives(record, t); });
    }
  }
  static void check_on_device(const OpRecord& record, Device device) {
    for (DType t : dtypes_of(record)) {
      check(name(t), [&] {
        try {
          agrees_with_cpu(record, device, t);
        } catch (const DTypeError&) {  // a device may lack doubles
          if (t != DType::f64) throw;
        }
      });
    }
    check("strides", [&] { takes_any_strides(record, device); });
    check("runs", [&] { has_the_same_bits_in_every_run(record, device); });
  }
};

TEST_P(RecordTest, Holds) {
  const OpRecord& record = *GetParam().record;
  const Device device(GetParam().device);
  if (device_count(device.type) == 0) {
    GTEST_SKIP() << "no " << device.name() << " device: " << record.name << " is one of " << op_records().size()
                 << " ops not tested there";
  }
  if (device.is_cpu()) check_on_cpu(record);
  else if (device.type == DeviceType::meta) check_on_meta(record);
  else check_on_device(record, device);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  std::vector<DeviceType> devices = {DeviceType::cpu, DeviceType::meta, DeviceType::hpu, DeviceType::cuda};
  if (const char* plugin = std::getenv("WEFT_TEST_PLUGIN")) devices.push_back(Device(plugin).type);
  for (const OpRecord& record : op_records()) {
    for (DeviceType device : devices) {
      if (sets_elements(record) || device == DeviceType::meta) all.push_back({&record, device});
    }
  }
  return all;
}

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  constexpr const char* devices[] = {"cpu", "cuda", "hpu", "meta", "plugin"};
  return std::string(info.param.record->name) + "_on_" + devices[static_cast<int>(info.param.device)];
}
INSTANTIATE_TEST_SUITE_P(Ops, RecordTest, ::testing::ValuesIn(cases()), name_of);

// ---- the list itself ------------------------------------------------------------------------------------------------

TEST(Records, NameEachOpOnce) {
  std::set<std::string> names;
  for (const OpRecord& record : op_records()) {
    EXPECT_TRUE(names.insert(record.name).second) << record.name;
    EXPECT_EQ(find_record(record.name), &record);
  }
  EXPECT_GT(names.size(), 60u);
  EXPECT_EQ(find_record("no_such_op"), nullptr);
}

TEST(Records, NameTheirWrittenArguments) {
  std::vector<std::string> written;
  for (const OpRecord& record : op_records()) {
    for (const Argument& argument : record.signature().arguments) {
      if (argument.written) written.push_back(std::string(record.name) + "." + argument.name);
    }
    EXPECT_EQ(record.signature().text.find('&'), std::string::npos) << record.name;
  }
  EXPECT_THAT(written, ::testing::UnorderedElementsAre("batch_norm.running_mean", "batch_norm.running_var",
                                                       "instance_norm.running_mean", "instance_norm.running_var",
                                                       "embedding_bag.weight"));
}

TEST(Records, SignaturesNameEveryArgumentOnce) {
  for (const OpRecord& record : op_records()) {
    SCOPED_TRACE(record.schema);
    const Signature& signature = record.signature();
    EXPECT_EQ(signature.text.substr(0, signature.text.find('(')), record.name);
    EXPECT_EQ(signature.arguments.size(), record.function.types.size());
    std::set<std::string> names;
    bool optional = false;
    for (const Argument& argument : signature.arguments) {
      EXPECT_TRUE(names.insert(argument.name).second) << argument.name;
      for (const std::string& alias : argument.aliases) EXPECT_TRUE(names.insert(alias).second) << alias;
      EXPECT_TRUE(!argument.required || !optional) << argument.name << " follows one that may be left out";
      optional = optional || !argument.required;
    }
    EXPECT_GT(std::string(record.document).size(), 1u);
    SampleMaker make(DType::f32, {});
    EXPECT_FALSE(record.samples(make).empty());
  }
}

Tensor scaled(const Tensor& x, double factor, const std::string& mode, std::optional<int64_t> dim) {
  EXPECT_EQ(mode, "a, b");
  return x * factor + dim.value_or(100);
}
OpRecord with_schema(const char* schema) {
  return {"scaled", schema, "for this test", true, OpRecord::Domain::floating, nullptr, nullptr, detail::boxed<scaled>};
}

TEST(Records, SchemasTellNamesTypesDefaultsAndResults) {
  const OpRecord record = with_schema("scaled(x, factor|by=2.5, *, mode='a, b', dim=None) -> (values, indices)");
  const Signature& s = record.signature();
  ASSERT_EQ(s.arguments.size(), 4u);
  EXPECT_EQ(s.text, "scaled(x, factor=2.5, *, mode='a, b', dim=None)");
  EXPECT_EQ(s.results, (std::vector<std::string>{"values", "indices"}));
  EXPECT_EQ(s.find("input"), s.arguments.data());
  EXPECT_EQ(s.find("by"), &s.arguments[1]);
  EXPECT_EQ(s.find("axis"), &s.arguments[3]);
  EXPECT_EQ(s.find("keepdims"), nullptr);
  EXPECT_TRUE(s.arguments[0].required && !s.arguments[1].keyword_only && s.arguments[2].keyword_only);
  EXPECT_EQ(s.arguments[0].type.kind, ArgumentType::Kind::tensor);
  EXPECT_EQ(s.arguments[1].type.kind, ArgumentType::Kind::number);
  EXPECT_EQ(std::get<double>(s.arguments[1].default_value), 2.5);
  EXPECT_TRUE(s.arguments[3].type.optional);
  const Value three = record.call(Values{tensor({1.0}), std::monostate()});
  EXPECT_EQ(std::get<Tensor>(three).item<double>(), 102.5);
  EXPECT_THROW(record.call({}), BadArgument);
}

TEST(Records, SchemasThatDoNotFitTheFunctionAreRefused) {
  for (const char* schema :
       {"scaled(x, factor=1.0, mode='a')", "scaled(x, factor=1.0, mode='a', dim=None, more=1)",
        "scaled(x, factor=None, mode='a, b', dim=None)", "scaled(x, factor=one, mode='a, b', dim=None)", "scaled"}) {
    EXPECT_THROW(with_schema(schema).signature(), ValueError) << schema;
  }
}

// ---- the checks find seeded faults ---------------------------------------------------------------------------------

Tensor square_with_half_the_gradient(const Tensor& x) { return x.detach() * x; }
Tensor negation_in_place(const Tensor& x) { return neg_(x.detach()).clone(); }
Tensor elements_in_memory_order(const Tensor& x) { return x.as_strided(x.shape(), Dims::filled(x.dim(), 1)).clone(); }
Tensor infinity(const Tensor& x) { return x / 0.0; }

std::vector<Values> two_by_two(SampleMaker& make) { return {{make.tensor({2, 2}, 1, 2)}}; }

template <auto function>
OpRecord broken() {
  return {"broken",   "broken(x)", "for this test",        true, OpRecord::Domain::floating,
          two_by_two, nullptr,     detail::boxed<function>};
}

template <class F>
int failures_of(F&& check) {
  ::testing::TestPartResultArray results;
  {
    const ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    check();
  }
  return results.size();
}

TEST(Records, ChecksFindBrokenOps) {
  EXPECT_GT(failures_of([] { has_right_gradients(broken<square_with_half_the_gradient>()); }), 0);
  EXPECT_GT(failures_of([] { runs_and_is_finite(broken<negation_in_place>(), DType::f32); }), 0);
  EXPECT_GT(failures_of([] { runs_and_is_finite(broken<infinity>(), DType::f32); }), 0);
  EXPECT_GT(failures_of([] { takes_any_strides(broken<elements_in_memory_order>(), {}); }), 0);
}

TEST(Samples, AreDeterministicSpreadAndWithoutTies) {
  SampleMaker first(DType::f32, {}), second(DType::f32, {});
  const std::vector<float> values = first.tensor({50}, -2, 2).to_vector<float>();
  EXPECT_EQ(second.tensor({50}, -2, 2).to_vector<float>(), values);
  EXPECT_NE(second.tensor({50}, -2, 2).to_vector<float>(), values);
  EXPECT_EQ(std::set<float>(values.begin(), values.end()).size(), values.size());
  const auto [low, high] = std::ranges::minmax(values);
  EXPECT_LT(low, -1.8f);
  EXPECT_GT(high, 1.8f);
  EXPECT_GE(low, -2.1f);
  EXPECT_LE(high, 2.1f);
}

TEST(Samples, FollowTheDtype) {
  SampleMaker bytes(DType::u8, {}), bools(DType::boolean, {}), integers(DType::i64, {});
  for (int64_t v : bytes.tensor({30}, -3, 3).to_vector<int64_t>()) EXPECT_LE(v, 3);
  for (int64_t v : integers.tensor({30}, 0.5, 3).to_vector<int64_t>()) EXPECT_TRUE(v >= 1 && v <= 3);
  const std::vector<int64_t> chosen = bools.tensor({30}).to_vector<int64_t>();
  EXPECT_TRUE(std::ranges::count(chosen, 1) > 5 && std::ranges::count(chosen, 0) > 5);
  const std::vector<int64_t> mask = bools.mask({2}).to_vector<int64_t>();
  EXPECT_EQ(mask[0] + mask[1], 1);
  for (int64_t v : bools.indices({30}, 4).to_vector<int64_t>()) EXPECT_TRUE(v >= 0 && v < 4);
}

}  // namespace
}  // namespace weft::testing
