#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <unistd.h>

#include <weft/data/loader.hpp>
#include <weft/weft.hpp>

#include <message_of.hpp>
#include <temporary_folder.hpp>

namespace weft {
namespace {

using data::DataLoader;
using data::LoaderOptions;
using ::testing::HasSubstr;

struct Numbers {
  int64_t count;
  int64_t size() const { return count; }
  int64_t get(int64_t i) const { return i; }
};

auto noisy_loader(int workers, int64_t batch_size = 7) {
  return DataLoader(data::map(Numbers{50}, [](int64_t i) { return rand({2}) + static_cast<double>(i); }),
                    {.batch_size = batch_size, .shuffle = true, .seed = 9, .workers = workers});
}
void append(std::vector<float>& all, const Tensor& batch) {
  const auto values = batch.to_vector<float>();
  all.insert(all.end(), values.begin(), values.end());
}
template <class L>
std::vector<float> epochs_of(L& loader, int64_t until) {
  std::vector<float> all;
  do {
    for (const Tensor& batch : loader) append(all, batch);
  } while (loader.epoch() < until);
  return all;
}

TEST(Position, ResumesAfterEveryBatchWithAnyWorkers) {
  auto straight = noisy_loader(0);
  const std::vector<float> right = epochs_of(straight, 2);
  for (int stop = 0; stop <= 20; ++stop) {
    auto first = noisy_loader(stop % 3);
    std::vector<float> seen;
    std::string state = first.state();
    for (int count = 0; count < stop;) {
      for (const Tensor& batch : first) {
        append(seen, batch);
        state = first.state();
        if (++count == stop) break;
      }
    }
    auto second = noisy_loader((stop + 1) % 3);
    second.restore(state);
    const auto rest = epochs_of(second, 2);
    seen.insert(seen.end(), rest.begin(), rest.end());
    EXPECT_EQ(seen, right) << "after " << stop << " batches, at " << state;
  }
}

TEST(Position, SavedBetweenTwoEpochsItIsTheNextEpoch) {
  for (const int workers : {0, 2}) {
    auto loader = noisy_loader(workers), other = noisy_loader(1);
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (const Tensor& batch : loader) (void)batch;
    }
    other.restore(loader.state());
    EXPECT_EQ(other.state(), loader.state());
    EXPECT_EQ(epochs_of(other, 3), epochs_of(loader, 3));
    EXPECT_EQ(other.epoch(), 3);
  }
}

TEST(Position, SetEpochOfTheRestoredEpochResumesInIt) {
  auto loader = noisy_loader(0), other = noisy_loader(1);
  loader.set_epoch(2);
  std::vector<float> right;
  auto at = loader.begin();
  ++at, ++at;
  other.restore(loader.state());
  for (++at; !(at == loader.end()); ++at) append(right, *at);
  other.set_epoch(2);
  EXPECT_EQ(epochs_of(other, 2), right);
  other.set_epoch(2);
  EXPECT_EQ(epochs_of(other, 2).size(), 100U) << "a loop has begun since";
}

TEST(Position, InTheLastStepOfAnEpochNothingOfItIsLeft) {
  auto loader = noisy_loader(2), other = noisy_loader(1);
  std::string state;
  for (const Tensor& batch : loader) {
    (void)batch;
    state = loader.state();
  }
  other.restore(state);
  EXPECT_EQ(other.epoch(), 0);
  for (const Tensor& batch : other) ADD_FAILURE() << batch.text();
  EXPECT_EQ(other.epoch(), 0);
  const auto a = epochs_of(loader, 0), b = epochs_of(other, 0);
  EXPECT_EQ(a, b);
  EXPECT_EQ(other.epoch(), 1);
}

TEST(Position, SetEpoch) {
  auto loader = noisy_loader(2), other = noisy_loader(0);
  for (int epoch = 0; epoch < 3; ++epoch) (void)epochs_of(loader, 0);
  other.set_epoch(3);
  EXPECT_EQ(epochs_of(other, 3), epochs_of(loader, 3));
}

TEST(Position, OfAnotherLoaderIsRefusedByItsField) {
  auto loader = noisy_loader(0);
  const std::string state = loader.state();
  const auto refused = [&](int64_t samples, const LoaderOptions& options) {
    DataLoader other(Numbers{samples}, options);
    return message_of<ValueError>([&] { other.restore(state); });
  };
  const LoaderOptions same{.batch_size = 7, .shuffle = true, .seed = 9};
  EXPECT_EQ(refused(50, same), "nothing was thrown");
  EXPECT_THAT(refused(51, same), HasSubstr("samples was 50 when the position was saved, and is 51"));
  EXPECT_THAT(refused(50, {.batch_size = 8, .shuffle = true, .seed = 9}), HasSubstr("batch_size was 7"));
  EXPECT_THAT(refused(50, {.batch_size = 7, .shuffle = true, .seed = 8}), HasSubstr("seed was 9"));
  EXPECT_THAT(refused(50, {.batch_size = 7, .seed = 9}), HasSubstr("sampler was random"));
  EXPECT_THAT(refused(50, {.batch_size = 7, .shuffle = true, .seed = 9, .drop_last = true}), HasSubstr("drop_last"));
  EXPECT_THAT(refused(50, {.batch_size = 7, .shuffle = true, .seed = 9, .world = 2}), HasSubstr("world was 1"));
}

TEST(Position, ALoaderWithoutASeedTakesTheSavedOne) {
  manual_seed(1);
  DataLoader a(Numbers{50}, {.batch_size = 50, .shuffle = true});
  manual_seed(2);
  DataLoader b(Numbers{50}, {.batch_size = 50, .shuffle = true});
  b.restore(a.state());
  EXPECT_EQ((*a.begin()).to_vector<int64_t>(), (*b.begin()).to_vector<int64_t>());
}

TEST(Position, TextsThatAreNoneChangeNothing) {
  auto loader = noisy_loader(1), other = noisy_loader(0);
  auto at = loader.begin();
  const std::string state = loader.state();
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = state;
    return text.replace(text.find(from), from.size(), to);
  };
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("null"), state.substr(0, state.size() / 2),
        with("\"epoch\": 0", "\"epoch\": -1"), with("\"epoch\": 0", "\"epoch\": 0.5"),
        with("\"batch\": 1", "\"batch\": \"1\""), with("\"seed\": \"9\"", "\"seed\": \"x\""),
        with("\"seed\": \"9\"", "\"seed\": \"99999999999999999999\""), with("\"seed\"", "\"sood\""),
        with("\"batch\": 1", "\"batch\": 99999999999999999999")}) {
    EXPECT_THROW(loader.restore(text), FormatError) << text;
  }
  EXPECT_THROW(loader.restore(with("\"batch\": 1", "\"batch\": 9")), ValueError);
  EXPECT_THROW(loader.restore(with("\"version\": 1", "\"version\": 2")), VersionError);
  EXPECT_EQ(loader.state(), state);
  ++at;
  EXPECT_EQ(loader.batch(), 2);
}

