// What recorders of all ranks saw, on one page.
//
//   GradientRecorder recorder(parallel);                  // of a ParallelModel, before its ParallelTraining
//   for (…) recorder.step(loss);
//   const History all = gather_history(recorder.history(), group);
//   if (group.rank() == 0) io::write_file("gradients.html", report_html(all), "page");
#pragma once

#include "../hooks/recorder.hpp"
#include "group.hpp"

namespace weft::distributed {

/// The histories of all ranks as one, on rank 0 of the group, and an empty one on the others. What rank r watched as
/// "up.weight" is "up.weight @r"; what has one name stands together. Steps have the first loss that a rank gives.
/// Histograms are left out. Called by all ranks.
WEFT_API History gather_history(const History& own, const Group& group = world(), Location where = {});

}  // namespace weft::distributed
