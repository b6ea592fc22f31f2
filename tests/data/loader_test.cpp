#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include <weft/data/loader.hpp>
#include <weft/weft.hpp>

#include <message_of.hpp>

namespace weft {
namespace {

using data::DataLoader;
using data::LoaderOptions;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Numbers {
  int64_t count;
  int64_t size() const { return count; }
  int64_t get(int64_t i) const { return i; }
};

template <class L>
std::vector<std::vector<int64_t>> epoch_of(L& loader) {
  std::vector<std::vector<int64_t>> batches;
  for (const Tensor& batch : loader) batches.push_back(batch.template to_vector<int64_t>());
  return batches;
}

// Noise on a sample: it depends on which random numbers the sample gets.
auto noisy(int64_t count) {
  return data::map(Numbers{count}, [](int64_t i) { return rand({3}) + static_cast<double>(i); });
}
template <class L>
std::vector<double> values_of(L& loader, int epochs) {
  std::vector<double> all;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (const Tensor& batch : loader) {
      const auto values = batch.template to_vector<double>();
      all.insert(all.end(), values.begin(), values.end());
    }
  }
  return all;
}

class WithWorkers : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Loader, WithWorkers, ::testing::Values(0, 1, 2, 7));

TEST_P(WithWorkers, BatchesComeInOrder) {
  DataLoader loader(Numbers{10}, {.batch_size = 4, .workers = GetParam()});
  EXPECT_EQ(loader.size(), 3);
  for (int epoch = 0; epoch < 3; ++epoch) {
    EXPECT_THAT(epoch_of(loader), ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7), ElementsAre(8, 9)));
    EXPECT_EQ(loader.epoch(), epoch);
    EXPECT_EQ(loader.batch(), 3);
  }
}

TEST_P(WithWorkers, TensorsAndStructuredBindings) {
  const Tensor x = arange(20).view({10, 2}), y = arange(10);
  DataLoader loader(data::TensorDataset(x, y), {.batch_size = 4, .workers = GetParam(), .drop_last = true});
  EXPECT_EQ(loader.size(), 2);
  int64_t batches = 0;
  for (auto [rows, labels] : loader) {
    EXPECT_EQ(rows.shape(), Dims({4, 2}));
    EXPECT_EQ(labels.to_vector<int64_t>()[0], 4 * batches);
    ++batches;
  }
  EXPECT_EQ(batches, 2);
}

struct Point {
  Tensor x;
  int64_t label;
};
struct Points {
  int64_t size() const { return 3; }
  Point get(int64_t i) const { return {full({2}, i), i}; }
};

TEST_P(WithWorkers, AUsersStruct) {
  DataLoader loader(Points{}, {.batch_size = 3, .workers = GetParam()});
  for (auto [x, label] : loader) {
    EXPECT_THAT(x.to_vector<int64_t>(), ElementsAre(0, 0, 1, 1, 2, 2));
    EXPECT_THAT(label.to_vector<int64_t>(), ElementsAre(0, 1, 2));
  }
}

TEST_P(WithWorkers, SameBitsAsWithoutWorkers) {
  const LoaderOptions options{.batch_size = 8, .shuffle = true, .seed = 3};
  LoaderOptions with = options;
  with.workers = GetParam();
  DataLoader alone(noisy(50), options), loader(noisy(50), with);
  EXPECT_EQ(values_of(loader, 3), values_of(alone, 3));
}

TEST_P(WithWorkers, SamplesLeaveTheTrainingsRandomNumbersAlone) {
  manual_seed(1);
  const auto before = default_generator().state();
  DataLoader seeded(noisy(50), {.batch_size = 8, .shuffle = true, .seed = 3, .workers = GetParam()});
  values_of(seeded, 2);
  EXPECT_EQ(default_generator().state(), before);
  // Without a seed, each loop is one draw, however many its samples make.
  DataLoader loader(noisy(50), {.batch_size = 8, .shuffle = true, .workers = GetParam()});
  values_of(loader, 2);
  Generator same(1);
  same.reserve(2);
  EXPECT_EQ(default_generator().state(), same.state());
}

