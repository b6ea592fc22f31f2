// Streams: sequential data without random access, such as the lines of files.
//
//   const auto lines = data::stream([](int64_t epoch) {
//     return [file = std::make_shared<std::ifstream>("corpus.txt")]() -> std::optional<std::string> {
//       std::string line;
//       return std::getline(*file, line) ? std::optional(line) : std::nullopt;
//     };
//   });
//   data::DataLoader loader(data::map(lines, tokenize), {.batch_size = 8, .workers = 4}, data::pad());
//
// A loader reads a stream with one thread at a time, and its workers compute the mapped functions. So samples arrive in
// order and exactly once, for any number of workers.
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

/// `open(epoch)` returns a reader, which is called for one value after the other until it returns nothing. `finish`
/// converts a value to a sample, on any thread.
template <class S>
concept StreamDataset = requires(const S& stream, int64_t epoch) {
  *stream.open(epoch)();
  stream.finish(*stream.open(epoch)());
};

/// The stream of the values returned by the readers that `open` creates.
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
/// `open(epoch)` returns a function that returns a std::optional sample, empty at the end of the epoch.
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
/// The stream with `function` applied to each sample.
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

/// Reads groups of `world` values and keeps the value of index `rank`; an incomplete last group is dropped.
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
