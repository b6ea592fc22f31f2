// Parses histories from JSON lines, written by hooks/page/json_line.cpp or other programs.
#include "gradient_log.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include "../hooks/detail/backward_trace.hpp"
#include "../hooks/detail/program_fields.hpp"
#include "../hooks/memory/memory_notes.hpp"
#include "file.hpp"
#include "files/folder-inl.hpp"
#include "files/json_lines-inl.hpp"

namespace weft::io {

namespace {

constexpr const char* op = "read_history";

double number_or(const JsonNode& place, const char* name, double otherwise) {
  return place.has(name) ? place.at(name).number() : otherwise;
}

// Lines of other programs may have only some fields: rms replaces the norm, and missing fields get defaults.
std::optional<Statistics> statistics_in(const JsonNode& tensor, const char* name) {
  if (!tensor.has(name)) return {};
  const JsonNode s = tensor.at(name);
  Statistics out{.count = s.has("count") ? s.at("count").integer() : 1};
  if (out.count < 0) s.fail("a count is not negative");
  const auto part = [&](const char* share) {
    const double v = number_or(s, share, 0);
    if (!(v >= 0 && v <= 1)) s.fail("a share is between 0 and 1");
    return static_cast<int64_t>(std::llround(v * static_cast<double>(out.count)));
  };
  out.zeros = part("zeros"), out.non_finite = part("non_finite");
  out.mean = number_or(s, "mean", 0), out.deviation = number_or(s, "deviation", 0);
  out.low = number_or(s, "low", 0), out.high = number_or(s, "high", 0);
  const double rms = number_or(s, "rms", 0), finite = static_cast<double>(out.count - out.non_finite);
  out.norm = number_or(s, "norm", rms * std::sqrt(std::max(0.0, finite)));
  if (!std::isfinite(out.norm)) out.norm = 0, out.non_finite = out.count;
  return out;
}

Shared<const Histogram> bins_in(const JsonNode& tensor, const char* name) {
  if (!tensor.has(name)) return {};
  const JsonNode bins = tensor.at(name);
  auto out = Shared<Histogram>::make();
  const auto count = [](const JsonNode& place) {
    const int64_t n = place.integer();
    if (n < 0 || n > UINT32_MAX) place.fail("a bin holds 0 to 2^32 - 1");
    return static_cast<uint32_t>(n);
  };
  out->zeros = count(bins.at("zeros")), out->non_finite = count(bins.at("non_finite"));
  const auto fill = [&](const char* side, auto& into) {
    const int64_t from = bins.at("from").integer();
    const bool exists = from >= Histogram::lowest && from < Histogram::lowest + Histogram::bins;
    if (!exists) bins.at("from").fail("there is no such bin");
    int64_t at = from - Histogram::lowest;
    bins.at(side).each([&](const JsonNode& n) {
      if (at < 0 || at >= Histogram::bins) n.fail("there is no such bin");
      into[static_cast<size_t>(at++)] = count(n);
    });
  };
  fill("negative", out->negative), fill("positive", out->positive);
  return out;
}

// ---- long runs ------------------------------------------------------------------------------------------------------

/// Maximum number of steps of a long log, and number of last steps that are never merged.
constexpr size_t most_steps = 2048, last_steps = 64;

void keep_greater(std::optional<Statistics>& kept, std::optional<Statistics>& other) {
  const auto size = [](const std::optional<Statistics>& s) {
    return !s ? -1.0 : s->non_finite > 0 ? INFINITY : s->rms();
  };
  if (size(other) > size(kept)) std::swap(kept, other);
}

// Merges into the later step, keeping the greater figures, so that no peak is lost.
void merge(HistoryStep& into, HistoryStep& earlier) {
  if (earlier.loss && (!into.loss || !std::isfinite(*earlier.loss) || *earlier.loss > *into.loss)) {
    if (!into.loss || std::isfinite(*into.loss)) into.loss = earlier.loss;
  }
  into.observations.resize(std::max(into.observations.size(), earlier.observations.size()));
  for (size_t i = 0; i < earlier.observations.size(); ++i) {
    Observation &kept = into.observations[i], &other = earlier.observations[i];
    keep_greater(kept.value, other.value), keep_greater(kept.gradient, other.gradient);
    if (other.update_ratio && !(kept.update_ratio >= other.update_ratio)) kept.update_ratio = other.update_ratio;
    if (!kept.value_histogram) kept.value_histogram = std::move(other.value_histogram);
    if (!kept.gradient_histogram) kept.gradient_histogram = std::move(other.gradient_histogram);
  }
}

/// Collects steps; if there are too many, merges neighbours, evenly except for the last ones.
class Thinning {
 public:
  explicit Thinning(std::vector<HistoryStep>& steps) : steps_(steps) {}

