// Profiles of a plug-in's device, whether its events have a time or not.
#include "in_child.hpp"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/backends/backend.hpp>
#include <weft/hooks/profiler.hpp>
#include <weft/ops/loss.hpp>
#include <weft/optim/optimizers.hpp>

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::pair<size_t, size_t> kernels_and_spans() {
  load_device_plugin(stub_path);
  const Tensor x = ones({8}, {f32, "stub"});
  Profiler profiler;
  profiler.start();
  for (int i = 0; i < 10; ++i) (void)(x + x);
  profiler.stop();
  std::pair<size_t, size_t> counts;
  for (const ProfiledEvent& e : profiler.events()) {
    counts.first += e.kind == ProfiledKind::kernel;
    counts.second += e.kind == ProfiledKind::span;
  }
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

// ---- the vendor's own profiler --------------------------------------------------------------------------------------

/// The events of the stub's profiler, without line numbers.
std::string told() {
  void* const object = dlopen(stub_path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  const auto told = reinterpret_cast<const char* (*)()>(dlsym(object, "stub_told"));
  return told != nullptr ? told() : "no stub_told";
}
std::string here(const char* name, int line) { return std::string(name) + " profile_test.cpp:" + std::to_string(line); }

TEST(PluginProfile, PassesNameAndLineOfOpsToTheVendorsProfiler) {
  in_child({}, [] {
    load_device_plugin(stub_path);
    const Tensor x = ones({8}, {f32, "stub"}).requires_grad_();
    Profiler profiler;
    (void)(x * x);
    profiler.start();
    const Tensor y = exp(x);
    const int line = __LINE__ - 1;
    y.backward(ones_like(y));
    profiler.stop();
    (void)(x * x);
    const std::string text = told();
    EXPECT_THAT(text, StartsWith("initialize\nprepare\nstart\n" + here("exp", line) + "\n"));
    EXPECT_THAT(text, HasSubstr("\n" + here("exp backward", line) + "\n " + here("exp", line) + "\n"));
    EXPECT_THAT(text, EndsWith("\nstop\ncollect\n"));
    EXPECT_THAT(text, Not(HasSubstr("\nmul ")));
  });
}

TEST(PluginProfile, AnOpsPartsLieWithinIt) {
  in_child({}, [] {
    load_device_plugin(stub_path);
    const Tensor x = rand({8}).to("stub").requires_grad_();
    optim::SGD sgd({x}, {.lr = 0.1});
    Profiler profiler;
    profiler.start();
    (void)smooth_l1_loss(x, zeros_like(x));
    const int line = __LINE__ - 1;
    sum(x).backward();
    sgd.step();
    const int step = __LINE__ - 1;
    profiler.stop();
    const std::string text = told();
    EXPECT_THAT(text, HasSubstr("\n" + here("smooth_l1_loss", line) + "\n " + here("sub", line) + "\n")) << text;
    EXPECT_THAT(text, HasSubstr("\n" + here("SGD", step) + "\n ")) << text;
  });
}

TEST(PluginProfile, ShowsMeasurementsOfTheVendorsProfiler) {
  in_child({}, [] {
    load_device_plugin(stub_path);
    const Tensor x = ones({8}, {f32, "stub:1"});
    Profiler profiler;
    synchronize(x.device());
    for (int run = 0; run < 2; ++run) {
      profiler.start();
      for (int i = 0; i < 3; ++i) (void)exp(x);
      profiler.stop();
      std::vector<ProfiledEvent> measured;
      int stream = -2;
      for (const ProfiledEvent& e : profiler.events()) {
        if (e.kind == ProfiledKind::measured) measured.push_back(e);
        if (e.kind == ProfiledKind::span) stream = e.stream;
      }
      ASSERT_EQ(measured.size(), 3u);
      int64_t last = 0;
      for (const ProfiledEvent& e : measured) {
        EXPECT_EQ(e.op, "stub_unary");
        EXPECT_EQ(e.device, Device("stub:1"));
        EXPECT_EQ(e.stream, stream);
        EXPECT_GE(e.begin, last);
        EXPECT_GE(e.end, e.begin);
        last = e.end;
      }
    }
    EXPECT_THAT(profiler.chrome_trace(), AllOf(HasSubstr("stub:1, measured by its vendor"), HasSubstr("stub_unary")));
  });
}

TEST(PluginProfile, ASpanEndsAlthoughItsOpFails) {
  in_child({{"STUB_FAIL", "run_kernel:77:2"}}, [] {
    load_device_plugin(stub_path);
    const Tensor x = ones({8}, {f32, "stub"});
    Profiler profiler;
    profiler.start();
    (void)exp(x);
    EXPECT_THROW(log(x), DeviceError);
    EXPECT_THROW(sin(x), DeviceError);
    profiler.stop();  // the stub refuses to stop within a span
    EXPECT_THAT(told(), AllOf(HasSubstr("\nexp "), HasSubstr("\nlog "), HasSubstr("\nsin ")));
  });
}

TEST(PluginProfile, AVendorsProfilerThatFailsIsADeviceError) {
  const auto fails = [](const char* fault, const char* words) {
    in_child({{"STUB_FAIL", fault}}, [=] {
      load_device_plugin(stub_path);
      for (int run = 0; run < 2; ++run) {
        Profiler profiler;
        try {
          profiler.start();
          profiler.stop();
          ADD_FAILURE() << "it went well";
        } catch (const DeviceError& error) {
          EXPECT_THAT(error.what(), HasSubstr(words));
        }
      }
    });
  };
  fails("profiler_initialize:77", "profiler.initialize failed on stub with code 77 (the stub was told to fail)");
  fails("profiler_start:77", "profiler.start failed on stub with code 77");
  fails("profiler_collect:77", "profiler.collect failed on stub with code 77");
  in_child({{"STUB_GARBAGE", "backward_span"}}, [] {
    load_device_plugin(stub_path);
    Profiler profiler;
    profiler.start();
    EXPECT_THROW(profiler.stop(), DeviceError);
  });
}

TEST(PluginProfile, AnOlderPluginGetsNoSpans) {
  in_child({{"STUB_GARBAGE", "old_minor"}}, [] {
    load_device_plugin(stub_path);
    const Tensor x = ones({8}, {f32, "stub"});
    Profiler profiler;
    profiler.start();
    (void)exp(x);
    profiler.stop();
    EXPECT_EQ(told(), "initialize\nprepare\nstart\nstop\ncollect\n");
  });
  in_child({{"STUB_GARBAGE", "profiler_size"}}, [] { EXPECT_THROW(load_device_plugin(stub_path), DeviceError); });
}

TEST(PluginProfile, AForkedChildReportsNothing) {
  in_child({}, [] {
    load_device_plugin(stub_path);
    const Tensor x = ones({8}, {f32, "stub"});
    synchronize(x.device());
    Profiler profiler;
    profiler.start();
    const pid_t child = fork();
    if (child == 0) {
      const Tensor y = ones({8}).requires_grad_();
      sum(exp(y)).backward();
      EXPECT_THROW(exp(x), DeviceError);
      profiler.stop();
      std::_Exit(tell_failures());
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    profiler.stop();
    EXPECT_EQ(told(), "initialize\nprepare\nstart\nstop\ncollect\n");
  });
}

TEST(PluginProfile, MayStillRunAtTheProgramsEnd) {
  in_child({}, [] {
    load_device_plugin(stub_path);
    static Profiler profiler;
    profiler.start();
    (void)exp(ones({8}, {f32, "stub"}));
  });
}

}  // namespace
}  // namespace weft
