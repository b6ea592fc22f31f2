// Profiles of a plug-in's device, whether its events have a time or not.
#include "in_child.hpp"

#include <weft/hooks/profiler.hpp>

namespace weft {
namespace {

std::pair<size_t, size_t> kernels_and_spans() {
  load_device_plugin(stub_path);
  const Tensor x = ones({8}, {f32, "stub"});
  Profiler profiler;
  profiler.start();
  for (int i = 0; i < 10; ++i) (void)(x + x);
  profiler.stop();
  std::pair<size_t, size_t> counts;
  for (const ProfiledEvent& e : profiler.events()) ++(e.kind == ProfiledKind::span ? counts.second : counts.first);
  return counts;
}

TEST(PluginProfile, ShowsWhenWorkRanOnItsStreams) {
  in_child({}, [] {
    const auto [kernels, spans] = kernels_and_spans();
    EXPECT_EQ(kernels, 10u);
    EXPECT_EQ(spans, 10u);
  });
}

TEST(PluginProfile, WithoutTimesOfEventsHasNoSpans) {
  in_child({{"STUB_WITHOUT", "elapsed_time"}}, [] {
    const auto [kernels, spans] = kernels_and_spans();
    EXPECT_EQ(kernels, 10u);
    EXPECT_EQ(spans, 0u);
  });
}

}  // namespace
}  // namespace weft