TEST_P(WithWorkers, ANewLoaderWithoutASeedHasAnotherOrderAndOtherAugmentations) {
  const LoaderOptions options{.batch_size = 8, .shuffle = true, .workers = GetParam()};
  const auto run = [&] {
    manual_seed(4);
    std::vector<std::vector<double>> epochs;
    for (int epoch = 0; epoch < 3; ++epoch) {
      DataLoader loader(noisy(50), options);
      epochs.push_back(values_of(loader, 1));
    }
    return epochs;
  };
  const auto epochs = run();
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  EXPECT_EQ(run(), epochs);
  Generator own(7);
  LoaderOptions of_own = options;
  of_own.generator = &own;
  const auto before = default_generator().state();
  DataLoader first(noisy(50), of_own), second(noisy(50), of_own);
  const auto a = values_of(first, 1), b = values_of(second, 1);
  EXPECT_NE(a, b);
  own.manual_seed(7);
  DataLoader again(noisy(50), of_own);
  EXPECT_EQ(values_of(again, 1), a);
  EXPECT_EQ(default_generator().state(), before);
}

TEST(Loader, RanksWithoutASeedShareOneOrderHoweverOftenTheyDrew) {
  std::multiset<int64_t> seen;
  for (int64_t rank = 0; rank < 2; ++rank) {
    manual_seed(1);
    for (int64_t i = 0; i < rank; ++i) (void)rand(3);
    DataLoader loader(Numbers{10}, {.batch_size = 5, .shuffle = true, .rank = rank, .world = 2});
    for (const auto& batch : epoch_of(loader)) seen.insert(batch.begin(), batch.end());
  }
  EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), 10U);
}

TEST(Loader, OnlySetEpochMovesADistributedSampler) {
  const auto loader_of = [](int64_t rank) {
    const data::Sampler own = data::distributed_sampler(data::random_sampler(10), {.rank = rank, .world = 2});
    return DataLoader(Numbers{10}, {.batch_size = 5, .sampler = own});
  };
  auto a = loader_of(0), b = loader_of(1);
  const auto first = epoch_of(a);
  EXPECT_EQ(epoch_of(a), first) << "an extra loop of one rank";
  const auto whole = [&] {
    std::set<int64_t> all;
    for (auto* loader : {&a, &b}) {
      for (const auto& batch : epoch_of(*loader)) all.insert(batch.begin(), batch.end());
    }
    return all.size();
  };
  EXPECT_EQ(whole(), 10U);
  a.set_epoch(1), b.set_epoch(1);
  EXPECT_EQ(whole(), 10U);
  EXPECT_EQ(a.epoch(), 1);
  EXPECT_NE(epoch_of(a), first);
}

TEST_P(WithWorkers, AnErrorNamesTheSampleAndTheWorker) {
  std::atomic<int> bad = 13;
  auto dataset = data::map(Numbers{40}, [&bad](int64_t i) {
    if (i == bad) raise<KeyError>({.op = "decode", .problem = "no such picture"}, Location::none());
    return i;
  });
  DataLoader loader(dataset, {.batch_size = 4, .workers = GetParam()});
  std::vector<std::vector<int64_t>> seen;
  const std::string text = message_of<KeyError>([&] {
    for (const Tensor& batch : loader) seen.push_back(batch.to_vector<int64_t>());
  });
  EXPECT_EQ(seen.size(), 3U);
  EXPECT_THAT(text, AllOf(HasSubstr("sample 13 of batch 3 of epoch 0"), HasSubstr("[decode] no such picture")));
  EXPECT_THAT(text, AllOf(HasSubstr("\n  at "), HasSubstr("tests/data/loader_test.cpp:")))
      << "the loop's place, for want of another";
  EXPECT_EQ(text.find(", worker ") != text.npos, GetParam() > 0) << text;
  bad = -1;
  EXPECT_EQ(epoch_of(loader).size(), 10U);
  EXPECT_EQ(loader.epoch(), 1);
}

TEST_P(WithWorkers, ErrorsThatAreNotWeftsBecomeOne) {
  auto dataset = data::map(Numbers{4}, [](int64_t) -> int64_t { throw std::runtime_error("boom"); });
  DataLoader loader(dataset, {.workers = GetParam()});
  EXPECT_THAT(message_of<Error>([&] { epoch_of(loader); }),
              AllOf(HasSubstr("sample 0 "), HasSubstr("boom\n  at "), HasSubstr("loader_test.cpp:")));
  auto odd = data::map(Numbers{4}, [](int64_t) -> int64_t { throw 42; });
  DataLoader strange(odd, {.workers = GetParam()});
  EXPECT_THROW(epoch_of(strange), int);
}

