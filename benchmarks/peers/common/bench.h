// Timing loop of all peers' benchmark programs; depends on no tensor library.
// Prints one JSON line per case:
//   {"lib":"torch","case":"ovh.add_1.nograd","threads":1,"ns":<median>,"min_ns":<min>,"reps":n,"unit":"ns/op"[,"rate":r,"rate_unit":"GB/s"]}
#pragma once
#include <sys/resource.h>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <regex>
#include <string>
#include <vector>

namespace bench {

struct Options {
  std::string lib = "?";
  std::string filter;  // regex searched in the case name; empty: all
  int threads = 1;
  double budget_s = 0.25;  // time spent measuring one case (after calibration)
  bool list = false;
};

inline Options& options() {
  static Options o;
  return o;
}

inline void parse(int argc, char** argv, const char* lib) {
  auto& o = options();
  o.lib = lib;
  for (int i = 1; i < argc; ++i) {
    std::string a = argv[i];
    auto val = [&](const char* key) -> const char* {
      size_t n = std::strlen(key);
      return a.compare(0, n, key) == 0 ? a.c_str() + n : nullptr;
    };
    if (auto v = val("--threads=")) o.threads = std::atoi(v);
    else if (auto v = val("--filter=")) o.filter = v;
    else if (auto v = val("--budget=")) o.budget_s = std::atof(v);
    else if (a == "--list") o.list = true;
    else {
      std::fprintf(stderr, "unknown argument %s\n", a.c_str());
      std::exit(2);
    }
  }
}

inline bool selected(const std::string& name) {
  auto& o = options();
  if (!o.filter.empty() && !std::regex_search(name, std::regex(o.filter))) return false;
  if (o.list) {
    std::printf("%s\n", name.c_str());
    return false;
  }
  return true;
}

using clk = std::chrono::steady_clock;
inline double ns_since(clk::time_point t0) { return std::chrono::duration<double, std::nano>(clk::now() - t0).count(); }

inline void report(const std::string& name, std::vector<double> per_op, double work = 0,
                   const char* rate_unit = nullptr, const char* unit = "ns/op") {
  std::sort(per_op.begin(), per_op.end());
  double med = per_op[per_op.size() / 2], mn = per_op.front();
  auto& o = options();
  std::printf("{\"lib\":\"%s\",\"case\":\"%s\",\"threads\":%d,\"ns\":%.1f,\"min_ns\":%.1f,\"reps\":%zu,\"unit\":\"%s\"",
              o.lib.c_str(), name.c_str(), o.threads, med, mn, per_op.size(), unit);
  if (rate_unit) std::printf(",\"rate\":%.3f,\"rate_unit\":\"%s\"", work / med, rate_unit);
  std::printf("}\n");
  std::fflush(stdout);
}

// fn() runs `ops` operations. `work`: bytes or flops per operation (work/ns = GB/s or GFLOP/s).
template <class F>
void run(const std::string& name, F&& fn, double work = 0, const char* rate_unit = nullptr, double ops = 1) {
  if (!selected(name)) return;
  try {
    for (int i = 0; i < 3; ++i) fn();
    auto t0 = clk::now();
    fn();
    double one = std::max(ns_since(t0), 20.0);
    long iters = std::max(1L, (long)(2e6 / one));  // batches of about 2 ms
    for (long i = 0; i < iters; ++i) fn();         // warm-up batch
    std::vector<double> v;
    auto start = clk::now();
    while (v.size() < 5 || (ns_since(start) < options().budget_s * 1e9 && v.size() < 2000)) {
      auto a = clk::now();
      for (long i = 0; i < iters; ++i) fn();
      v.push_back(ns_since(a) / iters / ops);
    }
    report(name, std::move(v), work, rate_unit);
  } catch (const std::exception& e) {
    std::string m = e.what();
    m = m.substr(0, m.find('\n'));
    for (auto& c : m)
      if (c == '"' || c == '\\') c = '\'';
    std::printf("{\"lib\":\"%s\",\"case\":\"%s\",\"threads\":%d,\"error\":\"%s\"}\n", options().lib.c_str(),
                name.c_str(), options().threads, m.substr(0, 160).c_str());
  }
}

inline double peak_rss_mb() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  return u.ru_maxrss / 1024.0;
}
inline void report_value(const std::string& name, double v, const char* unit) {
  std::printf("{\"lib\":\"%s\",\"case\":\"%s\",\"threads\":%d,\"value\":%.4f,\"unit\":\"%s\"}\n", options().lib.c_str(),
              name.c_str(), options().threads, v, unit);
  std::fflush(stdout);
}

}  // namespace bench
