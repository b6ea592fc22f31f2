#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <weft/autograd/mode.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/foreach.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/optim/optim.hpp>

#include "recorded.hpp"

namespace weft {
namespace {

void write(const Tensor& p, double value) {
  NoGradGuard unrecorded;
  p.fill_(value);
}

TEST(Averager, EqualAveragesCountAlike) {
  const Tensor p = zeros({2, 2}, f64).requires_grad_();
  optim::Averager average({p});
  double total = 0;
  for (int i = 1; i <= 5; ++i) {
    write(p, i * i);
    average.update();
    total += i * i;
    EXPECT_NEAR(average.averages()[0].to_vector<double>()[3], total / i, 1e-13);
  }
  EXPECT_EQ(average.count(), 5);
}

TEST(Averager, ExponentialOnesForget) {
  const Tensor p = zeros({3}, f64).requires_grad_(), q = ones({}, f64).requires_grad_(),
               none = zeros({0}).requires_grad_();
  optim::Averager average({p, q, none}, {.decay = 0.9});
  double wanted = 0;
  for (int i = 1; i <= 6; ++i) {
    write(p, std::sin(i));
    average.update();
    wanted = i == 1 ? std::sin(i) : 0.9 * wanted + 0.1 * std::sin(i);
    EXPECT_NEAR(average.averages()[0].to_vector<double>()[1], wanted, 1e-14);
    EXPECT_EQ(average.averages()[1].item<double>(), 1);
  }
}

TEST(Averager, OfSmallFloatsIsWide) {
  const Tensor p = ones({2}, bf16).requires_grad_();
  optim::Averager average({p}, {.decay = 0.999});
  average.update();
  write(p, 2);
  average.update();
  EXPECT_EQ(average.averages()[0].dtype(), f32);
  EXPECT_NEAR(average.averages()[0].to_vector<double>()[0], 1.001, 1e-6);
}

TEST(Averager, SwapsInAndBackBitForBit) {
  const Tensor p = tensor({0.1, -0.0, 1e-40}).requires_grad_(), half = ones({2}, f16).requires_grad_();
  optim::Averager average({p, half});
  EXPECT_THROW((void)average.swap(), ValueError);
  average.update();
  const std::vector<float> first = p.to_vector<float>();
  write(p, NAN), write(half, 3);
  {
    const auto swapped = average.swap();
    EXPECT_EQ(p.to_vector<float>(), first);
    EXPECT_EQ(half.to_vector<float>()[0], 1);
    EXPECT_TRUE(p.is_leaf() && p.requires_grad());
  }
  EXPECT_TRUE(std::isnan(p.to_vector<float>()[1]));
  EXPECT_EQ(half.to_vector<float>()[0], 3);
  average.copy_to_parameters();
  EXPECT_EQ(p.to_vector<float>(), first);
}

TEST(Averager, IsSavedAndLoaded) {
  const Tensor p = ones({3}).requires_grad_();
  optim::Averager one({p}, {.decay = 0.5}), other({p}, {.decay = 0.5});
  for (int i = 0; i < 3; ++i) write(p, i), one.update();
  other.load_state_dict(one.state_dict());
  write(p, 7);
  one.update(), other.update();
  EXPECT_EQ(one.averages()[0].to_vector<float>(), other.averages()[0].to_vector<float>());
  EXPECT_EQ(other.count(), 4);
  auto wrong = one.state_dict();
  wrong["0.average"] = ones({2});
  EXPECT_THROW(other.load_state_dict(wrong), ShapeError);
  wrong = one.state_dict();
  wrong["1.average"] = ones({2});
  EXPECT_THROW(other.load_state_dict(wrong), ValueError);
  EXPECT_THROW(other.load_state_dict({}), ValueError);
  EXPECT_EQ(other.count(), 4);
}

TEST(Averager, WrongArgumentsAreRefused) {
  EXPECT_THROW(optim::Averager({}), ValueError);
  EXPECT_THROW(optim::Averager({Tensor()}), Error);
  EXPECT_THROW(optim::Averager({ones(2, i64)}), ValueError);
  EXPECT_THROW(optim::Averager({ones(2)}, {.decay = 1.5}), ValueError);
  EXPECT_THROW(optim::Averager({ones(2)}, {.decay = NAN}), ValueError);
  const auto function = [](const Tensor& average, const Tensor&, int64_t) { return average; };
  EXPECT_THROW(optim::Averager({ones(2)}, {.decay = 0.5, .function = function}), ValueError);
}

TEST(Averager, OfAFunctionOfOnesOwn) {
  const Tensor p = ones({2}).requires_grad_(), half = ones({3}, bf16).requires_grad_();
  std::vector<int64_t> counts;
  optim::Averager largest({p, half}, {.function = [&](const Tensor& average, const Tensor& parameter, int64_t count) {
                            counts.push_back(count);
                            return maximum(average, parameter);
                          }});
  optim::Averager all(
      {p, half}, {.functions = [](std::span<const Tensor> averages, std::span<const Tensor> parameters, int64_t count) {
        for (size_t i = 0; i < averages.size(); ++i) {
          averages[i].add_(parameters[i] * static_cast<double>(count));
        }
      }});
  for (const double value : {3., 5., 2.}) {
    write(p, value), write(half, -value);
    largest.update(), all.update();
  }
  EXPECT_EQ(counts, (std::vector<int64_t>{1, 1, 2, 2})) << "the first update copies";
  EXPECT_EQ(largest.averages()[0].to_vector<float>(), (std::vector<float>{5, 5}));
  EXPECT_EQ(largest.averages()[1].to_vector<float>(), (std::vector<float>{-2, -2, -2}));
  EXPECT_EQ(largest.averages()[1].dtype(), f32);
  EXPECT_EQ(all.averages()[0].to_vector<float>(), (std::vector<float>{12, 12}));
}

// The values that make_cases.py writes into the model before each update.
void write_update(const std::vector<Tensor>& model, int update) {
  NoGradGuard unrecorded;
  for (size_t number = 0; number < model.size(); ++number) {
    std::vector<double> values;
    for (int i = 0; i < model[number].numel(); ++i) {
      values.push_back(number == 2 ? update * update + 3
                                   : std::cos(1.0 + i + 2.0 * static_cast<double>(number) + 0.7 * update));
    }
    model[number].copy_(tensor(std::span<const double>(values), model[number].shape(), f64));
  }
}

optim::AverageOptions options_of(const test::json& c) {
  optim::AverageOptions options;
  if (!c["decay"].is_null()) options.decay = c["decay"].get<double>();
  if (c["own"] == "each") {
    options.function = [](const Tensor& average, const Tensor& now, int64_t count) {
      return 0.75 * average + 0.5 * now * count;
    };
  }
  if (c["own"] == "all") {
    options.functions = [](std::span<const Tensor> averages, std::span<const Tensor> now, int64_t count) {
      for (const Tensor& a : averages) EXPECT_EQ(a.dtype(), averages[0].dtype());
      foreach_add_(averages, now, count);
    };
  }
  return options;
}

TEST(Averager, OfBuffersIsPyTorchs) {
  for (const test::json& c : test::recorded("averages.jsonl")) {
    const std::vector<Tensor> model = {zeros({2, 2}).requires_grad_(), zeros({3}), zeros({}, i64), zeros({2}, f64)};
    optim::AverageOptions options = options_of(c);
    if (c["use_buffers"]) options.buffers = {model.begin() + 1, model.end()};
    optim::Averager average({model[0]}, options);
    for (int update = 0; update < 6; ++update) {
      write_update(model, update);
      average.update();
      for (size_t i = 0; i < average.averages().size(); ++i) {
        const std::vector<double> wanted = c["averages"][static_cast<size_t>(update)][i];
        const std::vector<double> found = average.averages()[i].to_vector<double>();
        const double tolerance = model[i].dtype() == f64 ? 1e-13 : (i == 2 ? 0 : 2e-6);
        for (size_t k = 0; k < wanted.size(); ++k) {
          EXPECT_NEAR(found[k], wanted[k], tolerance * std::max(1.0, std::abs(wanted[k])))
              << c["decay"] << c["own"] << " tensor " << i << " update " << update;
        }
      }
    }
    EXPECT_EQ(average.averages().size(), c["use_buffers"] ? 4u : 1u);
  }
}

TEST(Averager, OfBuffersIsSwappedSavedAndLoaded) {
  const Tensor p = zeros({2}).requires_grad_(), mean = zeros({2}, f16), count = zeros({}, i64),
               flag = zeros({1}, boolean);
  const auto made = [&] { return optim::Averager({p}, {.decay = 0.5, .buffers = {mean, count, flag}}); };
  optim::Averager one = made(), other = made();
  for (const int value : {4, 8}) {
    write(p, value), write(mean, value), write(count, value), write(flag, value == 8 ? 1 : 0);
    one.update();
  }
  EXPECT_EQ(one.averages()[1].dtype(), f32);
  {
    const auto swapped = one.swap();
    EXPECT_EQ(mean.to_vector<double>(), (std::vector<double>{6, 6}));
    EXPECT_EQ(count.item<int64_t>(), 6);
    EXPECT_TRUE(flag.item<bool>());
  }
  EXPECT_EQ(count.item<int64_t>(), 8);
  other.load_state_dict(one.state_dict());
  one.update(), other.update();
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(one.averages()[i].to_vector<double>(), other.averages()[i].to_vector<double>());
  }
  optim::Averager without({p}, {.decay = 0.5});
  EXPECT_THROW(without.load_state_dict(one.state_dict()), ValueError);
  EXPECT_THROW(one.load_state_dict(without.state_dict()), ValueError);
  EXPECT_THROW(optim::Averager({p}, {.buffers = {Tensor()}}), Error);
  EXPECT_THROW(optim::Averager({p}, {.buffers = {zeros({1}).to(DType::f8_e4m3fn)}}), ValueError);
}

TEST(Averager, OfAFunctionThatFailsIsAsBefore) {
  const Tensor p = ones({2}).requires_grad_(), q = ones({2}).requires_grad_();
  int what = 0;
  optim::Averager average({p, q},
                          {.function = [&](const Tensor& mean, const Tensor& parameter, int64_t count) -> Tensor {
                            mean.zero_();  // what it is given is not the average itself
                            if (what == 1 && count == 1) throw std::runtime_error("not now");
                            if (what == 2) return {};
                            return what == 3 ? ones({3}) : parameter;
                          }});
  average.update();
  write(p, 7);
  for (const auto& expect : std::vector<std::function<void()>>{
           [&] { EXPECT_THROW(average.update(), std::runtime_error); }, [&] { EXPECT_THROW(average.update(), Error); },
           [&] { EXPECT_THROW(average.update(), ShapeError); }}) {
    ++what;
    expect();
    EXPECT_EQ(average.averages()[0].to_vector<float>(), (std::vector<float>{1, 1}));
    EXPECT_EQ(average.count(), 1);
  }
  what = 0;
  average.update();
  write(p, 9);
  EXPECT_EQ(average.averages()[0].to_vector<float>(), (std::vector<float>{7, 7})) << "it is no view of the parameter";
}

}  // namespace
}  // namespace weft
