// What a run's gradients, activations and parameters did, step by step: what a GradientRecorder keeps.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "../tensor/shared.hpp"
#include "memory_history.hpp"
#include "program_facts.hpp"
#include "statistics.hpp"

namespace weft {

/// One parameter or activation in one step.
struct Observation {
  std::optional<Statistics> value = {}, gradient = {};
  /// |change of the weights since the last recorded step| / |weights|, in Euclidean norms.
  std::optional<double> update_ratio = {};
  Shared<const Histogram> value_histogram = {}, gradient_histogram = {};
};

struct RecordedStep {
  int64_t step = 0;
  std::optional<double> loss;
  /// In the order of `History::watched`; shorter where more was watched later.
  std::vector<Observation> of;
};

enum class WatchedKind : uint8_t { parameter, activation };

struct Watched {
  std::string name;
  WatchedKind kind = WatchedKind::parameter;
  /// First recorded step where an element was NaN or infinite.
  std::optional<int64_t> bad_value = {}, bad_gradient = {};
  /// What follows 1 in its dtype, less 1.
  double epsilon = 0x1p-23;
  /// It required a gradient when it was given.
  bool trained = true;
  /// Of an activation: the op that makes it, and the line that calls that; empty where it is not known.
  std::string op = {}, place = {};
};

/// A line of the program that calls an op which backward passed.
struct OpSite {
  std::string op, place;
  /// Indices into `History::watched`: the parameters that the op reads, itself or through the op before it.
  std::vector<size_t> parameters = {};
};

/// One call of an op, as a gradient passed it on its way back.
struct Passage {
  static constexpr int32_t loss = -1;
  /// Index into `History::sites`.
  size_t site = 0;
  /// Index into the trace: the passage that sent most of the gradient that arrived.
  int32_t from = loss;
  /// Euclidean norms of the gradient of the op's result, and of the largest that it sent on.
  double arrived = 0, left = 0;
  /// Elements of the result.
  int64_t count = 0;
  /// Of an activation function, whose slope is known of each element: how many elements were looked at, and the shares
  /// whose slope is 0, and under 1/100.
  int64_t slopes = 0;
  double closed = 0, flat = 0;
  /// Extremes of what the activation function keeps for its backward.
  double low = 0, high = 0;
};

/// How a parameter's gradient came in a traced step.
struct Arrival {
  size_t which = 0;
  /// Index into the trace: the passage that sent most of it.
  int32_t from = Passage::loss;
  double norm = 0;
};

/// A backward pass, op by op.
struct Trace {
  int64_t step = 0;
  /// As backward ran: the loss first.
  std::vector<Passage> passages;
  std::vector<Arrival> arrivals;
};

/// An op whose operands were both expanded: one had fewer dimensions, and the other 1 where that one had more.
struct MutualBroadcast {
  std::string op, place, left = {}, right = {}, result = {};
  int64_t steps = 0;
};

/// What lay on one device, as a MemoryHistory saw it that lived beside the recorder.
struct MemoryRecord {
  std::string device = {};
  /// Bytes of a step at its highest, and at its end.
  struct Total {
    int64_t step = 0;
    size_t peak = 0, kept = 0;
  };
  /// Of a long run some are kept.
  std::vector<Total> totals = {};
  /// The course of one step, about the highest so far or the last that was traced, and what stood where it was highest.
  int64_t step = -1;
  std::vector<MemoryMoment> curve = {};
  std::vector<std::string> at_peak = {};
  /// Lines that keep more from step to step, each a sentence.
  std::vector<std::string> growth = {};
};

/// All that a recorder keeps.
struct History {
  /// Parameters in the order given, then activations in order of their first appearance.
  std::vector<Watched> watched;
  std::vector<RecordedStep> steps;
  /// Every so many steps one was recorded; of a long run some are kept.
  int64_t every = 1;
  std::vector<OpSite> sites = {};
  /// Of the first steps and of some after them.
  std::vector<Trace> traces = {};
  std::vector<MutualBroadcast> broadcasts = {};
  ProgramFacts program = {};
  std::vector<MemoryRecord> memory = {};
};

}  // namespace weft
