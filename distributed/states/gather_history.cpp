#include "../gather_history.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "../../io/gradient_log.hpp"
#include "../../tensor/call.hpp"
#include "../collectives.hpp"
#include "../detail/together.hpp"

namespace weft::distributed {

namespace {

/// The texts of all ranks, on rank 0.
std::vector<std::string> texts_of_all(const std::string& own, const Group& group) {
  const Tensor bytes = detail::bytes_of(own);
  // Only rank 0 gets them.
  std::vector<int64_t> to(static_cast<size_t>(group.size()), 0);
  to[0] = bytes.numel();
  const RaggedExchange all = all_to_all_ragged(bytes, to, group);
  std::vector<std::string> out;
  int64_t begin = 0;
  for (const int64_t size : all.receive_sizes) {
    out.push_back(detail::text_of(all.values.narrow(0, begin, size)));
    begin += size;
  }
  return out;
}

/// Where what each rank watched is in the whole: names in the order of their first rank, and of ranks for each.
std::vector<std::vector<size_t>> join_watched(const std::vector<History>& ranks, History& whole) {
  std::vector<std::pair<std::string, std::vector<std::pair<size_t, size_t>>>> by_name;
  for (size_t r = 0; r < ranks.size(); ++r) {
    for (size_t i = 0; i < ranks[r].watched.size(); ++i) {
      const std::string& name = ranks[r].watched[i].name;
      auto found = std::ranges::find_if(by_name, [&](const auto& entry) { return entry.first == name; });
      if (found == by_name.end()) found = by_name.insert(by_name.end(), {name, {}});
      found->second.emplace_back(r, i);
    }
  }
  std::vector<std::vector<size_t>> places(ranks.size());
  for (size_t r = 0; r < ranks.size(); ++r) places[r].resize(ranks[r].watched.size());
  for (const auto& [name, holders] : by_name) {
    for (const auto& [r, i] : holders) {
      places[r][i] = whole.watched.size();
      whole.watched.push_back(ranks[r].watched[i]);
      whole.watched.back().name = fmt::format("{} @{}", name, r);
    }
  }
  return places;
}

}  // namespace

History gather_history(const History& own, const Group& group, Location where) {
  const CallScope call("gather_history", where);
  std::vector<History> ranks;
  for (const std::string& text : texts_of_all(io::history_text(own), group)) {
    io::read_history(text, ranks.emplace_back());
  }
  History whole;
  if (group.rank() != 0) return whole;
  const std::vector<std::vector<size_t>> places = join_watched(ranks, whole);
  std::map<int64_t, RecordedStep> steps;
  for (size_t r = 0; r < ranks.size(); ++r) {
    for (RecordedStep& step : ranks[r].steps) {
      RecordedStep& joined = steps[step.step];
      joined.step = step.step;
      if (!joined.loss) joined.loss = step.loss;
      joined.of.resize(whole.watched.size());
      for (size_t i = 0; i < step.of.size(); ++i) joined.of[places[r][i]] = std::move(step.of[i]);
    }
  }
  for (auto& [number, step] : steps) whole.steps.push_back(std::move(step));
  return whole;
}

}  // namespace weft::distributed
