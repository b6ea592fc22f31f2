// Shared by all findings: the facts of a history, gathered once, and helpers for their texts. Not public.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "../suspects.hpp"

namespace weft::detail {

/// The last steps are judged together, so that a single outlier raises no alarm.
constexpr size_t judged_steps = 5;

/// One parameter or activation, step by step; steps in which it was not observed have no entry.
struct Course {
  std::vector<double> gradient_rms, gradient_zeros, value_rms, value_zeros;
  /// Per step of the run.
  std::vector<double> update_ratios;

  bool had_gradient() const { return !gradient_rms.empty(); }
};

struct Facts {
  const History& history;
  std::vector<Course> courses;
  /// Medians over all tensors that have the value: rms of gradients by `WatchedKind`, update ratios.
  double typical_gradient[2] = {}, typical_update = 0;
  /// The last traces, and the judged ones of them; empty if there is only one trace.
  std::vector<const Trace*> traces = {};

  const Watched& watched(size_t index) const { return history.watched[index]; }
  bool is_parameter(size_t index) const { return watched(index).kind == WatchedKind::parameter; }
  bool was_bad(size_t index) const { return watched(index).bad_value || watched(index).bad_gradient; }
};

Facts gather_facts(const History& history);

double median(std::vector<double> values);
/// Largest and smallest value of the judged steps; 0 if there is none. One healthy step is enough to exclude a tensor.
double largest_of_last(const std::vector<double>& values);
double smallest_of_last(const std::vector<double>& values);
/// Median of the steps before the judged ones, if there are as many; else 0.
double median_before(const std::vector<double>& values);

/// Two significant digits, without an exponent if that is readable.
std::string figure(double v);
/// "the activation h", or a parameter's name.
std::string name_in_text(const Watched& w);
/// "sigmoid at net.cpp:12"
std::string name_in_text(const OpSite& site);
/// "a, b and c"
std::string names_in_text(const Facts& facts, const std::vector<size_t>& indices);
/// ", in call 37 of 50", if the call that left the range is known.
std::string bad_call_in_text(const Facts& facts, size_t index);
/// "; and 3 more parameters" or nothing.
std::string more_in_text(size_t followers, const char* what);

/// A step that moved most parameters of a minimum size far from their values.
struct Leap {
  size_t at;     ///< index into History::steps
  size_t index;  ///< the parameter that moved farthest
  double ratio;  ///< its movement relative to its norm
  size_t parameters;
};
std::optional<Leap> first_leap(const Facts& facts);
/// "step 3 moved a.weight by 0.9 of its norm; a rate 900 times smaller moves it by 0.001"
std::string leap_in_text(const Facts& facts, const Leap& leap);

// ---- findings ----

std::vector<Suspect> find_non_finite(const Facts& facts);
/// Gradients that collapse or explode in backward.
std::vector<Suspect> find_flow(const Facts& facts);
/// Activation functions without slope.
std::vector<Suspect> find_activations(const Facts& facts);
/// Single parameters and activations.
std::vector<Suspect> find_each(const Facts& facts);
std::vector<Suspect> find_updates(const Facts& facts);
/// Steps after which the net no longer learned.
std::vector<Suspect> find_leaps(const Facts& facts);
std::vector<Suspect> find_broadcasts(const Facts& facts);
std::vector<Suspect> find_run(const Facts& facts);
/// Parameters that a line cuts off from the loss.
std::vector<Suspect> find_cuts(const Facts& facts);
std::vector<Suspect> find_data(const Facts& facts);
/// Mix-ups of training and evaluation mode.
std::vector<Suspect> find_modes(const Facts& facts);
/// Clipping, hooks, casts and shared modules.
std::vector<Suspect> find_program(const Facts& facts);
/// Growth from call to call of one module.
std::vector<Suspect> find_calls(const Facts& facts);

}  // namespace weft::detail
