// A small model with dropout, and batches in a random order, for tests of trainers.
#pragma once

#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <weft/train/trainer.hpp>
#include <weft/weft.hpp>

namespace weft::train {

struct Batch {
  Tensor x, y;
};

/// Batches of random points, shuffled per epoch by its number unless disabled, with a position.
class Points {
 public:
  Points(int64_t count, int64_t batch, bool shuffle = true) : batch_(batch), shuffle_(shuffle) {
    Generator generator(3);
    x_ = randn({count, 4}, {}, &generator);
    y_ = gt(sum(x_, Dims{1}), 0).to(i64);
  }
  struct End {};
  class Iterator {
   public:
    explicit Iterator(Points& points) : points_(points) {
      order_.resize(static_cast<size_t>(points.x_.size(0)));
      std::iota(order_.begin(), order_.end(), 0);
      std::mt19937_64 random(static_cast<uint64_t>(points.epoch_));
      if (points.shuffle_) std::shuffle(order_.begin(), order_.end(), random);
      read();
    }
    Batch& operator*() { return now_; }
    Iterator& operator++() {
      read();
      return *this;
    }
    bool operator!=(End) {
      if (!ended_) return true;
      ++points_.epoch_, points_.given_ = 0;
      return false;
    }

   private:
    void read() {
      const int64_t from = points_.given_ * points_.batch_, to = std::min(points_.x_.size(0), from + points_.batch_);
      ended_ = from >= to;
      if (ended_) return;
      ++points_.given_;
      const Tensor rows = tensor(std::vector<int64_t>(order_.begin() + from, order_.begin() + to));
      now_ = {points_.x_[rows], points_.y_[rows]};
    }
    Points& points_;
    std::vector<int64_t> order_;
    Batch now_;
    bool ended_ = false;
  };
  Iterator begin() { return Iterator(*this); }
  End end() { return {}; }
  int64_t size() const { return (x_.size(0) + batch_ - 1) / batch_; }
  std::string state() const { return std::to_string(epoch_ * 1000 + given_); }
  void restore(const std::string& text) {
    const int64_t number = std::stoll(text);
    epoch_ = number / 1000, given_ = number % 1000;
  }

 private:
  int64_t batch_, epoch_ = 0, given_ = 0;
  bool shuffle_;
  Tensor x_, y_;
};

struct Net : nn::Layer<Net> {
  nn::Linear up, down;
  nn::Dropout dropout{0.2};
  explicit Net(int64_t width = 8) : up(4, width), down(width, 2) { WEFT_REGISTER(up, down, dropout); }
  Tensor forward(const Tensor& x) const { return down(dropout(relu(up(x)))); }
};

inline std::vector<float> weights_of(const nn::Module& module) {
  std::vector<float> out;
  for (const Tensor& p : module.parameters()) {
    const std::vector<float> values = p.to_vector<float>();
    out.insert(out.end(), values.begin(), values.end());
  }
  return out;
}

/// A schedule of numbers by name, as optim's.
struct HalvingRates {
  optim::Optimizer& optimizer;
  int64_t step_count = 0;
  void step() {
    ++step_count;
    if (step_count % 7 == 0) optimizer.set_lr(optimizer.lr() / 2);
  }
  std::map<std::string, double> state() const { return {{"step", static_cast<double>(step_count)}}; }
  void restore(const std::map<std::string, double>& s) { step_count = static_cast<int64_t>(s.at("step")); }
};

}  // namespace weft::train
