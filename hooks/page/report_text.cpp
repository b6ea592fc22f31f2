// The report as text for a terminal.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "../detail/columns.hpp"
#include "../detail/graph_text.hpp"
#include "../report.hpp"
#include "../suspects.hpp"

namespace weft {

namespace {

/// Width of UTF-8 text in a terminal, one column per character.
size_t width_of(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}
std::string padded(std::string text, size_t width) {
  const size_t have = width_of(text);
  if (have < width) text.append(width - have, ' ');
  return text;
}

std::string number(double v) {
  if (std::isnan(v)) return "-";
  const double size = std::abs(v);
  return v == 0 || (size >= 1e-3 && size < 1e5) ? fmt::format("{:.3g}", v) : fmt::format("{:.1e}", v);
}

/// Wraps at `width`, with indentation from the second line on; longer words get separate lines.
std::string wrapped(std::string_view text, size_t width, size_t indent) {
  std::string out;
  size_t column = indent;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(" \n"), text.size());
    const std::string_view word = text.substr(0, end);
    if (column > indent && column + 1 + width_of(word) > width) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    }
    if (column > indent) out += ' ', ++column;
    out += word;
    column += width_of(word);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string shortened(const std::string& name, size_t width) {
  if (width_of(name) <= width || width < 8 || width_of(name) != name.size()) return padded(name, width);
  const size_t tail = (width - 2) * 2 / 3, head = width - 2 - tail;
  return name.substr(0, head) + ".." + name.substr(name.size() - tail);
}

struct Drawing {
  bool ascii;
  /// Characters for a value that is not finite, and for a missing value.
  static constexpr const char* bad = "!";
  static constexpr const char* none = " ";

  std::string level(double share) const {
    static constexpr const char* blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static constexpr const char* letters[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
    const auto i = static_cast<size_t>(std::clamp(share, 0.0, 1.0) * 7 + 0.5);
    return ascii ? letters[i] : blocks[i];
  }

  /// A curve of `width` characters; each shows the maximum of neighbouring columns.
  template <class Value>
  std::string curve(size_t columns, size_t width, bool log, Value value) const {
    width = std::min(width, columns);
    std::vector<double> shown(width, NAN);
    std::vector<bool> is_bad(width, false);
    for (size_t c = 0; c < columns; ++c) {
      const auto [v, spoilt] = value(c);
      const size_t at = c * width / columns;
      const double y = log ? (v > 0 ? std::log10(v) : NAN) : v;
      if (!std::isnan(y) && !(shown[at] >= y)) shown[at] = y;
      if (spoilt) is_bad[at] = true;
    }
    double low = INFINITY, high = -INFINITY;
    for (const double y : shown) {
      if (std::isfinite(y)) low = std::min(low, y), high = std::max(high, y);
    }
    // A logarithmic curve covers at least one decade, so that noise looks flat.
    if (log && high - low < 1) low = high - 1;
    std::string out;
    for (size_t i = 0; i < width; ++i) {
      if (is_bad[i]) out += bad;
      else if (std::isnan(shown[i])) out += none;
      else out += level(high > low ? (shown[i] - low) / (high - low) : 0);
    }
    return out;
  }
};

double last_of(std::span<const detail::Cell> cells, double detail::Cell::*figure) {
  for (size_t i = cells.size(); i-- > 0;) {
    if (!std::isnan(cells[i].*figure)) return cells[i].*figure;
  }
  return NAN;
}

std::string loss_line(const detail::Columns& columns, const Drawing& drawing, size_t width) {
  std::string first, last;
  for (size_t c = 0; c < columns.size(); ++c) {
    if (!columns.loss(c).last) continue;
    if (first.empty()) first = fmt::format("{:.4g}", *columns.loss(c).last);
    last = fmt::format("{:.4g}", *columns.loss(c).last);
  }
  if (first.empty()) return "";
  const size_t room = width - std::min(width - 10, first.size() + last.size() + 12);
  return fmt::format("loss  {} {} {}\n", first,
                     drawing.curve(columns.size(), room, false,
                                   [&](size_t c) {
                                     const detail::LossColumn& l = columns.loss(c);
                                     return std::pair(std::isfinite(l.high) ? l.high : NAN,
                                                      l.last && !std::isfinite(*l.last));
                                   }),
                     last);
}

/// Suspects first, then by descending gradient, within each kind.
std::vector<size_t> order_of(const History& history, const std::vector<Suspect>& suspects, WatchedKind kind) {
  std::vector<size_t> accused, others;
  std::vector<bool> seen(history.watched.size(), false);
  const auto take = [&](size_t index, std::vector<size_t>& into) {
    if (index >= seen.size() || seen[index] || history.watched[index].kind != kind) return;
    seen[index] = true;
    into.push_back(index);
  };
  for (const Suspect& s : suspects) {
    if (s.trouble == Trouble::run || s.trouble == Trouble::broadcast) continue;
    take(s.index, accused);
    for (const size_t f : s.followers) take(f, accused);
  }
  for (size_t i = 0; i < seen.size(); ++i) take(i, others);
  accused.insert(accused.end(), others.begin(), others.end());
  return accused;
}

class Table {
 public:
  Table(const History& history, const detail::Columns& columns, const std::vector<Suspect>& suspects, size_t width,
        Drawing drawing)
      : history_(history), columns_(columns), suspects_(suspects), width_(width), drawing_(drawing) {}