TEST_P(WithWorkers, UnequalShapesNameTheSamples) {
  auto dataset = data::map(Numbers{9}, [](int64_t i) { return zeros(i < 7 ? 2 : 3); });
  DataLoader loader(dataset, {.batch_size = 4, .workers = GetParam()});
  const std::string text = message_of<ShapeError>([&] {
    for (const Tensor& batch : loader) EXPECT_EQ(batch.size(0), 4);
  });
  EXPECT_THAT(text, AllOf(HasSubstr("sample 4 and sample 7 have different shapes"), HasSubstr("batch 1"),
                          HasSubstr(", at "), HasSubstr("loader_test.cpp:")));
  EXPECT_LE(std::ranges::count(text, '\n'), 2) << text;
}

TEST_P(WithWorkers, AnErrorKeepsItsLocation) {
  const unsigned line = __LINE__ + 2;
  auto dataset = data::map(Numbers{4}, [](int64_t i) {
    return i == 2 ? ones({2, 3}).matmul(ones({2, 3})) : ones({2, 2});
  });
  DataLoader loader(dataset, {.workers = GetParam()});
  const std::string text = message_of<ShapeError>([&] {
    for (const Tensor& batch : loader) (void)batch;
  });
  EXPECT_THAT(text, testing::EndsWith("loader_test.cpp:" + std::to_string(line)));
}

TEST_P(WithWorkers, AnUndefinedSampleIsNamed) {
  auto dataset = data::map(Numbers{4}, [](int64_t i) { return i == 2 ? Tensor() : ones({2}); });
  for (const bool pads : {false, true}) {
    const std::string text = message_of<ValueError>([&] {
      if (pads) {
        DataLoader loader(dataset, {.batch_size = 4, .workers = GetParam()}, data::pad());
        for (const Tensor& batch : loader) (void)batch;
      } else {
        DataLoader loader(dataset, {.batch_size = 4, .workers = GetParam()});
        for (const Tensor& batch : loader) (void)batch;
      }
    });
    EXPECT_THAT(text, AllOf(HasSubstr("sample 2 is an undefined tensor"), HasSubstr("loader_test.cpp:"))) << pads;
  }
}

// x[i], which reads when it becomes a Tensor.
struct Parts {
  Tensor x;
  int64_t size() const { return x.size(0); }
  auto get(int64_t i) const { return x[i]; }
};

