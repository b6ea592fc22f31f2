// Costs as tables.
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "stage-inl.hpp"

namespace weft::distributed {

namespace {

/// Three significant digits with an SI prefix, such as "1.25 G".
std::string scaled(double value) {
  constexpr std::array<const char*, 7> units = {"", " k", " M", " G", " T", " P", " E"};
  size_t unit = 0;
  while (std::abs(value) >= 999.5 && unit + 1 < units.size()) {
    value /= 1000;
    ++unit;
  }
  const int digits = value == std::floor(value) && unit == 0 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", value, digits, unit == 0 ? " " : units[unit]);
}

std::string seconds_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.2f} s ", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.2f} ms", 1e3 * seconds);
  return fmt::format("{:.1f} us", 1e6 * seconds);
}

std::string bytes_text(double bytes) { return scaled(bytes) + "B"; }

struct Share {
  std::string name;
  double seconds;
};
/// Breakdown of a step's time; the entries add up to it.
std::vector<Share> shares_of(const StepCost& c) {
  std::vector<Share> out{{"compute", c.compute}};
  const auto add = [&](const char* name, double seconds) {
    if (seconds > 0) out.push_back({name, seconds});
  };
  add("computed again", c.recompute);
  for (const auto& [kind, name] : {std::pair("tp", "tp traffic"),
                                   {"ep", "ep traffic"},
                                   {"pp", "pp traffic"},
                                   {"dp", "dp traffic"},
                                   {"control", "small messages"}}) {
    double seconds = 0;
    for (const TrafficCost& t : c.traffic) seconds += t.kind == kind ? t.seconds - t.hidden : 0;
    add(name, seconds);
  }
  add("waiting for stages", c.waiting);
  add("optimizer", c.optimizer);
  return out;
}

std::string limit_of(const StepCost& c) {
  if (!c.fits) {
    return fmt::format("memory: {} more than a device has", bytes_text(c.memory.total() - c.machine.memory));
  }
  std::vector<Share> shares = shares_of(c);
  std::ranges::stable_sort(shares, std::greater<>(), &Share::seconds);
  std::string first = fmt::format("{} ({:.0f} %)", shares[0].name, 100 * shares[0].seconds / c.seconds);
  if (shares.size() < 2) return first;
  return first + fmt::format(", then {} ({:.0f} %)", shares[1].name, 100 * shares[1].seconds / c.seconds);
}

std::string header(const StepCost& c) {
  const TransformerSizes& m = c.model;
  std::string out =
      fmt::format("model    {} parameters: {} blocks of width {}, {} heads, hidden {}, vocabulary {}, {}\n",
                  scaled(parameter_count(m)), m.layers, m.width, m.heads, m.hidden > 0 ? m.hidden : 4 * m.width,
                  m.vocabulary, name(m.dtype));
  if (m.experts > 0)
    out += fmt::format("         {} experts in each block, {} for a token\n", m.experts, m.experts_per_token);
  out += fmt::format("machine  {} x {}\n", c.plan.devices(), c.machine.name);
  out += fmt::format("plan     {}, {}\n", text(c.plan), name(c.plan.schedule));
  return out + fmt::format("step     {} sequences of {} tokens, {} of them at once in a replica (micro-batches: {})\n",
                           c.plan.batch, m.sequence, c.plan.micro_batch, c.micro_batches);
}

std::string memory_table(const StepCost& c) {
  std::string out =
      fmt::format("\n{:<44}{:>12}\n", fmt::format("memory of a device of stage {}", c.memory_stage), "bytes");
  const auto line = [&](const char* name, double bytes) {
    out += fmt::format("  {:<42}{:>12}\n", name, bytes_text(bytes));
  };
  line("weights", c.memory.weights);
  line("gradients", c.memory.gradients);
  line("optimizer", c.memory.optimizer);
  line("activations", c.memory.activations);
  line("temporaries", c.memory.temporaries);
  out += fmt::format("  {:<42}{:>12}  of {}{}\n", "all", bytes_text(c.memory.total()), bytes_text(c.machine.memory),
                     c.fits ? "" : ": too much");
  return out;
}

std::string traffic_table(const StepCost& c) {
  if (c.traffic.empty()) return "";
  std::string out = fmt::format("\n{:<44}{:>12}{:>12}{:>12}{:>12}\n",
                                fmt::format("a device of stage {} sends in a step", c.slowest_stage), "bytes",
                                "messages", "time", "hidden");
  for (const TrafficCost& t : c.traffic) {
    const std::string name = t.kind == "control" ? t.what : t.kind + ": " + t.what;
    out +=
        fmt::format("  {:<42}{:>12}{:>12}{:>12}{:>12}\n", name, bytes_text(t.sending.bytes), scaled(t.sending.messages),
                    seconds_text(t.seconds), t.hidden > 0 ? seconds_text(t.hidden) : "-");
  }
  return out;
}

std::string time_table(const StepCost& c) {
  std::string out = fmt::format("\n{:<44}{:>12}{:>12}\n", "time of a step", "", "share");
  const auto line = [&](const std::string& name, double seconds) {
    out += fmt::format("  {:<42}{:>12}{:>10.1f} %\n", name, seconds_text(seconds), 100 * seconds / c.seconds);
  };
  for (const Share& share : shares_of(c)) line(share.name, share.seconds);
  line("all", c.seconds);
  return out;
}

}  // namespace

std::string text(const StepCost& cost) {
  return header(cost) + memory_table(cost) + traffic_table(cost) + time_table(cost) +
         fmt::format("\nspeed    {}tokens/s, {:.1f} % of the peak, bubble {:.1f} %\nlimit    {}\n",
                     scaled(cost.tokens_per_second), 100 * cost.utilization, 100 * cost.bubble, limit_of(cost));
}

std::string text(std::span<const StepCost> costs) {
  std::string out = fmt::format("{:>4}  {:<36}{:>12}{:>12}{:>12}{:>10}{:>10}  {}\n", "", "plan", "step", "tokens/s",
                                "memory", "of peak", "bubble", "limit");
  for (size_t i = 0; i < costs.size(); ++i) {
    const StepCost& c = costs[i];
    out += fmt::format("{:>4}  {:<36}{:>12}{:>12}{:>12}{:>8.1f} %{:>8.1f} %  {}\n", i + 1, text(c.plan),
                       seconds_text(c.seconds), scaled(c.tokens_per_second), bytes_text(c.memory.total()),
                       100 * c.utilization, 100 * c.bubble, limit_of(c));
  }
  return out;
}

}  // namespace weft::distributed