  std::string text(WatchedKind kind, const char* heading, size_t rows) const {
    std::vector<size_t> order = order_of(history_, suspects_, kind);
    if (order.empty()) return "";
    const size_t all = order.size();
    if (rows > 0 && all > rows) order.resize(rows);
    size_t longest = std::strlen(heading);
    for (const size_t i : order) longest = std::max(longest, width_of(history_.watched[i].name));
    const size_t name = std::min(longest, width_ / 3), curve = std::min<size_t>(width_ - name - 34, columns_.size());
    std::string out = fmt::format("\n{}  {:>9} {:>9} {:>9}  gradient\n", padded(heading, name + 2), "gradient",
                                  "update", kind == WatchedKind::parameter ? "weight" : "value");
    for (const size_t i : order) out += row(i, name, curve);
    if (order.size() < all) out += fmt::format("  and {} more\n", all - order.size());
    return out;
  }

 private:
  bool is_accused(size_t index) const {
    return std::ranges::any_of(suspects_, [&](const Suspect& s) {
      return s.trouble != Trouble::run && s.trouble != Trouble::broadcast &&
             (s.index == index || std::ranges::find(s.followers, index) != s.followers.end());
    });
  }
  std::string row(size_t i, size_t name, size_t curve) const {
    const auto gradients = columns_.gradients(i), values = columns_.values(i);
    const std::string drawn = drawing_.curve(columns_.size(), curve, true, [&](size_t c) {
      return std::pair(gradients[c].rms, gradients[c].bad > 0 || values[c].bad > 0);
    });
    std::string out =
        fmt::format("{} {} {:>9} {:>9} {:>9}  {}", is_accused(i) ? '*' : ' ', shortened(history_.watched[i].name, name),
                    number(last_of(gradients, &detail::Cell::rms)), number(last_of(values, &detail::Cell::ratio)),
                    number(last_of(values, &detail::Cell::rms)), drawn);
    out.erase(out.find_last_not_of(' ') + 1);
    return out + '\n';
  }

  const History& history_;
  const detail::Columns& columns_;
  const std::vector<Suspect>& suspects_;
  size_t width_;
  Drawing drawing_;
};

/// Peak step of each device, and the largest tensors at the peak.
std::string memory_lines(const History& history, size_t width) {
  std::string out;
  for (const DeviceMemory& m : history.memory) {
    if (m.curve.empty()) continue;
    size_t largest_sum = 0;
    for (const MemoryMoment& moment : m.curve) largest_sum = std::max(largest_sum, moment.sum());
    out += fmt::format("\nmemory of {}: peak of {} in step {}\n", m.device,
                       detail::bytes_text(static_cast<int64_t>(largest_sum)), m.step);
    for (size_t i = 0; i < std::min<size_t>(m.at_peak.size(), 3); ++i)
      out += "  " + wrapped(m.at_peak[i], width, 2) + '\n';
  }
  return out;
}

}  // namespace

std::string suspects_text(const std::vector<Suspect>& suspects, int columns) {
  std::string out;
  for (const Suspect& s : suspects) {
    out += padded(name_of(s.trouble), 12) + wrapped(s.text, static_cast<size_t>(std::max(40, columns)), 12) + '\n';
  }
  return out;
}

std::string report_text(const History& history, const std::string& title, const ReportTextOptions& options) {
  const auto width = static_cast<size_t>(std::max(60, options.columns));
  const detail::Columns columns(history);
  const std::vector<Suspect> suspects = find_suspects(history);
  std::string out = title;
  if (history.steps.empty()) return out + "\nnothing was recorded\n";
  const auto count = [&](WatchedKind kind) { return std::ranges::count(history.watched, kind, &Watched::kind); };
  out += fmt::format("\n{} steps up to step {}, {} parameters, {} activations\n", history.steps.size(),
                     history.steps.back().step, count(WatchedKind::parameter), count(WatchedKind::activation));
  out += loss_line(columns, {options.ascii}, width);
  out += suspects.empty() ? "\nno suspects: every parameter receives a gradient and is updated\n"
                          : "\n" + suspects_text(suspects, static_cast<int>(width));
  const Table table(history, columns, suspects, width, {options.ascii});
  out += table.text(WatchedKind::parameter, "parameter", options.rows);
  out += table.text(WatchedKind::activation, "activation", options.rows);
  out += memory_lines(history, width);
  return out + "\nrms of the last recorded step; * is a suspect or follows from one, ! is NaN or infinite\n";
}

}  // namespace weft
