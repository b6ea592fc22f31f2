// What a GradientRecorder saw, for readers: a page, two runs beside each other, text for a terminal, lines of JSON.
#pragma once

#include <string>
#include <vector>

#include "history.hpp"
#include "suspects.hpp"

namespace weft {

/// The report as one self-contained HTML page, for a file or a notebook: curves, heat map, histograms, suspects. Of a
/// long run each column stands for several steps, with their extremes. `note` stands under the title, such as why the
/// run ended.
WEFT_API std::string report_html(const History& history, const std::string& title = "Gradients",
                                 const std::string& note = "");

struct TitledHistory {
  std::string title;
  const History& history;
};
/// Two runs beside each other as one page: their losses and suspects, and of each tensor the figures of both.
WEFT_API std::string comparison_html(const TitledHistory& left, const TitledHistory& right);

struct ReportTextOptions {
  /// Width of the terminal; at least 60 are taken.
  int columns = 100;
  /// How many parameters and activations are shown, the suspects first; 0 shows all.
  size_t rows = 40;
  /// Draws with letters, where a terminal has no blocks.
  bool ascii = false;
};
/// The report for a terminal: suspects, the loss, and a line with a small curve for each parameter and activation.
WEFT_API std::string report_text(const History& history, const std::string& title = "Gradients",
                                 const ReportTextOptions& options = {});

/// The suspects alone, a paragraph each: the kind of trouble and the sentence, in lines of `columns`.
WEFT_API std::string suspects_text(const std::vector<Suspect>& suspects, int columns = 100);

/// One line of JSON with what was recorded in a step, and the backward pass if it was traced; docs/gradients.md has its
/// fields: {"step":0,"loss":2.3,"tensors":{"a.weight":{"gradient":{"count":…,…}}}}.
WEFT_API std::string json_line(const History& history, const RecordedStep& step);

}  // namespace weft
