#include "../gather_history.hpp"

#include <algorithm>
#include <map>
#include <tuple>

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

/// Indices in `whole` of each rank's watched entries: names in order of first appearance, each with its ranks in order.
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

// ---- facts about programs ------------------------------------------------------------------------------------------

/// Appends the elements whose key is not in `whole`.
template <class T, class Key>
void add_new(std::vector<T>& whole, const std::vector<T>& own, Key key) {
  for (const T& one : own) {
    if (std::ranges::none_of(whole, [&](const T& other) { return key(other) == key(one); })) whole.push_back(one);
  }
}
template <class T>
void add_of_tensors(std::vector<T>& whole, std::vector<T> own, const std::vector<size_t>& places) {
  for (T& one : own) {
    one.index = places[one.index];
    whole.push_back(std::move(one));
  }
}

/// Merges optimizer steps; each rank recorded its own parameters.
void add_steps(std::vector<OptimizerSteps>& whole, const std::vector<OptimizerSteps>& own,
               const std::vector<size_t>& places) {
  const auto key = [](const OptimizerSteps& s) { return std::tie(s.step, s.optimizer, s.place); };
  for (const OptimizerSteps& one : own) {
    auto found = std::ranges::find_if(whole, [&](const OptimizerSteps& s) { return key(s) == key(one); });
    if (found == whole.end()) {
      found = whole.insert(whole.end(), one);
      found->parameters.clear();
    }
    if (found->zero_place.empty()) found->zero_place = one.zero_place;
    for (ParameterStep p : one.parameters) {
      p.index = places[p.index];
      found->parameters.push_back(p);
    }
  }
}

/// Merges a loss that several ranks compute, each for its own rows.
void add_loss(LossSeen& whole, const LossSeen& own) {
  whole.steps = std::max(whole.steps, own.steps), whole.last = std::max(whole.last, own.last);
  whole.rows += own.rows, whole.numbers += own.numbers;
  whole.steps_of_equal_predictions = std::min(whole.steps_of_equal_predictions, own.steps_of_equal_predictions);
  whole.several_targets |= own.several_targets || whole.only_target != own.only_target;
  if (whole.several_targets) whole.only_target.reset();
  const auto sum = [](auto& into, const auto& from) {
    into.resize(std::max(into.size(), from.size()));
    for (size_t i = 0; i < from.size(); ++i) into[i] += from[i];
  };
  sum(whole.classes, own.classes), sum(whole.sums, own.sums), sum(whole.squares, own.squares);
}

void add_program(ProgramFacts& whole, const ProgramFacts& own, const std::vector<size_t>& places, size_t rank) {
  add_of_tensors(whole.cuts, own.cuts, places);
  add_of_tensors(whole.calls, own.calls, places);
  for (HookChange change : own.hook_changes) {
    if (change.index) change.index = places[*change.index];
    whole.hook_changes.push_back(std::move(change));
  }
  add_steps(whole.optimizer_steps, own.optimizer_steps, places);
  add_new(whole.clippings, own.clippings, [](const Clipping& c) { return std::tie(c.step, c.place); });
  add_new(whole.half_casts, own.half_casts, [](const HalfCast& c) { return std::tie(c.place); });
  add_new(whole.shared, own.shared, [](const SharedParts& s) { return std::tie(s.first, s.second); });
  for (SingleBatches s : own.single_batches) {
    s.name = fmt::format("{} @{}", s.name, rank);
    whole.single_batches.push_back(std::move(s));
  }
  for (const LossSeen& loss : own.losses) {
    const auto found =
        std::ranges::find_if(whole.losses, [&](const LossSeen& l) { return l.op == loss.op && l.place == loss.place; });
    if (found == whole.losses.end()) whole.losses.push_back(loss);
    else add_loss(*found, loss);
  }
  // Ranks that have the whole model call it alike; of pipeline stages, the first one counts.
  if (whole.model.inputs == 0 && whole.model.trained == 0 && whole.model.unrecorded == 0) whole.model = own.model;
}

/// Joins the backward traces of one step of all ranks, one after the other.
void add_traces(History& whole, const History& own, const std::vector<size_t>& places) {
  const size_t sites = whole.sites.size();
  for (OpSite site : own.sites) {
    for (size_t& index : site.parameters) index = places[index];
    whole.sites.push_back(std::move(site));
  }
  for (const Trace& trace : own.traces) {
    auto joined = std::ranges::find(whole.traces, trace.step, &Trace::step);
    if (joined == whole.traces.end())
      joined = whole.traces.insert(whole.traces.end(), Trace{.step = trace.step, .passages = {}, .arrivals = {}});
    const auto before = static_cast<int32_t>(joined->passages.size());
    const auto moved = [&](int32_t from) { return from == Passage::loss ? from : from + before; };
    for (Passage p : trace.passages) {
      p.site += sites, p.from = moved(p.from);
      joined->passages.push_back(p);
    }
    for (Arrival a : trace.arrivals) {
      a.index = places[a.index], a.from = moved(a.from);
      joined->arrivals.push_back(a);
    }
  }
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
  std::map<int64_t, HistoryStep> steps;
  for (size_t r = 0; r < ranks.size(); ++r) {
    for (HistoryStep& step : ranks[r].steps) {
      HistoryStep& joined = steps[step.step];
      joined.step = step.step;
      if (!joined.loss) joined.loss = step.loss;
      joined.observations.resize(whole.watched.size());
      for (size_t i = 0; i < step.observations.size(); ++i)
        joined.observations[places[r][i]] = std::move(step.observations[i]);
    }
    add_program(whole.program, ranks[r].program, places[r], r);
    add_traces(whole, ranks[r], places[r]);
    for (DeviceMemory& memory : ranks[r].memory) {
      memory.device = fmt::format("{} @{}", memory.device, r);
      whole.memory.push_back(std::move(memory));
    }
    add_new(whole.broadcasts, ranks[r].broadcasts, [](const MutualBroadcast& m) { return std::tie(m.op, m.place); });
  }
  std::ranges::sort(whole.traces, {}, &Trace::step);
  for (auto& [number, step] : steps) whole.steps.push_back(std::move(step));
  return whole;
}

}  // namespace weft::distributed