TEST_P(WithWorkers, PartsOfATensorAreSamples) {
  const Tensor x = arange(12).reshape({6, 2});
  const auto all = [&](auto dataset) {
    DataLoader loader(std::move(dataset), {.batch_size = 4, .workers = GetParam()});
    std::vector<int64_t> out;
    for (data::BatchOf<decltype(loader)>& batch : loader) {
      for (const int64_t v : batch.template to_vector<int64_t>()) out.push_back(v);
    }
    return out;
  };
  const Parts parts{x};
  static_assert(std::same_as<data::SampleOf<Parts>, Tensor>);
  const std::vector<int64_t> values = x.to_vector<int64_t>();
  EXPECT_EQ(all(parts), values);
  EXPECT_EQ(all(data::map(parts, [](const Tensor& row) { return row; })), values);
  EXPECT_EQ(all(data::map(parts, [](const Tensor& row) { return row[1]; })), (std::vector<int64_t>{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(all(data::subset(parts, {2, 0})), (std::vector<int64_t>{4, 5, 0, 1}));
  EXPECT_EQ(all(data::concat(data::subset(parts, {5}), data::subset(parts, {0}))),
            (std::vector<int64_t>{10, 11, 0, 1}));
  EXPECT_EQ(all(data::filter(parts, [](const Tensor& row) { return row[0].item<int64_t>() > 7; })),
            (std::vector<int64_t>{8, 9, 10, 11}));
  EXPECT_EQ(all(data::map(data::stream([x](int64_t) {
                            return [x, i = int64_t{0}]() mutable -> std::optional<Tensor> {
                              if (i == 6) return {};
                              return x[i++];
                            };
                          }),
                          [](const Tensor& row) { return row[0]; })),
            (std::vector<int64_t>{0, 2, 4, 6, 8, 10}));
}

TEST_P(WithWorkers, ALoopMayBeLeft) {
  DataLoader loader(Numbers{100}, {.batch_size = 1, .shuffle = true, .seed = 1, .workers = GetParam()});
  std::vector<int64_t> firsts;
  for (int i = 0; i < 5; ++i) {
    for (const Tensor& batch : loader) {
      firsts.push_back(batch.item<int64_t>());
      if (firsts.size() % 3 == 0) break;
    }
  }
  DataLoader same(Numbers{100}, {.batch_size = 3, .shuffle = true, .seed = 1});
  for (int i = 0; i < 5; ++i) {
    const auto whole = epoch_of(same);
    EXPECT_EQ(std::vector(firsts.begin() + 3 * i, firsts.begin() + 3 * i + 3), whole[0]) << "epoch " << i;
  }
}

TEST_P(WithWorkers, TwoLoadersAtOnce) {
  DataLoader a(Numbers{30}, {.batch_size = 3, .workers = GetParam()});
  DataLoader b(Numbers{20}, {.batch_size = 2, .workers = GetParam()});
  auto from_b = b.begin();
  int64_t next = 0;
  for (const Tensor& batch : a) {
    EXPECT_EQ(batch.to_vector<int64_t>()[0], 3 * next);
    EXPECT_EQ((*from_b).to_vector<int64_t>()[0], 2 * next++);
    ++from_b;
  }
  EXPECT_TRUE(from_b == b.end());
}

TEST_P(WithWorkers, AReplacedLoopRaises) {
  DataLoader loader(Numbers{30}, {.batch_size = 3, .workers = GetParam()});
  auto old = loader.begin();
  auto current = loader.begin();
  EXPECT_THAT(message_of<ValueError>([&] { ++old; }), HasSubstr("another loop"));
  ++current;
  EXPECT_EQ(loader.batch(), 2);
}

TEST_P(WithWorkers, RanksShareTheSamples) {
  std::multiset<int64_t> seen;
  for (int64_t rank = 0; rank < 3; ++rank) {
    DataLoader loader(Numbers{11},
                      {.batch_size = 2, .shuffle = true, .seed = 4, .workers = GetParam(), .rank = rank, .world = 3});
    EXPECT_EQ(loader.size(), 2);
    for (const auto& batch : epoch_of(loader)) seen.insert(batch.begin(), batch.end());
  }
  EXPECT_EQ(seen.size(), 12U);
  EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), 11U);
}

TEST_P(WithWorkers, BatchSamplersAndPadding) {
  const auto lengths = [](int64_t i) { return i * 5 % 7 + 1; };
  auto dataset = data::map(Numbers{20}, [=](int64_t i) { return full({lengths(i)}, i); });
  std::vector<int64_t> all;
  for (int64_t i = 0; i < 20; ++i) all.push_back(lengths(i));
  DataLoader loader(
      dataset, {.seed = 1, .batch_sampler = data::length_batch_sampler(all, {.batch_size = 4}), .workers = GetParam()},
      data::pad_with_lengths({.value = -1}));
  EXPECT_EQ(loader.size(), 5);
  std::set<int64_t> seen;
  for (const data::Padded& batch : loader) {
    EXPECT_EQ(batch.values.size(1), max(batch.lengths).item<int64_t>());
    for (const int64_t i : batch.values.select(1, 0).to_vector<int64_t>()) seen.insert(i);
  }
  EXPECT_EQ(seen.size(), 20U);
}

TEST_P(WithWorkers, AFunctionOfOnesOwnCollates) {
  DataLoader loader(Numbers{5}, {.batch_size = 2, .workers = GetParam()},
                    [](const std::vector<int64_t>& samples) { return static_cast<int64_t>(samples.size()); });
  std::vector<int64_t> sizes;
  for (const int64_t n : loader) sizes.push_back(n);
  EXPECT_THAT(sizes, ElementsAre(2, 2, 1));
}

TEST_P(WithWorkers, AForkedProcessContinues) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer ends a forked process that starts threads";
#endif
  DataLoader loader(noisy(40), {.batch_size = 4, .shuffle = true, .seed = 1, .workers = GetParam()});
  DataLoader same(noisy(40), {.batch_size = 4, .shuffle = true, .seed = 1});
  const auto right = values_of(same, 2);
  std::vector<double> seen;
  pid_t child = -1;
  const auto look = [&](const Tensor& batch) {
    const auto values = batch.to_vector<double>();
    seen.insert(seen.end(), values.begin(), values.end());
  };
  for (const Tensor& batch : loader) {
    look(batch);
    if (seen.size() == 36) child = fork();
  }
  for (const Tensor& batch : loader) look(batch);
  if (child == 0) _exit(seen == right ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(seen, right);
}

TEST_P(WithWorkers, DestroyedWhileWorkersAreBusy) {
  std::atomic<int> got = 0;
  for (int i = 0; i < 20; ++i) {
    DataLoader loader(data::map(Numbers{1000},
                                [&got](int64_t n) {
                                  ++got;
                                  std::this_thread::sleep_for(std::chrono::microseconds(200));
                                  return n;
                                }),
                      {.batch_size = 4, .workers = GetParam()});
    auto at = loader.begin();
    if (i % 2 == 0) ++at;
  }
  EXPECT_LT(got, 20 * 400);
}

TEST_P(WithWorkers, BatchesOutliveTheLoader) {
  std::vector<Tensor> kept;
  {
    DataLoader loader(Numbers{6}, {.batch_size = 2, .workers = GetParam()});
    for (const Tensor& batch : loader) kept.push_back(batch);
  }
  EXPECT_THAT(kept[2].to_vector<int64_t>(), ElementsAre(4, 5));
}

TEST_P(WithWorkers, RecordsNoGradients) {
  const Tensor w = ones(1).requires_grad_();
  DataLoader loader(data::map(Numbers{4}, [w](int64_t i) { return w * static_cast<double>(i); }),
                    {.batch_size = 2, .workers = GetParam()});
  for (const Tensor& batch : loader) EXPECT_FALSE(batch.requires_grad());
}

TEST_P(WithWorkers, TheLoopsModesAreNotTheDatasets) {
  DataLoader loader(data::map(Numbers{4},
                              [](int64_t) {
                                return matmul(ones({2, 2}), ones({2, 2}));
                              }),
                    {.batch_size = 2, .workers = GetParam()});
  const AutocastGuard mixed(bf16);
  for (const Tensor& batch : loader) EXPECT_EQ(batch.dtype(), f32);
}

TEST(Loader, WorkersLeaveThePoolToTheTraining) {
  std::atomic<int> most = 0;
  DataLoader loader(data::map(Numbers{16},
                              [&most](int64_t i) {
                                most = std::max<int>(most, num_threads());
                                return exp(zeros({400, 400})).sum() + static_cast<double>(i);
                              }),
                    {.batch_size = 2, .workers = 2});
  const Tensor a = rand({256, 256});
  for (const Tensor& batch : loader) {
    EXPECT_TRUE(batch.defined());
    EXPECT_EQ(matmul(a, a).shape(), a.shape());
  }
  EXPECT_EQ(most, 1);
}

TEST(Loader, WorkersOverlapWithTheLoop) {
  const auto pause = std::chrono::milliseconds(20);
  DataLoader loader(data::map(Numbers{10},
                              [=](int64_t i) {
                                std::this_thread::sleep_for(pause);
                                return i;
                              }),
                    {.workers = 4});
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(epoch_of(loader).size(), 10U);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 9 * pause);
}