  void add(HistoryStep&& step) {
    last_.push_back(std::move(step));
    if (last_.size() <= last_steps) return;
    keep(std::move(last_.front()));
    last_.pop_front();
  }
  void finish() {
    for (HistoryStep& step : last_) steps_.push_back(std::move(step));
    last_.clear();
  }

 private:
  void keep(HistoryStep&& step) {
    if (steps_.size() >= most_steps - last_steps && together_ == stride_) halve();
    if (together_ < stride_ && !steps_.empty()) {
      merge(step, steps_.back());
      steps_.back() = std::move(step);
      ++together_;
    } else {
      steps_.push_back(std::move(step));
      together_ = 1;
    }
  }
  void halve() {
    for (size_t i = 0; i + 1 < steps_.size(); i += 2) {
      merge(steps_[i + 1], steps_[i]);
      std::swap(steps_[i / 2], steps_[i + 1]);
    }
    const bool odd = steps_.size() % 2 == 1;
    if (odd) std::swap(steps_[steps_.size() / 2], steps_.back());
    steps_.resize((steps_.size() + 1) / 2);
    if (!odd) together_ *= 2;
    stride_ *= 2;
  }

  std::vector<HistoryStep>& steps_;
  std::deque<HistoryStep> last_;
  /// Number of steps merged into each kept step, and into the last of them.
  size_t stride_ = 1, together_ = 1;
};

class Reader {
 public:
  explicit Reader(History& history) : history_(history), steps_(history.steps) {}

  /// Interval between logged steps.
  int64_t interval() const { return least_ == INT64_MAX ? 1 : least_; }

  void add(const JsonTree& tree) {
    const JsonNode line(tree, op, Location::none());
    HistoryStep out{.step = line.at("step").integer(), .loss = {}, .observations = {}};
    if (out.step < 0) line.at("step").fail("a step is not negative");
    if (before_ && out.step > *before_) least_ = std::min(least_, out.step - *before_);
    if (line.has("loss") && !line.at("loss").json().is(JsonTree::Kind::null)) out.loss = line.at("loss").number();
    next_ = 0;
    line.at("tensors").each_field([&](const std::string& name, const JsonNode& tensor) { add(name, tensor, out); });
    if (line.has("trace")) add_trace(line.at("trace"), out.step);
    if (line.has("broadcasts")) line.at("broadcasts").each([&](const JsonNode& m) { add_broadcast(m); });
    if (line.has("program")) add_program(line.at("program"));
    if (line.has("memory")) line.at("memory").each([&](const JsonNode& m) { add_memory(m, out.step); });
    before_ = out.step;
    steps_.add(std::move(out));
  }
  void finish() { steps_.finish(); }

 private:
  size_t index_of(const std::string& name, WatchedKind kind = WatchedKind::parameter) {
    std::vector<Watched>& watched = history_.watched;
    // Lines usually name tensors in the same order.
    if (next_ < watched.size() && watched[next_].name == name) return next_++;
    const auto index = static_cast<size_t>(std::ranges::find(watched, name, &Watched::name) - watched.begin());
    if (index == watched.size()) watched.push_back({name, kind});
    next_ = index + 1;
    return index;
  }

  void add(const std::string& name, const JsonNode& tensor, HistoryStep& step) {
    const size_t index = index_of(name, tensor.has("kind") ? WatchedKind::activation : WatchedKind::parameter);
    Watched& watched = history_.watched[index];
    Observation o{.value = statistics_in(tensor, "value"), .gradient = statistics_in(tensor, "gradient")};
    if (tensor.has("update_ratio")) o.update_ratio = tensor.at("update_ratio").number();
    o.value_histogram = bins_in(tensor, "value_bins"), o.gradient_histogram = bins_in(tensor, "gradient_bins");
    if (tensor.has("epsilon")) watched.epsilon = tensor.at("epsilon").number();
    if (tensor.has("trained")) watched.trained = tensor.at("trained").boolean();
    if (watched.op.empty() && tensor.has("op")) {
      watched.op = tensor.at("op").text(), watched.place = tensor.at("place").text();
    }
    const auto note = [&](const std::optional<Statistics>& s, std::optional<int64_t>& bad) {
      if (s && s->non_finite > 0 && !bad) bad = step.step;
    };
    note(o.value, watched.bad_value), note(o.gradient, watched.bad_gradient);
    step.observations.resize(std::max(step.observations.size(), index + 1));
    step.observations[index] = std::move(o);
  }

