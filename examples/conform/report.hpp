// Results of the checks of one device: deviations of one line each, notes, and times.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <weft/tensor/device.hpp>

namespace weft::conform {

struct Deviation {
  /// "ops.add.float32.strided", "streams.timing".
  std::string check;
  std::string expected, came;
};

struct Finished {
  std::string check;
  /// Range of its deviations.
  size_t first_deviation, last_deviation;
  double milliseconds;
};

struct Time {
  std::string name, unit;
  double value;
};

/// Thrown by a check that is not possible on this device; the reason becomes a note.
struct NotHere {
  std::string reason;
};

class Report {
 public:
  /// Runs only checks with a name that contains `only`. `progress`: print the names of checks to stderr as they run.
  Report(Device device, std::string only, bool progress)
      : device_(device), only_(std::move(only)), progress_(progress) {}

  Device device() const { return device_; }
  bool wants(std::string_view check) const { return check.find(only_) != std::string_view::npos; }
  /// Runs a check. An exception counts as a deviation. Returns whether there was none.
  bool run(const std::string& check, const std::function<void()>& body);
  /// Adds a deviation to the running check; the first three of a check are kept.
  void deviation(const std::string& expected, const std::string& came);
  /// Adds a deviation unless `holds`.
  void expect(bool holds, const std::string& expected, const std::string& came = "it does not");
  /// Adds information for the author that is not a deviation.
  void note(const std::string& text);
  void time(const std::string& name, double value, const std::string& unit) { times_.push_back({name, unit, value}); }

  const std::vector<Deviation>& deviations() const { return deviations_; }
  const std::vector<std::string>& notes() const { return notes_; }
  const std::vector<Finished>& finished() const { return finished_; }
  const std::vector<Time>& times() const { return times_; }
  /// "streams.timing: expected …, came …; again by ./weft conform --device hpu:0 --only streams.timing".
  std::string line_of(const Deviation& deviation) const;
  /// The command that repeats the check.
  std::string command_of(const Deviation& deviation) const;

 private:
  void show_progress(const std::string& check) const;

  const Device device_;
  const std::string only_;
  const bool progress_;
  std::string running_;
  size_t running_first_ = 0;
  std::vector<Deviation> deviations_;
  std::vector<std::string> notes_;
  std::vector<Finished> finished_;
  std::vector<Time> times_;
};

/// The type name of an error: "IndexError", "std::bad_alloc", …
std::string kind_of(const std::exception& error);
/// The type name, and the first line of the text.
std::string text_of(const std::exception& error);

}  // namespace weft::conform