TEST(Loader, ABatchThatDoesNotComeInTime) {
  std::atomic<bool> wait = true;
  DataLoader loader(data::map(Numbers{4},
                              [&wait](int64_t i) {
                                while (i == 1 && wait) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                                return i;
                              }),
                    {.workers = 1, .timeout = 0.05});
  auto at = loader.begin();
  EXPECT_THAT(message_of<Error>([&] { ++at; }), HasSubstr("batch 1 did not come in 0.05 s"));
  wait = false;
}

TEST(Loader, PrefetchIsBounded) {
  std::atomic<int> got = 0;
  DataLoader loader(data::map(Numbers{1000},
                              [&got](int64_t i) {
                                ++got;
                                return i;
                              }),
                    {.batch_size = 10, .workers = 2, .prefetch = 3});
  auto at = loader.begin();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_LE(got, 10 * (1 + 2 * 3));
  ++at;
}

TEST(Loader, EverySampleHasRandomNumbersOfItsOwn) {
  DataLoader loader(data::map(Numbers{64}, [](int64_t) { return randint(0, INT64_MAX, Dims{}); }),
                    {.batch_size = 8, .shuffle = true, .seed = 1});
  std::set<int64_t> seen;
  for (int epoch = 0; epoch < 4; ++epoch) {
    for (const auto& batch : epoch_of(loader)) seen.insert(batch.begin(), batch.end());
  }
  EXPECT_EQ(seen.size(), 256U);
  // Drawn twice in one epoch, a sample gets others each time.
  const data::Sampler twice("twice", 2, [](uint64_t, int64_t) { return std::vector<int64_t>{5, 5}; });
  DataLoader repeated(noisy(64), {.batch_size = 2, .sampler = twice});
  const auto values = values_of(repeated, 1);
  EXPECT_NE(values[0], values[3]);
}

