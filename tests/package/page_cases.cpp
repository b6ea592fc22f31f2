// Writes pages of histories that a report must bear into a folder: usage: weft_page_cases FOLDER
// or the log of a long run of many layers: usage: weft_page_cases --log FILE [LAYERS] [STEPS]
#include <cmath>
#include <fstream>
#include <string>

#include <weft/hooks/recorder.hpp>

namespace {

using namespace weft;

constexpr double not_finite = NAN;

Statistics typical(double rms, int64_t zeros = 0, int64_t bad = 0) {
  Statistics s{.count = 1000, .zeros = zeros, .non_finite = bad, .mean = rms / 10, .deviation = rms};
  s.norm = rms * std::sqrt(1000.0 - static_cast<double>(bad)), s.low = -3 * rms, s.high = 3 * rms;
  return s;
}

Shared<const Histogram> bins_around(double rms) {
  auto h = Shared<Histogram>::make();
  const int middle = rms > 0 && std::isfinite(rms) ? static_cast<int>(std::log2(rms)) - Histogram::lowest : -100;
  for (int i = 0; i < Histogram::bins; ++i) {
    const auto share = static_cast<uint32_t>(500 * std::exp(-0.3 * std::abs(i - middle)));
    h->positive[static_cast<size_t>(i)] = h->negative[static_cast<size_t>(i)] = share;
  }
  if (rms == 0) h->zeros = 1000;
  if (!std::isfinite(rms)) h->non_finite = 1000;
  return h;
}

struct Plan {
  int layers = 3, steps = 10, every = 1;
  std::string (*name)(int) = [](int i) { return "layer" + std::to_string(i) + ".weight"; };
  /// rms of a layer's gradient in a column; a non-finite value makes every element non-finite.
  double (*rms)(int layer, int column) = [](int i, int k) {
    return std::pow(10, -i % 7) * (1 + 0.3 * std::sin(k + i));
  };
  double (*loss)(int column) = [](int k) { return 2.3 * std::exp(-0.02 * k) + 0.1; };
  bool activations = true;
};

Statistics or_bad(double rms) { return std::isfinite(rms) ? typical(rms, rms == 0 ? 1000 : 10) : typical(0, 0, 1000); }

History history_of(const Plan& plan) {
  History h;
  for (int i = 0; i < plan.layers; ++i) h.watched.push_back({.name = plan.name(i)});
  for (int i = 0; i < plan.layers && plan.activations; ++i) {
    h.watched.push_back({.name = "out." + plan.name(i), .kind = WatchedKind::activation});
  }
  for (int k = 0; k < plan.steps; ++k) {
    HistoryStep step{.step = int64_t{k} * plan.every, .loss = plan.loss(k), .observations = {}};
    for (size_t i = 0; i < h.watched.size(); ++i) {
      const double rms = plan.rms(static_cast<int>(i) % plan.layers, k);
      Observation o;
      o.value = typical(0.1), o.gradient = or_bad(rms), o.update_ratio = 1e-3 * rms;
      if (k % 10 == 0) o.value_histogram = bins_around(0.1), o.gradient_histogram = bins_around(rms);
      if (o.gradient->non_finite > 0 && !h.watched[i].bad_gradient) h.watched[i].bad_gradient = step.step;
      step.observations.push_back(o);
    }
    h.steps.push_back(std::move(step));
  }
  return h;
}

std::string long_name(int i) {
  return "transformer.encoder.blocks." + std::to_string(i) + ".attention.projections.query_key_value.weight_original";
}
std::string unbroken_name(int i) { return std::string(150, static_cast<char>('a' + i)); }

// A line at a time, since all of it is larger than memory should be.
void write_log(const std::string& file, int layers, int steps) {
  std::ofstream out(file);
  const Plan plan{.layers = layers};
  History h;
  for (int i = 0; i < layers; ++i) {
    h.watched.push_back({.name = "blocks." + std::to_string(i) + ".weight"});
  }
  for (int k = 0; k < steps; ++k) {
    HistoryStep step{.step = k, .loss = plan.loss(k % 1000) + (k == steps / 3 ? 5 : 0), .observations = {}};
    for (int i = 0; i < layers; ++i) {
      const double peak = i == layers / 2 && k == steps / 2 ? 1e4 : 1;
      Observation o;
      o.value = typical(0.1), o.gradient = typical(plan.rms(i, k) * peak), o.update_ratio = 1e-3;
      if (k % 500 == 0) o.value_histogram = bins_around(0.1), o.gradient_histogram = bins_around(plan.rms(i, k));
      step.observations.push_back(o);
    }
    out << json_line(h, step) << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argv[1];
  if (folder == "--log") {
    write_log(argv[2], argc > 3 ? std::stoi(argv[3]) : 500, argc > 4 ? std::stoi(argv[4]) : 10000);
    return 0;
  }
  const auto write = [&](const std::string& name, const History& history, const std::string& title = "Gradients") {
    std::ofstream(folder + "/" + name + ".html") << report_html(history, title);
  };
  write("names", history_of({.layers = 12, .steps = 91, .name = long_name}));
  write("unbroken", history_of({.steps = 5, .name = unbroken_name}), unbroken_name(2));
  write("one", history_of({.layers = 1, .steps = 1, .activations = false}));
  write("three", history_of({}));
  // A peak of one step of three thousand.
  write("long", history_of({.layers = 40,
                            .steps = 3000,
                            .rms = [](int i, int k) { return i == 7 && k == 1234 ? 5e3 : 0.01 * (i + 1); },
                            .activations = false}));
  std::ofstream(folder + "/noted.html") << report_html(history_of({}), "Noted",
                                                       "ended by SIGSEGV, an access to memory");
  const History other =
      history_of({.layers = 5, .steps = 25, .rms = [](int i, int k) { return k < 9 ? 0.1 * (i + 1) : not_finite; }});
  std::ofstream(folder + "/both.html") << comparison_html({"first", history_of({.layers = 12, .steps = 91})},
                                                          {"second", other});
  std::ofstream(folder + "/nothing.html") << comparison_html({unbroken_name(1), {}}, {unbroken_name(2), {}});
  write("many", history_of({.layers = 200, .steps = 500, .every = 20, .activations = false}));
  History still = history_of({.layers = 9, .steps = 20, .activations = false});
  for (HistoryStep& step : still.steps) {
    for (Observation& o : step.observations) o.update_ratio = 0;
  }
  write("still", still);
  write("bad", history_of({.rms = [](int, int) { return not_finite; }, .loss = [](int) { return not_finite; }}));
  write("late", history_of({.layers = 6,
                            .steps = 46,
                            .rms = [](int i, int k) { return k == 45 && i != 3 ? not_finite : 0.01 * (i + 1); },
                            .loss = [](int k) { return k == 45 ? double{INFINITY} : 3.0 - 0.01 * k; }}));
  write("zero", history_of({.rms = [](int, int) { return 0.0; }, .loss = [](int) { return 0.0; }}));
  write("extreme", history_of({.rms = [](int i, int) { return i == 0   ? 5e-324
                                                              : i == 1 ? 1e308
                                                                       : 1.0; },
                               .loss = [](int k) { return k % 2 == 0 ? -1e308 : 1e308; }}));
  History remembered = history_of({.layers = 6, .steps = 46});
  const auto moments = [](size_t most) {
    std::vector<MemoryMoment> curve(60);
    for (size_t i = 0; i < curve.size(); ++i) {
      curve[i].at = static_cast<double>(i) / 60;
      for (size_t k = 0; k < memory_kind_count; ++k) curve[i].bytes[k] = most / 10 * (1 + (i * (k + 1)) % 7) / 7;
    }
    return curve;
  };
  std::vector<DeviceMemory::Total> totals;
  for (int64_t k = 0; k < 46; ++k)
    totals.push_back(
        {k, (size_t{3} << 40) / 46 * (static_cast<size_t>(k) + 9), (size_t{3} << 40) / 46 * static_cast<size_t>(k)});
  remembered.memory = {{.totals = totals,
                        .step = 45,
                        .curve = moments(size_t{3} << 42),
                        .at_peak = {"1.5 MiB: activation of " + unbroken_name(3), "0 B: a"},
                        .growth = {unbroken_name(1) + " keeps 4 KiB more in each of 45 steps"}},
                       {.totals = {{7, 1, 0}}, .step = 7, .curve = moments(10), .at_peak = {"1 B: weight"}}};
  remembered.memory[1].device = "cuda:7";
  write("memory", remembered);
  write("unmoved",
        {.watched = {{.name = "a"}, {.name = "b"}},
         .steps = {{.step = 0, .loss = {}, .observations = {}}, {.step = 1, .loss = {}, .observations = {}}}});
  write("unstarted", {.watched = {{.name = "a"}}, .steps = {}});
  write("empty", {});
}
