// Data loaders: the time until the next batch is available. Batches are discarded, so that no other work hides the
// time.
#include <array>
#include <optional>
#include <string>
#include <utility>

#include <weft/data/loader.hpp>
#include <weft/data/token_windows.hpp>

#include "case.hpp"

namespace weft::bench {

namespace {

constexpr int64_t pictures = 20000, batch_size = 128, context = 256;

/// Padding and random crop, flip and normalisation, in loops as in user code.
std::pair<Tensor, Tensor> augmented(const std::array<Tensor, 2>& sample) {
  constexpr float mean[] = {125.3F, 123.0F, 113.9F}, deviation[] = {63.0F, 62.1F, 66.7F};
  const Tensor draws = randint(0, 9, 3);
  const auto* drawn = draws.data<int64_t>();
  const int64_t top = drawn[0] - 4, left = drawn[1] - 4;
  const bool flip = drawn[2] % 2 == 1;
  const Tensor out = empty({3, 32, 32});
  const auto* from = static_cast<const uint8_t*>(sample[0].data_ptr());
  float* to = out.data<float>();
  for (int64_t channel = 0; channel < 3; ++channel, from += 1024) {
    for (int64_t y = 0; y < 32; ++y) {
      for (int64_t x = 0; x < 32; ++x, ++to) {
        const int64_t row = y + top, column = (flip ? 31 - x : x) + left;
        const bool inside = row >= 0 && row < 32 && column >= 0 && column < 32;
        const auto value = static_cast<float>(inside ? from[row * 32 + column] : 0);
        *to = (value - mean[channel]) / deviation[channel];
      }
    }
  }
  return {out, sample[1]};
}

/// Yields batches of consecutive epochs without end.
template <class D>
class Endless {
 public:
  Endless(D dataset, int workers)
      : loader_(std::move(dataset), {.batch_size = batch_size, .shuffle = true, .seed = 1, .workers = workers}) {}
  void next() {
    if (at_) ++*at_;
    if (!at_ || *at_ == loader_.end()) at_.emplace(loader_.begin());
  }

 private:
  data::DataLoader<D> loader_;
  std::optional<typename data::DataLoader<D>::Iterator> at_;
};

/// The dataset is created when a case runs. Measures wall time, because workers run on other threads.
template <class Make>
void add_cases(const std::string& name, const Make& make) {
  using Loader = Endless<decltype(make())>;
  for (const int workers : {0, 1, 2}) {
    const std::string full = "load." + name + "." + std::to_string(workers) + "w";
    benchmark::RegisterBenchmark(full.c_str(), [=](benchmark::State& state) {
      Loader loader(make(), workers);
      loader.next();
      for (auto unused : state) loader.next();
      state.SetItemsProcessed(state.iterations() * batch_size);
    })->UseRealTime();
  }
}

data::TensorDataset<2> labelled_pictures() {
  return data::TensorDataset(randint(0, 256, {pictures, 3, 32, 32}, u8), randint(0, 10, pictures));
}

}  // namespace

void add_loading_cases() {
  add_cases("pictures_u8.128x3x32x32", labelled_pictures);
  add_cases("pictures_augmented.128x3x32x32", [] { return data::map(labelled_pictures(), augmented); });
  add_cases("tokens.128x256", [] { return data::TokenWindows(randint(0, 50000, pictures * context), context); });
}

}  // namespace weft::bench