TEST_P(WithWorkers, PinnedBatchesAndDevices) {
  if (device_count(DeviceType::hpu) == 0) GTEST_SKIP() << "no HPU";
  const Tensor x = arange(40).view({10, 4}), y = arange(10);
  const LoaderOptions pinned{.batch_size = 4, .workers = GetParam(), .pin_memory = true};
  DataLoader host(data::TensorDataset(x, y), pinned);
  for (auto [rows, labels] : host) EXPECT_TRUE(rows.is_pinned() && labels.is_pinned());
  LoaderOptions moved = pinned;
  moved.device = "hpu";
  DataLoader loader(data::TensorDataset(x, y), moved);
  std::vector<int64_t> seen;
  for (auto [rows, labels] : loader) {
    EXPECT_EQ(rows.device().type, DeviceType::hpu);
    for (const int64_t i : rows.select(1, 0).to_vector<int64_t>()) seen.push_back(i);
    EXPECT_EQ(labels.to_vector<int64_t>().back() * 4, seen.back());
  }
  EXPECT_EQ(seen, arange(0, 40, 4).to_vector<int64_t>());
}

TEST_P(WithWorkers, TensorsInMapsAndOptionalValuesMoveToTheDevice) {
  using Named = std::map<std::string, std::optional<Tensor>>;
  const auto collate = [](const std::vector<std::array<Tensor, 1>>& samples) {
    std::vector<Tensor> each;
    for (const auto& [row] : samples) each.push_back(row);
    return std::pair(Named{{"rows", stack(each)}, {"none", std::nullopt}}, std::string("text"));
  };
  const data::TensorDataset rows(arange(12).view({6, 2}));
  const auto first_of = [&](const LoaderOptions& options) {
    DataLoader loader(rows, options, collate);
    Named named;
    for (auto& [batch, text] : loader) {
      named = batch;
      EXPECT_EQ(text, "text");
    }
    EXPECT_FALSE(named.at("none").has_value());
    return *named.at("rows");
  };
  const LoaderOptions host{.batch_size = 3, .workers = GetParam()};
  EXPECT_EQ(first_of(host).to_vector<int64_t>(), arange(6, 12).to_vector<int64_t>());
  if (device_count(DeviceType::hpu) == 0) GTEST_SKIP() << "no HPU";
  LoaderOptions moved = host;
  moved.device = "hpu";
  EXPECT_EQ(first_of(moved).device().type, DeviceType::hpu);
  const LoaderOptions pinned{.batch_size = 3, .workers = GetParam(), .pin_memory = true};
  EXPECT_TRUE(first_of(pinned).is_pinned());
}

TEST(GeneratorGuard, IsItsThreadsDefaultForTheCpu) {
  manual_seed(3);
  const auto before = default_generator().state();
  Generator own(3);
  Tensor drawn, elsewhere;
  {
    const GeneratorGuard guard(own);
    drawn = rand(4);
    std::thread([&] { elsewhere = rand(4); }).join();
    Generator inner(4);
    const GeneratorGuard nested(inner);
    EXPECT_EQ(&default_generator(), &inner);
  }
  EXPECT_EQ(drawn.to_vector<float>(), elsewhere.to_vector<float>());  // both from the start of seed 3
  EXPECT_EQ(own.state(), default_generator().state());
  EXPECT_NE(default_generator().state(), before);
}

/// Its size is somebody else's.
struct Changing {
  int64_t* count;
  int64_t size() const { return *count; }
  int64_t get(int64_t i) const { return i; }
};

TEST_P(WithWorkers, EpochsHaveTheSizeThatTheDatasetHasThen) {
  int64_t count = 0;
  DataLoader loader(Changing{&count}, {.batch_size = 2, .workers = GetParam()});
  for (const int64_t size : {0, 5, 9, 1, 0, 3}) {
    count = size;
    EXPECT_EQ(loader.size(), (size + 1) / 2);
    int64_t seen = 0;
    for (const Tensor& batch : loader) seen += batch.numel();
    EXPECT_EQ(seen, size);
  }
  const std::string state = loader.state();
  count = 4;
  EXPECT_THROW(loader.restore(state), ValueError);
}

