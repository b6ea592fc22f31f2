#include <gmock/gmock.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <weft/autograd/mode.hpp>
#include <weft/backends/backend.hpp>
#include <weft/io/checkpoint.hpp>
#include <weft/nn/layers.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/loss.hpp>
#include <weft/ops/random.hpp>

#include <temporary_folder.hpp>

namespace weft {
namespace {

std::string words_of(const auto& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

struct Setting {
  explicit Setting(Device on = {}) : device(on) { net.to(device); }

  Device device;
  nn::Sequential net{nn::Linear(4, 8), nn::Tanh(), nn::Dropout(0.3), nn::Linear(8, 2)};
  optim::AdamW optimizer{net.parameters(), {.lr = 0.01}};

  void run(int from, int to) {
    for (int step = from; step < to; ++step) {
      Generator generator(static_cast<uint64_t>(step));
      const Tensor x = randn({16, 4}, {}, &generator).to(device), y = randn({16, 2}, {}, &generator).to(device);
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

void expect_bit_equal_continuation(Device device) {
  const TemporaryFolder folder;
  manual_seed(11);
  Setting straight(device);
  straight.run(0, 10);

  manual_seed(11);
  Setting first(device);
  first.run(0, 5);
  io::save_checkpoint(folder / "c", first.net, &first.optimizer, {{"step", "5"}});

  manual_seed(99);
  Setting second(device);
  EXPECT_EQ(io::checkpoint_metadata(folder / "c").at("step"), "5");
  EXPECT_EQ(io::load_checkpoint(folder / "c", second.net, &second.optimizer).at("step"), "5");
  EXPECT_EQ(second.optimizer.lr(), first.optimizer.lr());
  second.run(5, 10);
  EXPECT_EQ(second.weights(), straight.weights());
}

TEST(Checkpoint, ContinuationIsBitEqual) { expect_bit_equal_continuation({}); }

// Dropout on a device draws from that device's generator.
TEST(Checkpoint, ContinuationOnADeviceIsBitEqual) {
  const Device hpu(DeviceType::hpu);
  if (device_count(hpu.type) == 0) GTEST_SKIP() << why_no_device(hpu);
  expect_bit_equal_continuation(hpu);
}

TEST(Checkpoint, TheGeneratorsOfAllDevicesAreKept) {
  const TemporaryFolder folder;
  const Device devices[] = {Device(), Device(DeviceType::cuda), Device(DeviceType::hpu), Device(DeviceType::cuda, 3)};
  const nn::Linear net(2, 2);
  manual_seed(5);
  uint64_t drawn = 0;
  for (const Device device : devices) default_generator(device).reserve(drawn += 7);
  io::save_checkpoint(folder / "c", net);
  manual_seed(6);
  nn::Linear other(2, 2);
  io::load_checkpoint(folder / "c", other);
  drawn = 0;
  for (const Device device : devices) {
    EXPECT_EQ(default_generator(device).state(), (GeneratorState{5, 0, drawn += 7})) << device.name();
  }
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

TEST(Checkpoint, RejectsMismatchedStates) {
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

TEST(Checkpoint, ErrorsNameFileKeyAndRemedyAndChangeNothing) {
  const TemporaryFolder folder;
  Setting s;
  s.run(0, 2);
  const std::string path = folder / "c.st";
  const auto load = [&] { return words_of([&] { io::load_checkpoint(path, s.net, &s.optimizer, Location::none()); }); };
  const auto refused_with = [&](const auto&... parts) {
    const auto weights = s.weights();
    const auto generator = default_generator().state();
    const Tensor moment = s.optimizer.state_dict().at("0.exp_avg").clone();
    const std::string text = load();
    EXPECT_THAT(text, testing::AllOf(testing::HasSubstr(path), testing::HasSubstr(parts)...));
    EXPECT_LE(std::ranges::count(text, '\n'), 2) << text;
    EXPECT_EQ(s.weights(), weights);
    EXPECT_EQ(default_generator().state(), generator);
    EXPECT_EQ(s.optimizer.state_dict().at("0.exp_avg").to_vector<float>(), moment.to_vector<float>());
  };

  io::save_file(s.net.state_dict(), path);
  refused_with("is no checkpoint: it holds \"0.bias\", no \"model.…\"", "module.load_state_dict(io::load_file(path))");

  optim::SGD sgd(s.net.parameters(), {.momentum = 0.9});
  const auto without = [&](const std::string& key) {
    io::save_checkpoint(path, s.net, &s.optimizer);
    io::TensorMap tensors = io::load_file(path);
    tensors.erase(key);
    io::save_file(tensors, path);
  };
  without("optimizer.0.weight.exp_avg");
  refused_with("lacks \"optimizer.0.weight.exp_avg\", which AdamW needs");
  s.net.parameters()[0].set_grad(ones({8, 4}));
  sgd.step();
  io::save_checkpoint(path, s.net, &sgd);
  refused_with("\"optimizer.0.bias.momentum_buffer\", which AdamW does not keep", "use the optimizer");
  optim::SGD plain(s.net.parameters());
  plain.step();
  io::save_checkpoint(path, s.net, &plain);
  refused_with("is of another optimizer: expected AdamW, got SGD");
  io::save_checkpoint(path, s.net);
  refused_with("holds no optimizer state", "pass no optimizer");

  const std::vector<Tensor> all = s.net.parameters();
  optim::AdamW grouped({all.begin(), all.begin() + 2});
  grouped.add_group({all.begin() + 2, all.end()});
  io::save_checkpoint(path, s.net, &grouped);
  refused_with("has 2 groups of parameters, the optimizer 1");
  optim::AdamW fewer({all.begin(), all.begin() + 2});
  io::save_checkpoint(path, s.net, &fewer);
  refused_with(fmt::format("has 2 parameters in group 0, the optimizer {}", all.size()));

  manual_seed(3);
  Setting good;
  good.run(0, 3);
  io::save_checkpoint(path, good.net, &good.optimizer);
  const std::string bytes = read_bytes(path);
  write_bytes(path, bytes.substr(0, bytes.size() - 20));
  refused_with("the file is cut off: \"", "copy or save it again");
  write_bytes(path, bytes.substr(0, 100));
  refused_with("the file is cut off", "copy or save it again");

  io::TensorMap tensors;
  const auto with = [&](const std::string& key, const Tensor& value) {
    write_bytes(folder / "good", bytes);
    tensors = io::load_file(folder / "good");
    tensors[key] = value;
    io::save_file(tensors, path);
  };
  with("model.0.weight", ones({8, 5}));
  refused_with("shapes differ", "shape: 0.weight [8, 5] for [8, 4]");
  with("model.extra", ones(1));
  refused_with("unexpected: extra");
  EXPECT_THAT(load(), testing::Not(testing::HasSubstr("missing")));
  with("optimizer.0.weight.exp_avg", ones(3));
  refused_with("exp_avg has another shape");
  with("optimizer.elsewhere.weight.exp_avg", ones(3));
  refused_with("\"optimizer.elsewhere.weight.exp_avg\", which is of none");
  with("rng.cpu", ones(40, u8));
  refused_with("\"rng.cpu\" is no state of a generator");
  with("rng.abacus", ones(32, u8));
  refused_with("\"rng.abacus\" is no state of a generator");
  write_bytes(path, bytes);
  EXPECT_EQ(load(), "no error");
  EXPECT_EQ(s.weights(), good.weights());
}

}  // namespace
}  // namespace weft
