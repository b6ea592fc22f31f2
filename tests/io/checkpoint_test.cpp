#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/autograd/mode.hpp>
#include <weft/io/checkpoint.hpp>
#include <weft/nn/layers.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/loss.hpp>
#include <weft/ops/random.hpp>

#include <temporary_folder.hpp>

namespace weft {
namespace {

struct Setting {
  nn::Sequential net{nn::Linear(4, 8), nn::Tanh(), nn::Dropout(0.3), nn::Linear(8, 2)};
  optim::AdamW optimizer{net.parameters(), {.lr = 0.01}};

  void run(int from, int to) {
    for (int step = from; step < to; ++step) {
      Generator generator(static_cast<uint64_t>(step));
      const Tensor x = randn({16, 4}, {}, &generator), y = randn({16, 2}, {}, &generator);
      optimizer.set_lr(0.01 / (1 + step));
      optimizer.zero_grad();
      mse_loss(net(x), y).backward();
      optim::clip_grad_norm_(net.parameters(), 0.5);
      optimizer.step();
    }
  }
  std::vector<float> weights() const {
    std::vector<float> out;
    for (const Tensor& p : net.parameters()) {
      for (float v : p.to_vector<float>()) out.push_back(v);
    }
    return out;
  }
};

TEST(Checkpoint, ContinuationIsBitEqual) {
  const TemporaryFolder folder;
  manual_seed(11);
  Setting straight;
  straight.run(0, 10);

  manual_seed(11);
  Setting first;
  first.run(0, 5);
  io::save_checkpoint(folder / "c", first.net, &first.optimizer, {{"step", "5"}});

  manual_seed(99);
  Setting second;
  EXPECT_EQ(io::checkpoint_metadata(folder / "c").at("step"), "5");
  EXPECT_EQ(io::load_checkpoint(folder / "c", second.net, &second.optimizer).at("step"), "5");
  EXPECT_EQ(second.optimizer.lr(), first.optimizer.lr());
  second.run(5, 10);
  EXPECT_EQ(second.weights(), straight.weights());
}

TEST(Checkpoint, StateIsKeptByParameterName) {
  const TemporaryFolder folder;
  Setting s;
  s.run(0, 1);
  io::save_checkpoint(folder / "c", s.net, &s.optimizer);
  EXPECT_THAT(io::SafeFile::open(folder / "c").keys(),
              testing::IsSupersetOf({"model.0.weight", "model.3.bias", "optimizer.0.weight.exp_avg",
                                     "optimizer.3.bias.step", "optimizer.group.0.lr"}));
}

TEST(Checkpoint, WhatDoesNotFitIsRefused) {
  const TemporaryFolder folder;
  Setting s;
  nn::Linear other(3, 3);
  optim::AdamW foreign(other.parameters());
  EXPECT_THROW(io::save_checkpoint(folder / "c", s.net, &foreign), ValueError);
  io::save_checkpoint(folder / "c", s.net);
  EXPECT_THROW(io::load_checkpoint(folder / "c", s.net, &s.optimizer), ValueError);
  EXPECT_THROW(io::load_checkpoint(folder / "c", other), ValueError);
  EXPECT_THROW(io::load_checkpoint(folder / "d", s.net), IoError);
  write_bytes(folder / "e", "no checkpoint");
  EXPECT_THROW(io::load_checkpoint(folder / "e", s.net), FormatError);
  io::load_checkpoint(folder / "c", s.net);
}

}  // namespace
}  // namespace weft
