// The data of a GradientRecorder: gradients, activations and parameters of a run, step by step.
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
  /// Norm of the weights' change since the last recorded step, divided by the norm of the weights (Euclidean).
  std::optional<double> update_ratio = {};
  Shared<const Histogram> value_histogram = {}, gradient_histogram = {};
};

struct HistoryStep {
  int64_t step = 0;
  std::optional<double> loss;
  /// In the order of `History::watched`; shorter if more tensors were watched later.
  std::vector<Observation> observations;
};

enum class WatchedKind : uint8_t { parameter, activation };

struct Watched {
  std::string name;
  WatchedKind kind = WatchedKind::parameter;
  /// First recorded step with a NaN or infinite element.
  std::optional<int64_t> bad_value = {}, bad_gradient = {};
  /// Machine epsilon of the dtype.
  double epsilon = 0x1p-23;
  /// Whether it required a gradient when the recorder was constructed.
  bool trained = true;
  /// For an activation: the op that produced it, and the calling line; empty if unknown.
  std::string op = {}, place = {};
};

/// A line of the program that called an op in the backward graph.
struct OpSite {
  std::string op, place;
  /// Indices into `History::watched`: the parameters that the op reads, directly or through the previous op.
  std::vector<size_t> parameters = {};
};

/// One op call that a gradient passed in backward.
struct Passage {
  static constexpr int32_t loss = -1;
  /// Index into `History::sites`.
  size_t site = 0;
  /// Index into the trace: the passage that contributed most to the incoming gradient.
  int32_t from = loss;
  /// Euclidean norms of the gradient of the op's result, and of the largest gradient that it sent on.
  double arrived = 0, left = 0;
  /// Elements of the result.
  int64_t count = 0;
  /// For an activation function with known slopes: the number of sampled elements, and the fractions of them with a
  /// slope of 0, and below 1/100.
  int64_t slopes = 0;
  double closed = 0, flat = 0;
  /// Minimum and maximum of the tensor that the activation function saved for backward.
  double low = 0, high = 0;
};

/// The arrival of a parameter's gradient in a traced step.
struct Arrival {
  size_t index = 0;
  /// Index into the trace: the passage that contributed most.
  int32_t from = Passage::loss;
  double norm = 0;
};

/// A backward pass, op by op.
struct Trace {
  int64_t step = 0;
  /// In execution order, the loss first.
  std::vector<Passage> passages;
  std::vector<Arrival> arrivals;
};

/// An op with two expanded operands: one had fewer dimensions, and the other had size 1 in a dimension where the first
/// was larger.
struct MutualBroadcast {
  std::string op, place, left = {}, right = {}, result = {};
  int64_t steps = 0;
};

/// Memory of one device, from a MemoryHistory that existed together with the recorder.
struct DeviceMemory {
  std::string device = {};
  /// Peak bytes of a step, and bytes at its end.
  struct Total {
    int64_t step = 0;
    size_t peak = 0, kept = 0;
  };
  /// Thinned in a long run.
  std::vector<Total> totals = {};
  /// The course of one step, either with nearly the highest peak so far or the last traced one, and the largest tensors
  /// at its peak.
  int64_t step = -1;
  std::vector<MemoryMoment> curve = {};
  std::vector<std::string> at_peak = {};
  /// Sentences about lines that keep more memory from step to step.
  std::vector<std::string> growth = {};
};

/// All data of a recorder.
struct History {
  /// Parameters in the given order, then activations in order of their first appearance.
  std::vector<Watched> watched;
  std::vector<HistoryStep> steps;
  /// Interval between recorded steps; the list is thinned in a long run.
  int64_t every = 1;
  std::vector<OpSite> sites = {};
  /// Of the first steps and some later ones.
  std::vector<Trace> traces = {};
  std::vector<MutualBroadcast> broadcasts = {};
  ProgramFacts program = {};
  std::vector<DeviceMemory> memory = {};
};

}  // namespace weft