  class Fields {
   public:
    Fields(const JsonNode& place, Reader& reader) : place_(place), reader_(reader) {}

    template <class T>
    void operator()(const char* name, T& value) {
      if (place_.has(name)) read(place_.at(name), value);
    }
    template <class Index>
    void tensor(const char* name, Index& index) {
      if (place_.has(name)) index = reader_.index_of(place_.at(name).text());
    }

   private:
    static void read(const JsonNode& p, double& v) { v = p.number(); }
    static void read(const JsonNode& p, std::optional<double>& v) { v = p.number(); }
    static void read(const JsonNode& p, int64_t& v) { v = p.integer(); }
    static void read(const JsonNode& p, bool& v) { v = p.boolean(); }
    static void read(const JsonNode& p, std::string& v) { v = p.text(); }
    static void read(const JsonNode& p, Cut::Kind& v) {
      const int64_t kind = p.integer();
      if (kind < 0 || kind > static_cast<int64_t>(Cut::Kind::unused)) p.fail("there is no such kind of cut");
      v = static_cast<Cut::Kind>(kind);
    }
    template <class T>
    void read(const JsonNode& p, std::vector<T>& v) {
      v.clear();
      p.each([&](const JsonNode& item) { read(item, v.emplace_back()); });
    }
    template <class T>
    void read(const JsonNode& p, T& v) {
      v = {};
      Fields inner(p, reader_);
      weft::detail::fields_of(inner, v);
    }

    const JsonNode& place_;
    Reader& reader_;
  };

  void add_program(const JsonNode& place) {
    ProgramFacts& p = history_.program;
    Fields seen(place, *this);
    seen("model", p.model), seen("single_batches", p.single_batches), seen("cuts", p.cuts);
    seen("hook_changes", p.hook_changes), seen("half_casts", p.half_casts), seen("losses", p.losses);
    seen("shared", p.shared), seen("calls", p.calls);
    const auto append = [&](const char* name, auto& all) {
      auto more = all;
      more.clear();
      seen(name, more);
      all.insert(all.end(), more.begin(), more.end());
    };
    append("clippings", p.clippings), append("optimizer_steps", p.optimizer_steps);
  }

  size_t site_of(const JsonNode& place) {
    OpSite site{.op = place.at("op").text(), .place = place.at("place").text()};
    auto& sites = history_.sites;
    const auto same = [&](const OpSite& s) { return s.op == site.op && s.place == site.place; };
    const auto found = std::ranges::find_if(sites, same);
    if (found != sites.end()) return static_cast<size_t>(found - sites.begin());
    place.at("parameters").each([&](const JsonNode& p) { site.parameters.push_back(index_of(p.text())); });
    sites.push_back(std::move(site));
    return sites.size() - 1;
  }

  void add_trace(const JsonNode& place, int64_t step) {
    Trace trace;
    trace.step = step;
    std::vector<size_t> sites;
    place.at("sites").each([&](const JsonNode& s) { sites.push_back(site_of(s)); });
    const auto sender = [&](const JsonNode& from) {
      const int64_t n = from.integer();
      if (n < Passage::loss || n >= static_cast<int64_t>(trace.passages.size())) from.fail("no passage came before it");
      return static_cast<int32_t>(n);
    };
    place.at("passages").each([&](const JsonNode& fields) {
      Passage p;
      int at = 0;
      fields.each([&](const JsonNode& field) {
        switch (at++) {
          case 0:
            p.site = static_cast<size_t>(field.integer());
            if (p.site >= sites.size()) field.fail("there is no such site");
            p.site = sites[p.site];
            break;
          case 1:
            p.from = sender(field);
            break;
          case 4:
            p.count = field.integer();
            break;
          case 5:
            p.slopes = field.integer();
            break;
          default: {
            double* const numbers[] = {nullptr, nullptr,   &p.arrived, &p.left, nullptr,
                                       nullptr, &p.closed, &p.flat,    &p.low,  &p.high};
            if (at <= 10) *numbers[at - 1] = field.number();
          }
        }
      });
      if (at < 5) fields.fail("a passage has five numbers at least");
      trace.passages.push_back(p);
    });
    place.at("arrivals").each([&](const JsonNode& fields) {
      Arrival a;
      int at = 0;
      fields.each([&](const JsonNode& field) {
        switch (at++) {
          case 0:
            a.index = index_of(field.text());
            break;
          case 1:
            a.from = sender(field);
            break;
          case 2:
            a.norm = field.number();
            break;
          default:
            break;
        }
      });
      if (at < 3) fields.fail("an arrival has three parts");
      trace.arrivals.push_back(a);
    });
    weft::detail::keep_trace(std::move(trace), history_);
  }

