// Guarantees for plug-ins, and behaviour of devices with few functions or failures. The stub ends the process if the
// host breaks a rule.
#include "in_child.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include <weft/backends/watch/observe.hpp>

#include "../message_of.hpp"

namespace weft {
namespace {

using ::testing::HasSubstr;

/// Ends a child without the plug-in's end.
[[noreturn]] void leave() { std::_Exit(tell_failures()); }

// Made before a plug-in is loaded, so that it goes after the plug-in's end.
Tensor survivor, pinned_survivor;

TEST(PluginLife, ATensorFreedAfterFinalizeDoesNotCallThePlugin) {
  in_child({}, [] {
    static const struct Late {
      ~Late() {
        survivor = Tensor();
        pinned_survivor = Tensor();
      }
    } late;
    load_device_plugin(stub_path);
    survivor = ones({1000}, {f32, "stub:1"});
    pinned_survivor = ones({1000}).pin_memory();
    static Stream stream(Device("stub"));
    static Event event = stream.record_event();
    survivor.add_(1);
  });
}

TEST(PluginLife, WorkThatIsQueuedAtTheEndIsDrainedFirst) {
  in_child({{"STUB_LAZY", "1"}}, [] {
    load_device_plugin(stub_path);
    Tensor x = ones({1000}, {f32, "stub"});
    for (int i = 0; i < 20; ++i) x = x * 1.5;
  });
}

TEST(PluginLife, AChildOfForkLeavesTheEndToItsParent) {
  in_child({}, [] {
    load_device_plugin(stub_path);
    const Tensor x = ones({10}, {f32, "stub"});
    const pid_t child = ::fork();
    if (child == 0) std::exit(7);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    EXPECT_EQ(sum(x).item<float>(), 10);
  });
}

TEST(PluginLife, ADeviceIsInitialisedWhenItIsFirstUsed) {
  in_child({{"STUB_FAIL", "init_device:77"}}, [] {
    load_device_plugin(stub_path);
    EXPECT_THAT(message_of<DeviceError>([] {
                  ones({2}, {f32, "stub:1"});
                }),
                HasSubstr("init_device failed on stub:1 with code 77"));
    EXPECT_EQ(sum(ones({2})).item<float>(), 2);
  });
}

// Prior art: selecting a second device silently released the first, and memory always came from device 0.
TEST(PluginDevice, EachThreadSelectsForItselfAndReleasesNoOther) {
  in_child({{"STUB_DEVICES", "4"}}, [] {
    load_device_plugin(stub_path);
    const Tensor first = full({1000}, 7, {f32, "stub:0"});
    std::vector<std::thread> threads;
    std::atomic<int> right = 0;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 25; ++i) {
          const Device here(first.device().type, (t + i) % 4), there(first.device().type, (t + i + 1) % 4);
          const Tensor a = full({100 + i}, t + 1, {f32, here}), b = full({100 + i}, 2, {f32, there});
          const Tensor c = a * b.to(here);
          right += sum(c).item<float>() == static_cast<float>(2 * (t + 1) * (100 + i)) ? 1 : 0;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(right, 100);
    EXPECT_EQ(sum(first).item<float>(), 7000);
    // Memory of each device is its own.
    for (int i = 0; i < 4; ++i) {
      const Device device(first.device().type, i);
      empty_cache(device);
      const size_t free = memory_stats(device).free;
      const Tensor big = zeros({1 << 20}, {f32, device});
      EXPECT_EQ(memory_stats(device).free, free - (4u << 20)) << device;
    }
  });
}

TEST(PluginDevice, ASelectionThatDoesNothingIsFound) {
  in_child({{"STUB_GARBAGE", "set_device_does_nothing"}}, [] {
    load_device_plugin(stub_path);
    EXPECT_THAT(message_of<DeviceError>([] {
                  ones({2}, {f32, "stub"});
                }),
                HasSubstr("selected the wrong device: expected 10, got -1"));
    leave();  // its end needs a selection, too
  });
}

TEST(PluginDevice, MemoryTravelsBetweenThemWithAndWithoutP2p) {
  for (const char* without : {"", "p2p", "p2p,async_h2d,async_d2h"}) {
    in_child({{"STUB_WITHOUT", without}}, [] {
      load_device_plugin(stub_path);
      const Tensor x = arange(0, 100000).to("stub:0").to("stub:1") + 1;
      EXPECT_EQ(sum(x.to("stub:0")).item<int64_t>(), int64_t{100000} * 100001 / 2);
    });
  }
}

// Prior art: an alignment of 1 was reported.
TEST(PluginMemory, EveryAddressIsAMultipleOfMinChunkSize) {
  for (const char* alignment : {"1", "256", "4096", "65536"}) {
    in_child({{"STUB_ALIGN", alignment}}, [&] {
      load_device_plugin(stub_path);
      std::vector<Tensor> tensors;
      for (int64_t bytes = 1; bytes < 300000; bytes = bytes * 3 / 2 + 1) {
        tensors.push_back(full({bytes}, 3, {u8, "stub"}));
        const auto address = reinterpret_cast<uintptr_t>(tensors.back().data_ptr());
        EXPECT_EQ(address % std::stoul(alignment), 0u) << bytes;
      }
      for (const Tensor& t : tensors) EXPECT_EQ(sum(t).item<int64_t>(), 3 * t.numel());
    });
  }
}

TEST(PluginMemory, EveryTensorHasPadding) {
  in_child({{"STUB_PADDING", "1000"}, {"WEFT_STUB_SYNC", "1"}}, [] {
    load_device_plugin(stub_path);
    const size_t free = memory_stats("stub").free;
    const Tensor x = full({64}, 1, {u8, "stub"});
    EXPECT_GE(free - memory_stats("stub").free, 1064u);
    EXPECT_EQ(memory_stats("stub").allocated, 64u);
  });
}

TEST(PluginMemory, ARequestBeyondMaxChunkSizeIsOutOfMemory) {
  in_child({{"STUB_MAX_CHUNK", "300000"}}, [] {
    load_device_plugin(stub_path);
    for (int64_t bytes : {1, 5000, 70000, 299968}) EXPECT_EQ(sum(ones({bytes}, {u8, "stub"})).item<int64_t>(), bytes);
    EXPECT_THROW(zeros({300001}, {u8, "stub"}), OutOfMemoryError);
    EXPECT_EQ(sum(ones({299968}, {u8, "stub"})).item<int64_t>(), 299968);
  });
}

TEST(PluginMemory, ExhaustionRaisesAndTheDeviceStaysUsable) {
  in_child({{"STUB_MEM_MB", "64"}}, [] {
    load_device_plugin(stub_path);
    EXPECT_THROW(zeros({100 << 20}, {u8, "stub"}), OutOfMemoryError);
    for (int i = 0; i < 10; ++i) {  // what is cached is given back for blocks of other sizes
      EXPECT_EQ(sum(ones({(10 + i) << 18}, {f32, "stub"})).item<float>(), static_cast<float>((10 + i) << 18));
    }
  });
}

TEST(PluginMemory, GarbageFromTheAllocatorIsADeviceError) {
  in_child({{"STUB_GARBAGE", "crooked_memory"}}, [] {
    load_device_plugin(stub_path);
    EXPECT_THAT(message_of<DeviceError>([] { ones({2}, {f32, "stub"}); }), HasSubstr("no multiple of 64"));
  });
  in_child({{"STUB_GARBAGE", "null_stream"}}, [] {
    load_device_plugin(stub_path);
    EXPECT_THAT(message_of<DeviceError>([] {
                  ones({2}, {f32, "stub"});
                }),
                HasSubstr("create_stream of stub:0 gave a null"));
  });
}

TEST(PluginMemory, AllocationOf0BytesNeverReachesThePlugin) {
  in_child({}, [] {
    load_device_plugin(stub_path);
    const Tensor nothing = zeros({0, 3}, {f32, "stub"});
    EXPECT_EQ((nothing + 1).to("cpu").numel(), 0);
    Backend& backend = *find_backend(nothing.device().type);
    backend.upload(0, nullptr, nullptr, 0);
    backend.download(0, nullptr, nullptr, 0);
    backend.copy(0, nullptr, 1, nullptr, 0);
  });
}

// Prior art: one staging buffer was overwritten by the next copy.
TEST(PluginCopies, ASourceMayBeReusedAtOnce) {
  for (const char* without : {"", "async_h2d", "pinned_host_alloc,pinned_host_free"}) {
    in_child({{"STUB_LAZY", "1"}, {"STUB_WITHOUT", without}}, [] {
      load_device_plugin(stub_path);
      constexpr int count = 64;
      std::vector<Tensor> targets;
      std::vector<unsigned char> source;
      for (int i = 0; i < count; ++i) {
        const int bytes = 1 + i * i * 401;
        targets.push_back(empty({bytes}, {u8, "stub"}));
        source.assign(static_cast<size_t>(bytes), static_cast<unsigned char>(i + 1));
        find_backend(targets[0].device().type)->upload(0, targets.back().data_ptr(), source.data(), source.size());
        source.assign(source.size(), 0xEE);
      }
      for (int i = 0; i < count; ++i) {
        const Tensor back = targets[static_cast<size_t>(i)].to("cpu");
        ASSERT_TRUE(all(back == i + 1).item<bool>()) << i;
      }
    });
  }
}

TEST(PluginErrors, ACodeIsADeviceErrorWithFunctionCodeAndDevice) {
  const std::pair<const char*, const char*> cases[] = {
      {"device_alloc:77", "device_alloc failed on stub:1 with code 77 (the stub was told to fail)"},
      {"create_stream:5", "create_stream failed on stub:1 with code 5"},
      {"run_kernel:77:1", "run_kernel failed on stub:1 with code 77"},
      {"run_kernel:-1000", "run_kernel failed on stub:1 with code -1000"},
      {"synchronize_stream:77", "synchronize_stream failed on stub:1 with code 77"},
      {"async_copy:77", "async_h2d failed on stub:1 with code 77"},
  };
  for (const auto& [fail, words] : cases) {
    SCOPED_TRACE(fail);
    in_child({{"STUB_FAIL", fail}}, [words = words] {
      load_device_plugin(stub_path);
      const std::string text = message_of<DeviceError>([] {
        const Tensor x = arange(0, 10).to("stub:1");
        (x * 2 + x).to("cpu");
      });
      EXPECT_THAT(text, HasSubstr(words));
      EXPECT_EQ(sum(ones({3})).item<float>(), 3);
      leave();  // a device that fails is not cleaned up
    });
  }
}

TEST(PluginErrors, AnExceptionIsADeviceError) {
  for (const char* entry : {"device_alloc:1", "run_kernel:1", "synchronize_stream:1", "async_copy:1"}) {
    SCOPED_TRACE(entry);
    in_child({{"STUB_THROW", entry}}, [] {
      load_device_plugin(stub_path);
      EXPECT_THAT(message_of<DeviceError>([] { (arange(0, 10).to("stub") * 2).to("cpu"); }),
                  HasSubstr("threw an exception: thrown on purpose"));
      leave();
    });
  }
}

TEST(PluginErrors, ADeviceThatIsLostRaisesAtEveryCallAndNeverHangs) {
  for (const char* after : {"any:77:20", "any:77:60", "any:77:100"}) {
    SCOPED_TRACE(after);
    in_child({{"STUB_FAIL", after}}, [] {
      int errors = 0;
      for (int i = 0; i < 200; ++i) {
        try {
          load_device_plugin(stub_path);
          const Tensor x = ones({100}, {f32, "stub"});
          (x + x).to("cpu");
        } catch (const DeviceError&) {
          ++errors;
        } catch (const OutOfMemoryError&) {
          ADD_FAILURE() << "lost is not out of memory";
        }
      }
      EXPECT_GT(errors, 50);
    });
  }
}

TEST(PluginErrors, AKernelsErrorIsRaisedAtTheNextWaitWithItsOpAndLine) {
  in_child({}, [] {
    load_device_plugin(stub_path);
    const Tensor x = arange(0, 10).to("stub"), bad = tensor(std::vector<int64_t>{1, 99}).to("stub");
    synchronize("stub");
    const int line = __LINE__ + 1;
    const Tensor y = index_select(x, 0, bad);
    const std::string text = message_of<IndexError>([] { synchronize("stub"); });
    EXPECT_THAT(text, HasSubstr("[index_select] index 99 is out of range for axis 0 of size 10"));
    EXPECT_THAT(text, HasSubstr("device_rules_test.cpp:" + std::to_string(line)));
    synchronize("stub");
    EXPECT_EQ(sum(x).item<int64_t>(), 45);
    const Tensor f8 = zeros({3}, {f8_e5m2, "stub"});
    EXPECT_THROW((f8 + f8).to("cpu"), DTypeError);
  });
}

TEST(PluginKernels, WithoutOneTheCompositeBodyRunsOrTheErrorNamesTheOp) {
  in_child({{"STUB_KERNELS", "none"}}, [] {
    load_device_plugin(stub_path);
    const Tensor x = full({3, 4}, 2, {f32, "stub"});
    EXPECT_EQ(x.to("cpu").to_vector<float>(), std::vector<float>(12, 2));
    EXPECT_EQ(x.clone().to("cpu").to_vector<float>(), std::vector<float>(12, 2));
    const std::string text = message_of<NotImplementedError>([&] { x + x; });
    EXPECT_THAT(text, HasSubstr("[add] there is no kernel for stub:0"));
    EXPECT_THAT(text, HasSubstr("move the tensors to cpu"));
    EXPECT_THAT(message_of<NotImplementedError>([&] { x.t().contiguous(); }), HasSubstr("kernel copy for stub:0"));
  });
  in_child({{"STUB_KERNELS", "unary,binary,compare,reduce,copy,fill,matmul,where,ternary"}}, [] {
    load_device_plugin(stub_path);
    const Tensor q = randn({1, 2, 5, 8}), on = q.to("stub");
    const Tensor expected = scaled_dot_product_attention(q, q, q),
                 actual = scaled_dot_product_attention(on, on, on).to("cpu");
    EXPECT_TRUE(allclose(actual, expected));
  });
}

TEST(PluginKernels, ACallNamesItsArgumentsAndTheirPositions) {
  in_child({}, [] {
    load_device_plugin(stub_path);
    // Every slot, through the host's compute: the parts go there and come back.
    const Tensor x = randn({4, 6}), y = x.to("stub");
    EXPECT_TRUE(allclose(cumsum(y, 1).to("cpu"), cumsum(x, 1)));
    EXPECT_TRUE(allclose(softmax(y, 0).to("cpu"), softmax(x, 0)));
    EXPECT_EQ(count_nonzero(y > 0).to("cpu").item<int64_t>(), count_nonzero(x > 0).item<int64_t>());
    EXPECT_TRUE(allclose(max_pool2d(y.view({1, 1, 4, 6}), {2, 2}).to("cpu"), max_pool2d(x.view({1, 1, 4, 6}), {2, 2})));
    const Tensor w = randn({3, 1, 2, 2});
    EXPECT_TRUE(allclose(conv2d(y.view({1, 1, 4, 6}), w.to("stub")).to("cpu"), conv2d(x.view({1, 1, 4, 6}), w)));
    manual_seed(3);
    const Tensor drawn = randn({50}, {f32, "stub"});
    manual_seed(3);
    EXPECT_EQ(drawn.to("cpu").to_vector<float>(), randn({50}).to_vector<float>());
  });
}

// An absent first view names the CPU; the call is the device's all the same.
TEST(PluginKernels, RunUnderAnObserverWithOptionalFunctionsMissing) {
  in_child({{"STUB_LAZY", "1"}}, [] {
    load_device_plugin(stub_path);
    struct Devices : KernelObserver {
      void after(const KernelCall& call) override { seen.push_back(call.device.name() + " " + call.kernel); }
      std::vector<std::string> seen;
    } observer;
    const Tensor x = randn({4, 6}), there = x.to("stub");
    const Tensor weight = ones({6}).requires_grad_(), far = ones({6}, {f32, "stub"}).requires_grad_();
    sum(square(layer_norm(x, {6}, weight))).backward();
    {
      const ObserverGuard guard(observer);
      sum(square(layer_norm(there, {6}, far))).backward();
      EXPECT_TRUE(allclose(far.grad().to("cpu"), weight.grad()));
    }
    EXPECT_THAT(observer.seen, ::testing::Contains("stub:0 layer_norm_gradient"));
  });
}

TEST(PluginKernels, AnOptimizerOfManyParametersIsOneCall) {
  in_child({}, [] {
    load_device_plugin(stub_path);
    std::vector<Tensor> here, there;
    for (int i = 0; i < 12; ++i) {
      here.push_back(randn({3, i + 1}).requires_grad_());
      there.push_back(here.back().detach().to("stub").requires_grad_());
    }
    optim::AdamW a(here, {.lr = 0.1}), b(there, {.lr = 0.1});
    for (int step = 0; step < 3; ++step) {
      for (size_t i = 0; i < here.size(); ++i) {
        sum(square(here[i])).backward();
        sum(square(there[i])).backward();
      }
      a.step(), b.step();
      a.zero_grad(), b.zero_grad();
    }
    for (size_t i = 0; i < here.size(); ++i) EXPECT_TRUE(allclose(there[i].detach().to("cpu"), here[i].detach()));
  });
}

// The stub refuses a launch with other layouts, attributes or aliases than those of its recipe.
TEST(PluginRecipes, AreFoundByAllThatTheyDependOnAndDestroyedAfterTheirLastLaunch) {
  for (const char* mode : {"1", "2"}) {
    in_child({{"STUB_RECIPES", mode}, {"WEFT_RECIPE_CACHE", "8"}, {"STUB_LAZY", "1"}}, [] {
      load_device_plugin(stub_path);
      const Tensor x = arange(0, 24).to(f32).to("stub"), y = x * 2;
      for (int round = 0; round < 3; ++round) {
        EXPECT_EQ(sum(x + y).item<float>(), 828);
        EXPECT_EQ(sum(x + x).item<float>(), 552);  // one tensor twice is another program
        EXPECT_EQ(sum(x.view({4, 6}), {0}).to("cpu").numel(), 6);
        EXPECT_EQ(sum(x.view({2, 12}), {0}).to("cpu").numel(), 12);
        for (const DType index : {i32, i64}) {
          const Tensor at = tensor(std::vector<int64_t>{3, 1}).to(index).to("stub");
          EXPECT_EQ(index_select(x, 0, at).to("cpu").to_vector<float>(), (std::vector<float>{3, 1}));
        }
        EXPECT_EQ(cumsum(x.view({4, 6}), 1, round == 1).to("cpu").numel(), 24);
        EXPECT_EQ((full({1}, 2, {f32, "stub"}) + full({}, 1, {f32, "stub"})).item<float>(), 3);
      }
    });
  }
  in_child({{"STUB_RECIPES", "1"}, {"STUB_FAIL", "compile:77"}}, [] {
    load_device_plugin(stub_path);
    const std::string text = message_of<DeviceError>([] { arange(0, 3).to("stub") + 1; });
    EXPECT_THAT(text, HasSubstr("recipes.compile failed on stub:0 with code 77"));
    EXPECT_THAT(text, HasSubstr("add"));
  });
}

TEST(PluginRandom, ManualSeedAndGeneratorsKnowTheKind) {
  in_child({}, [] {
    const Device stub(load_device_plugin(stub_path));
    manual_seed(11);
    const std::vector<float> first = rand({20}, {f32, stub}).to("cpu").to_vector<float>();
    manual_seed(11);
    EXPECT_EQ(rand({20}, {f32, stub}).to("cpu").to_vector<float>(), first);
    const std::vector<Device> devices = devices_with_generators();
    EXPECT_NE(std::find(devices.begin(), devices.end(), stub), devices.end());
  });
}

TEST(PluginStreams, WorkWithoutOptionalFunctions) {
  in_child({{"STUB_WITHOUT", "query_event,add_callback,query_stream,elapsed_time"}}, [] {
    load_device_plugin(stub_path);
    const Stream side(Device("stub"));
    Tensor x;
    {
      const StreamGuard guard(side);
      x = full({100000}, 2, {f32, "stub"}) * 3;
    }
    default_stream("stub").wait_stream(side);
    EXPECT_EQ(sum(x).item<float>(), 600000);
    int calls = 0;
    side.call([&] { ++calls; });
    side.call([] { throw ValueError("from the host"); });
    EXPECT_EQ(calls, 1);
    EXPECT_THROW(side.synchronize(), ValueError);
    const Event event = side.record_event();
    EXPECT_TRUE(event.query());
    EXPECT_TRUE(side.query());
  });
}

}  // namespace
}  // namespace weft