TEST(Position, EveryRankHasTheSame) {
  std::vector<std::string> states;
  for (int64_t rank = 0; rank < 2; ++rank) {
    DataLoader loader(Numbers{50}, {.batch_size = 4, .shuffle = true, .seed = 9, .rank = rank, .world = 2});
    auto at = loader.begin();
    ++at;
    states.push_back(loader.state());
  }
  EXPECT_EQ(states[0], states[1]);
}

TEST(Position, GoesWithATrainingState) {
  const TemporaryFolder folder;
  nn::Linear net(2, 2);
  auto loader = noisy_loader(2), fresh = noisy_loader(0);
  auto at = loader.begin();
  ++at;
  io::save_training_state(folder.path(), {net}, {.step = 2, .documents = {{"sampler", loader.state()}}});
  fresh.restore(io::load_training_state(folder.path(), {net}).documents.at("sampler"));
  EXPECT_EQ(fresh.state(), loader.state());
}

// Runs only in the process that the test below starts.
TEST(PositionProcess, Resumes) {
  const char* folder = std::getenv("WEFT_TEST_POSITION");
  if (folder == nullptr) GTEST_SKIP() << "started by Position.InANewProcess";
  auto loader = noisy_loader(2);
  loader.restore(read_bytes(std::string(folder) + "/state"));
  const std::vector<float> rest = epochs_of(loader, 1);
  std::ofstream(std::string(folder) + "/rest", std::ios::binary)
      .write(reinterpret_cast<const char*>(rest.data()), static_cast<std::streamsize>(rest.size() * sizeof(float)));
}

TEST(Position, InANewProcess) {
  const TemporaryFolder folder;
  auto straight = noisy_loader(0), loader = noisy_loader(3);
  const std::vector<float> right = epochs_of(straight, 1);
  std::vector<float> seen;
  auto at = loader.begin();
  for (int i = 0; i < 3; ++i, ++at) append(seen, *at);
  std::ofstream(folder / "state") << loader.state();
  append(seen, *at);  // given out before the state was asked for
  const std::string command = "WEFT_TEST_POSITION=" + folder.path().string() + " " +
                              std::filesystem::read_symlink("/proc/self/exe").string() +
                              " --gtest_filter=PositionProcess.Resumes >/dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const std::string bytes = read_bytes(folder / "rest");
  const auto* rest = reinterpret_cast<const float*>(bytes.data());
  seen.insert(seen.end(), rest, rest + bytes.size() / sizeof(float));
  EXPECT_EQ(seen, right);
}

}  // namespace
}  // namespace weft