  void add_broadcast(const JsonNode& place) {
    MutualBroadcast seen{.op = place.at("op").text(), .place = place.at("place").text()};
    const auto same = [&](const MutualBroadcast& m) { return m.op == seen.op && m.place == seen.place; };
    auto& known = history_.broadcasts;
    auto found = std::ranges::find_if(known, same);
    if (found == known.end()) {
      seen.left = place.at("left").text(), seen.right = place.at("right").text();
      seen.result = place.at("result").text();
      found = known.insert(known.end(), std::move(seen));
    }
    found->steps = std::max(found->steps, place.at("steps").integer());
  }

  static size_t bytes_in(const JsonNode& place) {
    const int64_t bytes = place.integer();
    if (bytes < 0) place.fail("there are no fewer bytes than 0");
    return static_cast<size_t>(bytes);
  }

  void add_memory(const JsonNode& place, int64_t step) {
    DeviceMemory seen{.device = place.at("device").text()};
    if (place.has("peak")) seen.totals = {{step, bytes_in(place.at("peak")), bytes_in(place.at("kept"))}};
    if (place.has("course")) {
      seen.step = place.at("course_of").integer();
      place.at("course").each([&](const JsonNode& fields) { seen.curve.push_back(moment_in(fields)); });
      seen.at_peak = texts_in(place, "at_peak");
    }
    seen.growth = texts_in(place, "growth");
    auto m = std::ranges::find(history_.memory, seen.device, &DeviceMemory::device);
    if (m == history_.memory.end()) {
      history_.memory.push_back(std::move(seen));
      return;
    }
    if (!seen.totals.empty()) weft::detail::keep_total(seen.totals[0], *m);
    if (!seen.curve.empty()) {
      m->step = seen.step, m->curve = std::move(seen.curve), m->at_peak = std::move(seen.at_peak);
    }
    m->growth = std::move(seen.growth);
  }
  static MemoryMoment moment_in(const JsonNode& fields) {
    MemoryMoment moment;
    size_t at = 0;
    fields.each([&](const JsonNode& field) {
      if (at == 0) moment.at = field.number();
      else if (at <= std::size(moment.bytes)) moment.bytes[at - 1] = bytes_in(field);
      ++at;
    });
    if (!(moment.at >= 0 && moment.at <= 1)) fields.fail("a moment is between 0 and 1");
    return moment;
  }
  static std::vector<std::string> texts_in(const JsonNode& place, const char* name) {
    std::vector<std::string> out;
    if (place.has(name)) place.at(name).each([&](const JsonNode& text) { out.push_back(text.text()); });
    return out;
  }

  History& history_;
  Thinning steps_;
  size_t next_ = 0;
  int64_t least_ = INT64_MAX;
  std::optional<int64_t> before_;
};

}  // namespace

std::string history_text(const History& history) {
  std::string out;
  for (const HistoryStep& step : history.steps) out += json_line(history, step) + '\n';
  return out;
}

void read_history(std::string_view lines, History& history) {
  Reader reader(history);
  for_each_json_line(lines, op, [&](std::string_view, const JsonTree& tree) { reader.add(tree); });
  reader.finish();
  history.every = reader.interval();
}

History load_history(const Path& log, Location where) {
  const Path file = is_folder(log) ? log / "gradients.jsonl" : log;
  const ReadScope reading;
  const MappedFile mapped = MappedFile::open(file, "load_history", where);
  History history;
  read_history({reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size()}, history);
  reading.check("load_history", where);
  if (history.steps.empty()) {
    raise<FormatError>({.op = "load_history",
                        .problem = file.string() + " has no line that says {\"step\": …, \"tensors\": {…}}",
                        .remedy = "docs/gradients.md says how such a log is made"},
                       where);
  }
  return history;
}

}  // namespace weft::io
