// Streams: data that is read from its beginning, such as the lines of files, and has no sample i.
//
//   const auto lines = data::stream([](int64_t epoch) {
//     return [file = std::make_shared<std::ifstream>("corpus.txt")]() -> std::optional<std::string> {
//       std::string line;
//       return std::getline(*file, line) ? std::optional(line) : std::nullopt;
//     };
//   });
//   data::DataLoader loader(data::map(lines, tokenize), {.batch_size = 8, .workers = 4}, data::pad());
//
// A loader reads a stream by one thread at a time, and its workers compute what was mapped over it: so samples come in
// their order, each once, whatever the number of workers.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "dataset.hpp"
#include "../tensor/shared.hpp"

namespace weft::data {

/// `open(epoch)` gives a reader, which is called for one value after the other until there is none, and `finish` makes
/// a sample of a value, on any thread.
template <class S>
concept StreamDataset = requires(const S& stream, int64_t epoch) {
  *stream.open(epoch)();
  stream.finish(*stream.open(epoch)());
};

/// A stream of what the readers give that `open` makes.
template <class F>
class OpenedStream {
 public:
  explicit OpenedStream(F open) : open_(std::move(open)) {}
  auto open(int64_t epoch) const { return open_(epoch); }
  template <class T>
  T finish(T value) const {
    return value;
  }

 private:
  F open_;
};
/// `open(epoch)` gives a function that returns a std::optional sample, empty at the end of the epoch.
template <class F>
OpenedStream<F> stream(F open) {
  return OpenedStream<F>(std::move(open));
}

template <StreamDataset S, class F>
class MappedStream {
 public:
  MappedStream(S stream, F function) : stream_(std::move(stream)), function_(std::move(function)) {}
  auto open(int64_t epoch) const { return stream_.open(epoch); }
  template <class T>
  auto finish(T value) const {
    return detail::read_sample(function_(stream_.finish(std::move(value))));
  }

 private:
  S stream_;
  F function_;
};
template <StreamDataset S, class F>
MappedStream<S, F> map(S stream, F function) {
  return {std::move(stream), std::move(function)};
}

namespace detail {

template <StreamDataset S>
using ReaderOf = decltype(std::declval<const S&>().open(int64_t{}));
template <StreamDataset S>
using ReadOf = std::remove_cvref_t<decltype(*std::declval<ReaderOf<S>&>()())>;

template <StreamDataset S>
Shared<void> open_reader(const S& stream, int64_t epoch) {
  return Shared<ReaderOf<S>>::make(stream.open(epoch));
}

/// Of each `world` values that of number `rank`; a last group that is not whole is left out.
template <StreamDataset S>
Shared<void> pull_samples(void* reader, int64_t count, int64_t rank, int64_t world, int64_t& got) {
  auto& next = *static_cast<ReaderOf<S>*>(reader);
  auto values = Shared<std::vector<ReadOf<S>>>::make();
  for (got = 0; got < count; ++got) {
    std::optional<ReadOf<S>> own;
    for (int64_t i = 0; i < world; ++i) {
      auto value = next();
      if (!value) return values;
      if (i == rank) own = std::move(value);
    }
    values->push_back(std::move(*own));
  }
  return values;
}

}  // namespace detail

}  // namespace weft::data
