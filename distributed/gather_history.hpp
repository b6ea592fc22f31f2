// Merges the histories of all ranks' recorders into one page.
//
//   GradientRecorder recorder(parallel);                  // of a ParallelModel, before its ParallelTraining
//   for (…) recorder.step(loss);
//   const History all = gather_history(recorder.history(), group);
//   if (group.rank() == 0) io::write_file("gradients.html", report_html(all), "page");
#pragma once

#include "../hooks/recorder.hpp"
#include "group.hpp"

namespace weft::distributed {

/// The merged histories of all ranks, on rank 0 of the group; an empty history on the others. The entry "up.weight" of
/// rank r becomes "up.weight @r"; entries of one name are adjacent. Each step has the first loss that a rank recorded.
/// Histograms are left out. Called by all ranks.
WEFT_API History gather_history(const History& own, const Group& group = world(), Location where = {});

}  // namespace weft::distributed
