// Small training programs, one sick and one healthy of each kind, and a recorder's findings.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/weft.hpp>

namespace weft::twins {

inline std::string words(const std::vector<Suspect>& suspects, size_t most = 1000) {
  std::string out;
  for (size_t i = 0; i < std::min(most, suspects.size()); ++i) {
    out += std::string(name_of(suspects[i].trouble)) + ": " + suspects[i].text + "\n";
  }
  return out;
}

struct Training {
  int steps = 40;
  double lr = 1e-3;
  /// Between backward and the optimizer's step.
  std::function<void(int step)> before_step = {};
  /// After the recorder's step.
  std::function<void(int step)> after_step = {};
};

/// The first three suspects of a run, in words.
template <class Optimizer = optim::AdamW, class Net>
std::string first_three(const Net& net, Optimizer& optimizer, const std::function<Tensor(int)>& loss_of,
                        Training run = {}) {
  GradientRecorder recorder(net);
  for (int step = 0; step < run.steps; ++step) {
    optimizer.zero_grad();
    const Tensor loss = loss_of(step);
    loss.backward();
    if (run.before_step) run.before_step(step);
    optimizer.step();
    recorder.step(loss.item<double>());
    if (run.after_step) run.after_step(step);
  }
  return words(recorder.suspects(), 3);
}
template <class Net>
std::string first_three(const Net& net, const std::function<Tensor(int)>& loss_of, Training run = {}) {
  optim::AdamW optimizer(net.parameters(), {.lr = run.lr});
  return first_three(net, optimizer, loss_of, run);
}

/// Rows with the class that a fixed linear rule gives them.
struct Rows {
  explicit Rows(int64_t width, int64_t classes = 4) : rule(randn({width, classes})) {}
  std::pair<Tensor, Tensor> draw(int64_t count) const {
    const Tensor x = randn({count, rule.size(0)});
    return {x, argmax(x.matmul(rule), 1)};
  }
  Tensor rule;
};

}  // namespace weft::twins