TEST(Loader, BatchesAreNotPinnedWhereNoDeviceReadsThem) {
  if (device_count(DeviceType::hpu) + device_count(DeviceType::cuda) > 0) GTEST_SKIP() << "there is a device";
  std::string warned;
  WarningHandler before = set_warning_handler([&](const Warning& warning) { warned += warning.text; });
  DataLoader loader(Numbers{4}, {.batch_size = 2, .workers = 2, .pin_memory = true});
  set_warning_handler(std::move(before));
  EXPECT_THAT(warned, HasSubstr("no device to pin memory for"));
  for (const Tensor& batch : loader) EXPECT_FALSE(batch.is_pinned());
}

TEST(Loader, AnEmptyDatasetGivesNoBatchInOrder) {
  for (const int workers : {0, 2}) {
    for (LoaderOptions options : {LoaderOptions{.batch_size = 3}, LoaderOptions{.batch_size = 3, .drop_last = true},
                                  LoaderOptions{.sampler = data::sequential_sampler(0)},
                                  LoaderOptions{.sampler = data::subset_sampler({}, true)},
                                  LoaderOptions{.batch_sampler = data::length_batch_sampler({}, {.batch_size = 2})},
                                  LoaderOptions{.rank = 1, .world = 2}}) {
      options.workers = workers;
      DataLoader loader(Numbers{0}, options);
      EXPECT_EQ(loader.size(), 0);
      for (int epoch = 0; epoch < 2; ++epoch) EXPECT_TRUE(epoch_of(loader).empty());
      loader.restore(loader.state());
      EXPECT_TRUE(epoch_of(loader).empty());
    }
    const data::TensorDataset rows(zeros({0, 3}), zeros({0}, i64));
    DataLoader tensors(rows, {.batch_size = 4, .workers = workers});
    for (const auto& batch : tensors) ADD_FAILURE() << std::get<0>(batch).shape().text();
    EXPECT_THAT(message_of<ValueError>([&] { DataLoader(rows, {.shuffle = true}); }), HasSubstr("0 samples"));
  }
}

TEST(Loader, BadOptionsAreRefused) {
  const auto refuses = [](const LoaderOptions& options) {
    return message_of<ValueError>([&] { DataLoader(Numbers{5}, options); });
  };
  EXPECT_THAT(message_of<ValueError>([] { DataLoader(Numbers{0}, {.shuffle = true}); }),
              AllOf(HasSubstr("0 samples"), HasSubstr("loader_test.cpp")));
  EXPECT_THAT(refuses({.batch_size = 0}),
              AllOf(HasSubstr("batch_size: expected at least 1, got 0"), HasSubstr("loader_test.cpp")));
  EXPECT_THAT(refuses({.workers = -1}), HasSubstr("workers: expected a number in [0, 1024], got -1"));
  EXPECT_THAT(refuses({.prefetch = 0}), HasSubstr("prefetch: expected a number in [1, 4096], got 0"));
  EXPECT_THAT(refuses({.prefetch = 1 << 30}), HasSubstr("got 1073741824"));
  EXPECT_THAT(refuses({.rank = 2, .world = 2}), HasSubstr("no rank 2 of 2"));
  EXPECT_THAT(refuses({.timeout = -1}), HasSubstr("timeout"));
  EXPECT_THAT(refuses({.shuffle = true, .sampler = data::sequential_sampler(5)}), HasSubstr("shuffle and a sampler"));
  EXPECT_THAT(refuses({.batch_size = 2, .batch_sampler = data::length_batch_sampler({1}, {})}),
              HasSubstr("batch_sampler excludes"));
  DataLoader beyond(Numbers{5}, {.sampler = data::sequential_sampler(6)});
  EXPECT_THROW(beyond.begin(), IndexError);
  DataLoader dropped(Numbers{5}, {.batch_size = 6, .drop_last = true});
  EXPECT_TRUE(epoch_of(dropped).empty());
  EXPECT_EQ(dropped.size(), 0);
  EXPECT_THROW(dropped.set_epoch(-1), ValueError);
}

}  // namespace
}  // namespace weft
