#include <weft/io/run_log.hpp>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace weft::io {

namespace {

std::string new_folder_name() {
  const std::tm now = fmt::localtime(std::time(nullptr));
  const std::string name = fmt::format("runs/{:%Y%m%d-%H%M%S}", now);
  std::string free = name;
  for (int i = 2; std::filesystem::exists(free); ++i) free = fmt::format("{}-{}", name, i);
  return free;
}

// JSON has no such numbers: they are written as strings.
std::string json_number(double value) {
  if (std::isfinite(value)) return fmt::format("{}", static_cast<float>(value));
  return std::isnan(value) ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string duration(double seconds) {
  const auto s = static_cast<int64_t>(seconds + 0.5);
  return s < 3600 ? fmt::format("{}:{:02}", s / 60, s % 60)
                  : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

}  // namespace

RunLog::RunLog(Path folder, int64_t first, int64_t last, Location where)
    : folder_(folder.empty() ? Path(new_folder_name()) : std::move(folder)),
      first_(first),
      last_(last),
      terminal_(::isatty(STDOUT_FILENO) == 1),
      start_(steady_seconds()) {
  std::error_code failed;
  std::filesystem::create_directories(folder_.string(), failed);
  errno = 0;
  metrics_ = std::make_unique<std::ofstream>((folder_ / "metrics.jsonl").string(), std::ios::trunc);
  if (metrics_->is_open()) return;
  raise<IoError>({.op = "RunLog",
                  .problem = fmt::format("cannot write to the folder {}", folder_.string()),
                  .details = failed ? failed.message() : std::strerror(errno)},
                 where);
}

RunLog::~RunLog() = default;
RunLog::RunLog(RunLog&&) noexcept = default;

void RunLog::record(const StepMetrics& m, Location where) {
  const std::string val_loss = m.val_loss ? fmt::format(", \"val_loss\": {}", json_number(*m.val_loss)) : "";
  *metrics_ << fmt::format("{{\"step\": {}, \"train_loss\": {}, \"tokens_per_s\": {:.1f}{}}}\n", m.step,
                           json_number(m.train_loss), m.tokens_per_s, val_loss)
            << std::flush;
  if (!*metrics_) {
    raise<IoError>({.op = "RunLog", .problem = fmt::format("cannot write {}/metrics.jsonl", folder_.string())}, where);
  }
  train_.points.emplace_back(m.step, m.train_loss);
  if (m.val_loss) validation_.points.emplace_back(m.step, *m.val_loss);
  show(m);
}

void RunLog::show(const StepMetrics& m) {
  const int64_t done = m.step - first_, every = std::max<int64_t>(1, (last_ - first_) / 20);
  if (!terminal_ && done % every != 0 && m.step != last_ && !m.val_loss && done != 1) return;
  const double spent = steady_seconds() - start_;
  const double left = done > 0 ? spent / static_cast<double>(done) * static_cast<double>(last_ - m.step) : 0;
  const std::string validation = m.val_loss ? fmt::format("  validation {:.6f}", *m.val_loss) : "";
  const std::string line = fmt::format("step {:>5}/{}  loss {:.6f}{}  {:.0f} tokens/s  {} left", m.step, last_,
                                       m.train_loss, validation, m.tokens_per_s, duration(left));
  const bool stays = !terminal_ || m.val_loss;
  std::fputs(fmt::format("{}{}{}", terminal_ ? "\r\x1b[K" : "", line, stays ? "\n" : "").c_str(), stdout);
  std::fflush(stdout);
}

void RunLog::finish(const CurveOptions& options, Location where) {
  if (terminal_) std::fputs("\r\x1b[K", stdout);
  save_curve(folder_ / "curve.svg", {train_, validation_}, options, where);
}

}  // namespace weft::io
