#include "report.hpp"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <new>

#include <weft/backends/plugin.hpp>
#include <weft/tensor/error.hpp>

namespace weft::conform {

namespace {

constexpr size_t most_of_one_check = 3;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::string kind_of(const std::exception& error) {
#define WEFT_KIND(type) \
  if (dynamic_cast<const type*>(&error) != nullptr) return #type;
  WEFT_KIND(OutOfMemoryError)
  WEFT_KIND(ShapeError)
  WEFT_KIND(DTypeError)
  WEFT_KIND(DeviceError)
  WEFT_KIND(IndexError)
  WEFT_KIND(ValueError)
  WEFT_KIND(ZeroDivisionError)
  WEFT_KIND(AutogradError)
  WEFT_KIND(NotImplementedError)
  WEFT_KIND(Error)
  WEFT_KIND(std::bad_alloc)
#undef WEFT_KIND
  return "std::exception";
}

std::string text_of(const std::exception& error) { return kind_of(error) + " " + first_line(error.what()); }

bool Report::run(const std::string& check, const std::function<void()>& body) {
  if (!wants(check)) return true;
  show_progress(check);
  running_ = check;
  running_first_ = deviations_.size();
  const auto start = std::chrono::steady_clock::now();
  try {
    body();
  } catch (const NotHere& why) {
    note(check + ": " + why.reason);
  } catch (const std::exception& error) {
    deviation("no error", text_of(error));
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  finished_.push_back({check, running_first_, deviations_.size(), took.count()});
  return deviations_.size() == running_first_;
}

void Report::deviation(const std::string& expected, const std::string& came) {
  if (deviations_.size() - running_first_ < most_of_one_check) deviations_.push_back({running_, expected, came});
}

void Report::expect(bool holds, const std::string& expected, const std::string& came) {
  if (!holds) deviation(expected, came);
}

void Report::note(const std::string& text) {
  if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(text);
}

std::string Report::command_of(const Deviation& deviation) const {
  const std::string plugin = plugin_path(device_.type);
  return "./weft conform " + (plugin.empty() ? "" : "--plugin " + plugin + " ") + "--device " + device_.name() +
         " --only " + deviation.check;
}

std::string Report::line_of(const Deviation& deviation) const {
  return deviation.check + ": expected " + deviation.expected + ", came " + deviation.came + "; again by " +
         command_of(deviation);
}

void Report::show_progress(const std::string& check) const {
  if (progress_) std::cerr << "\r\033[K" << device_.name() << "  " << finished_.size() << "  " << check << std::flush;
}

}  // namespace weft::conform
