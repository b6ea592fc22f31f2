// In-place writes: after each failure the tensor has its old value, history and version, or all three of the new one.
#include "faults/writes.hpp"

#include "faults/scenario.hpp"

namespace weft::faults {

namespace {

// One write, and the same without writing.
struct Step {
  std::function<void(const Tensor& y, const Tensor& x)> write;
  std::function<Tensor(const Tensor& y, const Tensor& x)> plain;
};

Tensor with_row(const Tensor& y, int64_t row, const Tensor& value) {
  std::vector<Tensor> rows = y.unbind(0);
  rows[static_cast<size_t>(row)] = value;
  return stack(rows);
}

class Writes : public Scenario {
 public:
  explicit Writes(std::vector<Step> steps) : steps_(std::move(steps)) {
    y_ = x_ * 1.5;
    view_ = y_.view({6, 4});
    column_ = y_.select(1, 0);
    y_.retain_grad();
    expected_.push_back(x_ * 1.5);
    for (const Step& step : steps_) expected_.push_back(step.plain(expected_.back(), x_));
  }

  void act() override {
    for (const Step& step : steps_) {
      step.write(y_, x_);
      ++done_;
    }
  }

  void check(bool failed) override {
    require(failed || done_ == steps_.size(), "not all was written");
    const bool old_value = close(y_, expected_[done_]);
    require(old_value || (failed && close(y_, expected_[done_ + 1])), "half written");
    const size_t at = old_value ? done_ : done_ + 1;
    if (at > done_) require(y_.version() > done_, "the version does not tell of the write");
    if (at == done_) require(y_.version() >= done_, "the version fell");
    require(close(view_.view({4, 6}), expected_[at]), "a view of it shows something else");
    const Tensor weights = numbers({4, 6}, 5);
    const auto gradient = [&](const Tensor& y) {
      return grad({(y * weights).sum()}, {x_}, {}, {.retain_graph = true})[0];
    };
    const Tensor right = gradient(expected_[at]);
    require(close(gradient(y_), right), "the gradient is that of another value");
    require(close(gradient(view_.view({4, 6})), right), "a view's gradient is that of another value");
    require(close(grad({column_.sum()}, {x_}, {}, {.retain_graph = true})[0],
                  grad({expected_[at].select(1, 0).sum()}, {x_}, {}, {.retain_graph = true})[0]),
            "a view's gradient is that of another value");
    y_.set_grad({});
    (y_ * weights).sum().backward({.retain_graph = true});
    require(close(y_.grad(), weights), "the kept gradient was lost");
    require(close(x_.grad(), right), "backward gives another gradient than grad");
    for (size_t i = at; i < steps_.size(); ++i) steps_[i].write(y_, x_);
    require(close(y_, expected_.back()), "what follows a failure is wrong");
    require(close(gradient(y_), gradient(expected_.back())), "the gradient of what follows a failure is wrong");
  }

 private:
  std::vector<Step> steps_;
  const Tensor x_ = leaf({4, 6}, 1);
  Tensor y_, view_, column_;
  std::vector<Tensor> expected_;
  size_t done_ = 0;
};

}  // namespace

std::unique_ptr<Scenario> writes_through_views() {
  return std::make_unique<Writes>(std::vector<Step>{
      {[](const Tensor& y, const Tensor&) { y.mul_(0.5); }, [](const Tensor& y, const Tensor&) { return y * 0.5; }},
      {[](const Tensor& y, const Tensor& x) { y.select(0, 1).mul_(x.select(0, 2)); },
       [](const Tensor& y, const Tensor& x) { return with_row(y, 1, y.select(0, 1) * x.select(0, 2)); }},
      {[](const Tensor& y, const Tensor&) { square_(y.view({24})); },
       [](const Tensor& y, const Tensor&) { return square(y); }},
      {[](const Tensor& y, const Tensor& x) { y.t().select(1, 0).copy_(x.select(0, 3)); },
       [](const Tensor& y, const Tensor& x) { return with_row(y, 0, x.select(0, 3)); }},
      {[](const Tensor& y, const Tensor&) { y.select(0, 2).fill_(0.25); },
       [](const Tensor& y, const Tensor&) { return with_row(y, 2, full({6}, 0.25, f64)); }},
      {[](const Tensor& y, const Tensor& x) { y.add_(x, 2.0); },
       [](const Tensor& y, const Tensor& x) { return y + x * 2.0; }},
      {[](const Tensor& y, const Tensor& x) { y.sub_(x.select(0, 0)); },
       [](const Tensor& y, const Tensor& x) { return y - x.select(0, 0); }},
      {[](const Tensor& y, const Tensor&) { sigmoid_(y); }, [](const Tensor& y, const Tensor&) { return sigmoid(y); }},
  });
}

std::unique_ptr<Scenario> indexing_writes() {
  const Tensor rows = tensor({2, 0}, i64), columns = tensor({1, 5}, i64);
  const Tensor mask = numbers({4, 6}, 3) > 0.7;
  const Tensor line = tensor({true, false, true, true}, boolean);
  const Tensor places = tensor({0, 3, 1, 2, 3, 0}, i64).view({1, 6});
  return std::make_unique<Writes>(std::vector<Step>{
      {[=](const Tensor& y, const Tensor& x) { y[{rows}] = x.slice(0, 0, 2); },
       [=](const Tensor& y, const Tensor& x) { return index_put(y, {rows}, x.slice(0, 0, 2)); }},
      {[=](const Tensor& y, const Tensor& x) {
         y[{rows, columns}] += x.select(0, 1).slice(0, 0, 2);
       },
       [=](const Tensor& y, const Tensor& x) {
         return index_put(y, {rows, columns}, x.select(0, 1).slice(0, 0, 2), true);
       }},
      {[=](const Tensor& y, const Tensor& x) { y[mask] = masked_select(x, mask); },
       [=](const Tensor& y, const Tensor& x) { return masked_scatter(y, mask, masked_select(x, mask)); }},
      {[=](const Tensor& y, const Tensor&) { y[mask] = 0.75; },
       [=](const Tensor& y, const Tensor&) { return masked_fill(y, mask, 0.75); }},
      {[=](const Tensor& y, const Tensor& x) { y[line] = x.select(0, 0); },
       [=](const Tensor& y, const Tensor& x) {
         return where(line.view({4, 1}), x.select(0, 0), y);
       }},
      {[=](const Tensor& y, const Tensor& x) {
         y[{Slice(1, 3), Slice(none, none, 2)}] = x.slice(0, 0, 2).slice(1, 0, 3);
       },
       [=](const Tensor& y, const Tensor& x) {
         return set_value(y, x.slice(0, 0, 2).slice(1, 0, 3), {1, 0}, {3, 6}, {1, 2}, {0, 1});
       }},
      {[=](const Tensor& y, const Tensor& x) { index_add_(y, 0, rows, x.slice(0, 2, 4)); },
       [=](const Tensor& y, const Tensor& x) { return index_add(y, 0, rows, x.slice(0, 2, 4)); }},
      {[=](const Tensor& y, const Tensor& x) { scatter_(y, 0, places, x.slice(0, 0, 1)); },
       [=](const Tensor& y, const Tensor& x) { return scatter(y, 0, places, x.slice(0, 0, 1)); }},
      {[=](const Tensor& y, const Tensor& x) { masked_fill_(y, mask, x.select(0, 0).select(0, 0)); },
       [=](const Tensor& y, const Tensor& x) { return masked_fill(y, mask, x.select(0, 0).select(0, 0)); }},
  });
}

}  // namespace weft::faults
