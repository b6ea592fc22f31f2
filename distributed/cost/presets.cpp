// Models, machines and plans by name.
#include <cctype>
#include <charconv>
#include <map>

#include <fmt/format.h>

#include "../../tensor/error.hpp"
#include "../cost_model.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::distributed {

namespace {

template <class T>
const T& named(const std::map<std::string_view, T>& all, std::string_view name, const char* what) {
  const auto found = all.find(name);
  if (found != all.end()) return found->second;
  std::string names;
  for (const auto& [known, value] : all) names += (names.empty() ? "" : ", ") + std::string(known);
  raise<KeyError>({.problem = fmt::format("there is no {} '{}'", what, name), .remedy = "these are known: " + names});
}

constexpr double giga = 1e9, tera = 1e12;
/// Fraction of a link's bandwidth that large messages achieve.
constexpr double of_link = 0.8;

}  // namespace

TransformerSizes transformer_named(std::string_view name, Location where) {
  const CallScope call("transformer_named", where);
  static const std::map<std::string_view, TransformerSizes> all = {
      {"gpt2", {.layers = 12, .width = 768, .heads = 12}},
      {"gpt2-medium", {.layers = 24, .width = 1024, .heads = 16}},
      {"gpt2-large", {.layers = 36, .width = 1280, .heads = 20}},
      {"gpt2-xl", {.layers = 48, .width = 1600, .heads = 25}},
      {"gpt-22b", {.layers = 48, .width = 6144, .heads = 64, .vocabulary = 51200, .sequence = 2048}},
      {"gpt3", {.layers = 96, .width = 12288, .heads = 96, .vocabulary = 51200, .sequence = 2048}},
      {"gpt-530b", {.layers = 105, .width = 20480, .heads = 128, .vocabulary = 51200, .sequence = 2048}},
      {"gpt-1t", {.layers = 128, .width = 25600, .heads = 160, .vocabulary = 51200, .sequence = 2048}}};
  return named(all, name, "model");
}

Machine machine_named(std::string_view name, Location where) {
  const CallScope call("machine_named", where);
  static const std::map<std::string_view, Machine> all = {
      {"h100",
       {.name = "h100",
        .flops = 494 * tera,
        .narrow_flops = 989 * tera,
        .achievable = 0.55,
        .memory = 80 * giga,
        .memory_bandwidth = 3350 * giga,
        .links = {{8, of_link * 450 * giga, 3e-6}, {0, of_link * 50 * giga, 6e-6}}}},
      {"a100",
       {.name = "a100",
        .flops = 156 * tera,
        .narrow_flops = 312 * tera,
        .achievable = 0.55,
        .memory = 80 * giga,
        .memory_bandwidth = 2039 * giga,
        .links = {{8, of_link * 300 * giga, 3e-6}, {0, of_link * 25 * giga, 6e-6}}}}};
  return named(all, name, "machine");
}

TrainingPlan training_plan(std::string_view given, Location where) {
  const CallScope call("training_plan", where);
  TrainingPlan plan;
  int micro_batch = 1, checkpoint = 0, sequence_parallel = 0;
  const std::map<std::string_view, int*> sizes = {
      {"dp", &plan.dp},           {"pp", &plan.pp},     {"tp", &plan.tp},
      {"sp", &sequence_parallel}, {"ep", &plan.ep},     {"zero", &plan.shard_stage},
      {"v", &plan.chunks},        {"mb", &micro_batch}, {"ckpt", &checkpoint}};
  for (size_t begin = 0; begin <= given.size();) {
    const size_t end = std::min(given.find('-', begin), given.size());
    const std::string_view term = given.substr(begin, end - begin);
    const size_t digits = std::min(term.find_first_of("0123456789"), term.size());
    const auto found = sizes.find(term.substr(0, digits));
    int value = 0;
    const auto [rest, fault] = std::from_chars(term.data() + digits, term.data() + term.size(), value);
    if (found == sizes.end() || fault != std::errc() || rest != term.data() + term.size()) {
      raise<ValueError>({.problem = mismatch_text("plan", "a text like dp8-tp8-pp4-zero1", in_quotes(given)),
                         .remedy = "its terms are dp, pp, tp, sp, ep, zero, v, mb and ckpt, each with a number"});
    }
    *found->second = value;
    begin = end + 1;
  }
  if (sequence_parallel > 0) {
    plan.tp = sequence_parallel;
    plan.sequence_parallel = true;
  }
  if (plan.chunks > 1) plan.schedule = PipelineSchedule::interleaved;
  plan.micro_batch = micro_batch;
  plan.checkpoint = checkpoint > 0;
  plan.batch = int64_t{plan.dp} * micro_batch;
  return plan;
}

std::string text(const TrainingPlan& plan) {
  std::string out = fmt::format("dp{}", plan.dp);
  const auto add = [&](const char* name, int64_t value, int64_t silent) {
    if (value != silent) out += fmt::format("-{}{}", name, value);
  };
  add("ep", plan.ep, 1);
  add("pp", plan.pp, 1);
  add("v", plan.chunks, 1);
  add(plan.sequence_parallel ? "sp" : "tp", plan.tp, 1);
  add("zero", plan.shard_stage, 0);
  add("mb", plan.micro_batch, 1);
  add("ckpt", plan.checkpoint ? 1 : 0, 0);
  return out;
}

}  // namespace weft::distributed
