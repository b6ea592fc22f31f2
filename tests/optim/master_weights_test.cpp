#include <gtest/gtest.h>

#include <cmath>

#include <weft/optim/master_weights.hpp>
#include <weft/weft.hpp>

#include <tensor_bytes.hpp>

namespace weft {
namespace {

const Tensor& start() {
  static const Tensor values = (manual_seed(1), rand(64) + 1);
  return values;
}

// Steps of 1e-4 down from weights between 1 and 2, of which bfloat16 sees none.
constexpr int steps = 500;
constexpr double lr = 1e-4;

TEST(MasterWeights, SmallStepsAddUpWhereBfloat16Stalls) {
  const auto train = [](const Tensor& p, const auto& step) {
    for (int i = 0; i < steps; ++i) {
      p.set_grad({});
      p.sum().backward();
      step();
    }
    return p.detach().to(f64);
  };
  const Tensor wide = start().clone().requires_grad_(), plain = start().to(bf16).requires_grad_(),
               kept = start().to(bf16).requires_grad_();
  optim::SGD wide_sgd({wide}, {.lr = lr}), plain_sgd({plain}, {.lr = lr});
  optim::MasterWeights masters({kept});
  optim::SGD sgd(masters.parameters(), {.lr = lr});
  const Tensor exact = train(wide, [&] { wide_sgd.step(); });
  const Tensor stalled = train(plain, [&] { plain_sgd.step(); });
  const Tensor followed = train(kept, [&] { masters.step(sgd); });
  EXPECT_EQ(bytes_of(stalled), bytes_of(start().to(bf16).to(f64)));
  // The start was rounded to 2^-7, and so is the end.
  EXPECT_LE(abs(followed - exact).max().item<double>(), std::exp2(-7));
  EXPECT_GE((start().to(f64) - followed).min().item<double>(), steps * lr - std::exp2(-7));
}

TEST(MasterWeights, WideParametersAreTheirOwnMasters) {
  const Tensor wide = ones(3).requires_grad_(), narrow = ones(3, bf16).requires_grad_();
  optim::MasterWeights masters({wide, narrow});
  EXPECT_EQ(masters.parameters()[0].impl(), wide.impl());
  EXPECT_EQ(masters.parameters()[1].dtype(), f32);
  EXPECT_EQ(masters.state_dict().size(), 1u);
  (wide.sum() + narrow.to(f32).sum()).backward();
  masters.take_gradients();
  EXPECT_FALSE(narrow.grad().defined());
  EXPECT_TRUE(wide.grad().defined());
  EXPECT_EQ(masters.parameters()[1].grad().dtype(), f32);
  masters.zero_grad();
  EXPECT_FALSE(wide.grad().defined() || masters.parameters()[1].grad().defined());
}

TEST(MasterWeights, StateComesBackBitForBit) {
  const Tensor a = start().to(bf16).requires_grad_(), b = zeros(64, bf16).requires_grad_();
  optim::MasterWeights from({a}), into({b});
  optim::AdamW optimizer(from.parameters(), {.lr = lr});
  a.sum().backward();
  from.step(optimizer);
  into.load_state_dict(from.state_dict());
  EXPECT_EQ(bytes_of(into.parameters()[0].detach()), bytes_of(from.parameters()[0].detach()));
  EXPECT_EQ(bytes_of(b.detach()), bytes_of(a.detach()));
  EXPECT_THROW(into.load_state_dict({}), ValueError);
  EXPECT_THROW(into.load_state_dict({{"0", ones(3)}}), ShapeError);
  EXPECT_THROW(into.load_state_dict({{"0", ones(64)}, {"1", ones(64)}}), ValueError);
}

TEST(MasterWeights, RejectsParametersThatAreNotTrained) {
  EXPECT_THROW(optim::MasterWeights({ones(2)}), ValueError);
  EXPECT_THROW(optim::MasterWeights({Tensor()}), ValueError);
  EXPECT_THROW(optim::MasterWeights({ones(2).requires_grad_() * 2}), ValueError);
}

}  // namespace
}  // namespace weft
