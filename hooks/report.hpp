// Reports of a GradientRecorder: an HTML page, a comparison of two runs, text for a terminal, JSON lines.
#pragma once

#include <string>
#include <vector>

#include "history.hpp"
#include "suspects.hpp"

namespace weft {

/// Returns the report as one self-contained HTML page, for a file or a notebook: curves, heat map, histograms,
/// suspects. In a long run each column covers several steps, with their extremes. `note` is shown below the title, such
/// as the reason why the run ended.
WEFT_API std::string report_html(const History& history, const std::string& title = "Gradients",
                                 const std::string& note = "");

struct TitledHistory {
  std::string title;
  const History& history;
};
/// Returns one page that compares two runs: their losses and suspects, and for each tensor the figures of both.
WEFT_API std::string comparison_html(const TitledHistory& left, const TitledHistory& right);

struct ReportTextOptions {
  /// Width of the terminal; at least 60.
  int columns = 100;
  /// Number of parameters and activations to show, the suspects first; 0 shows all.
  size_t rows = 40;
  /// Draws with ASCII characters, for terminals without block characters.
  bool ascii = false;
};
/// Returns the report for a terminal: suspects, the loss, and a line with a small curve for each parameter and
/// activation.
WEFT_API std::string report_text(const History& history, const std::string& title = "Gradients",
                                 const ReportTextOptions& options = {});

/// Returns only the suspects, one paragraph each: the kind of trouble and the sentence, wrapped to `columns`.
WEFT_API std::string suspects_text(const std::vector<Suspect>& suspects, int columns = 100);

/// Returns one line of JSON with the recorded data of a step, including the backward trace if there is one. Fields:
/// docs/gradients.md. {"step":0,"loss":2.3,"tensors":{"a.weight":{"gradient":{"count":…,…}}}}.
WEFT_API std::string json_line(const History& history, const HistoryStep& step);

}  // namespace weft
