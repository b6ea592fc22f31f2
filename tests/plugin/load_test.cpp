// Loading of plug-ins: names, versions, and errors.
#include "in_child.hpp"

#include <algorithm>
#include <filesystem>

#include "../message_of.hpp"
#include "../temporary_folder.hpp"

namespace weft {
namespace {

using ::testing::HasSubstr;

std::string load_error(const std::string& path) {
  return message_of<DeviceError>([&] { load_device_plugin(path); });
}

TEST(LoadPlugin, BringsAKindOfDeviceByName) {
  in_child({}, [] {
    EXPECT_THROW(Device("stub"), DeviceError);
    const DeviceType kind = load_device_plugin(stub_path);
    EXPECT_EQ(Device("stub:1"), Device(kind, 1));
    EXPECT_EQ(Device(kind, 1).name(), "stub:1");
    EXPECT_EQ(device_count(kind), 2);
    EXPECT_EQ(plugin_path(kind), stub_path);
    EXPECT_EQ(plugin_path(DeviceType::cpu), "");
    EXPECT_THAT(find_backend(kind)->describe(0), HasSubstr("Stub of host memory, driver 7, 4.0 GiB"));
    EXPECT_THAT(message_of<DeviceError>([] { ones({2}, {f32, "stub:2"}); }), HasSubstr("there are stub:0 to stub:1"));
    const std::vector<DeviceType> kinds = device_kinds();
    EXPECT_EQ(std::count(kinds.begin(), kinds.end(), kind), 1);
    const Tensor x = arange(0, 5).to("stub");
    EXPECT_EQ((x * x + 1).to("cpu").to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 5, 10, 17}));
  });
}

TEST(LoadPlugin, TheSameObjectTwiceDoesNothing) {
  in_child({}, [] {
    const DeviceType kind = load_device_plugin(stub_path);
    const Tensor x = ones({3}, {f32, "stub"});
    TemporaryFolder folder;
    std::filesystem::create_symlink(stub_path, folder / "link.so");
    EXPECT_EQ(load_device_plugin(stub_path), kind);
    EXPECT_EQ(load_device_plugin((folder / "link.so").string()), kind);
    EXPECT_EQ(sum(x).item<float>(), 3);
  });
}

TEST(LoadPlugin, TwoObjectsOfOneKindAreRefusedByBothNames) {
  in_child({}, [] {
    TemporaryFolder folder;
    const std::string copy = (folder / "copy.so").string();
    std::filesystem::copy_file(stub_path, copy);
    load_device_plugin(stub_path);
    const std::string text = load_error(copy);
    EXPECT_THAT(text, HasSubstr("two plug-ins bring the kind stub"));
    EXPECT_THAT(text, HasSubstr(stub_path));
    EXPECT_THAT(text, HasSubstr(copy));
    EXPECT_EQ(sum(ones({3}, {f32, "stub"})).item<float>(), 3);
  });
}

TEST(LoadPlugin, SeveralKindsLiveBesideThoseBuiltIn) {
  in_child({}, [] {
    load_device_plugin(stub_path);
    load_device_plugin(stub2_path);
    std::vector<Device> devices = {"stub:0", "stub:1", "stub2:0", "cpu"};
    if (device_count(DeviceType::hpu) > 0) devices.emplace_back("hpu");
    const Tensor expected = arange(0, 1000).to(f32);
    for (const Device from : devices) {
      for (const Device to : devices) {
        SCOPED_TRACE(from.name() + " to " + to.name());
        const Tensor x = expected.to(from), y = (x * 2).to(to);
        EXPECT_EQ((y / 2).to("cpu").to_vector<float>(), expected.to_vector<float>());
      }
    }
    EXPECT_THAT(message_of<DeviceError>([] {
                  ones({2}, {f32, "stub"}) + ones({2}, {f32, "stub2"});
                }),
                HasSubstr("operands are on different devices"));
    // Streams of two kinds wait for each other.
    const Stream one(Device("stub")), two(Device("stub2"));
    two.wait_stream(one);
    one.wait_stream(two);
    one.synchronize();
  });
}

TEST(LoadPlugin, TheEnvironmentsAreLoadedWhenAKindIsLookedFor) {
  const std::string both = stub_path + ":" + stub2_path;
  in_child({{"WEFT_PLUGINS", both.c_str()}}, [] {
    EXPECT_EQ(sum(ones({3}, {f32, "stub2"})).item<float>(), 3);
    EXPECT_EQ(Device("stub").name(), "stub:0");
  });
  in_child({{"WEFT_PLUGINS", both.c_str()}}, [] { EXPECT_EQ(device_kinds().size(), 6u); });
  in_child({{"WEFT_PLUGINS", "/nowhere/none.so"}}, [] {
    EXPECT_EQ(Device("cpu"), Device());  // a program that asks for no other device never hears of it
    EXPECT_EQ(devices_with_generators().size(), 3u);
    EXPECT_FALSE(ones({1000}).is_pinned());
    for (int i = 0; i < 2; ++i) {
      EXPECT_THAT(message_of<DeviceError>([] { Device("stub"); }), HasSubstr("/nowhere/none.so"));
    }
  });
}

TEST(LoadPlugin, RejectsLibrariesThatAreNoPlugin) {
  in_child({}, [] {
    EXPECT_THAT(load_error("/nowhere/none.so"), HasSubstr("cannot load the plug-in /nowhere/none.so"));
    EXPECT_THAT(load_error("libm.so.6"), HasSubstr("exports no weft_plugin_init"));
    EXPECT_THAT(load_error(WEFT_SOURCE_DIR "/README.md"), HasSubstr("cannot load"));
    EXPECT_THAT(message_of<DeviceError>([] { Device("stub"); }),
                HasSubstr("use one of cpu, cuda[:index], hpu[:index]"));
  });
}

TEST(LoadPlugin, AnotherMajorOrANewerMinorVersionIsRefused) {
  in_child({{"STUB_GARBAGE", "major"}}, [] {
    EXPECT_THAT(load_error(stub_path), HasSubstr("was written for version 3.2 of the plug-in interface"));
  });
  in_child({{"STUB_GARBAGE", "new_minor"}}, [] {
    EXPECT_THAT(load_error(stub_path), HasSubstr("was written for version 2.3 of the plug-in interface"));
    EXPECT_THROW(Device("stub"), DeviceError);
  });
}

TEST(LoadPlugin, AnOlderMinorVersionLacksTheEntriesAtTheEnd) {
  in_child({{"STUB_GARBAGE", "old_minor"}}, [] {
    load_device_plugin(stub_path);
    EXPECT_EQ(sum(ones({3}, {f32, "stub"})).item<float>(), 3);
    Event begin({.timing = true}), end({.timing = true});
    begin.record(default_stream("stub"));
    end.record(default_stream("stub"));
    EXPECT_THAT(message_of<NotImplementedError>([&] { begin.elapsed_time(end); }), HasSubstr("has no elapsed_time"));
  });
}

TEST(LoadPlugin, InvalidFilesRaiseDeviceErrorWithAReason) {
  const std::pair<const char*, const char*> cases[] = {
      {"struct_size", "params.struct_size: expected"},
      {"table_size", "got 8"},
      {"built_in_kind", "the kind hpu, which is built in"},
      {"bad_kind", "names no kind of device"},
      {"no_kind", "names no kind of device"},
      {"init_fails", "stub.so with code 42"},
      {"init_throws", "threw an exception: no"},
      {"minus_devices", "gave -3 devices"},
      {"million_devices", "gave 1000000 devices"},
      {"same_devices", "gave 10, below 0 or twice"},
      {"crooked_chunks", "min_chunk_size of stub:0 gave 48, which is no power of two"},
      {"no_chunks", "min_chunk_size of stub:0 gave 0"},
      {"absurd_padding", "extra_padding_size of stub:0 gave 18446744073709551615"},
  };
  for (const auto& [garbage, words] : cases) {
    SCOPED_TRACE(garbage);
    in_child({{"STUB_GARBAGE", garbage}}, [words = words] {
      EXPECT_THAT(load_error(stub_path), HasSubstr(words));
      EXPECT_THROW(Device("stub"), DeviceError);
      EXPECT_EQ(sum(ones({3})).item<float>(), 3);
    });
  }
}

TEST(LoadPlugin, RequiredEntriesThatAreNullAreNamed) {
  in_child({{"STUB_WITHOUT", "finalize,create_stream,h2d"}},
           [] { EXPECT_THAT(load_error(stub_path), HasSubstr("has no finalize, create_stream, h2d in its table")); });
  in_child({{"STUB_WITHOUT", "run_kernel"}},
           [] { EXPECT_THAT(load_error(stub_path), HasSubstr("has no run_kernel")); });
  in_child({{"STUB_WITHOUT", "pinned_host_free"}},
           [] { EXPECT_THAT(load_error(stub_path), HasSubstr("has no pinned_host_free")); });
}

TEST(LoadPlugin, FailuresWhileItIsLoadedAreDeviceErrors) {
  for (const char* entry : {"initialize", "get_device_count", "get_device_list", "min_chunk_size"}) {
    SCOPED_TRACE(entry);
    const std::string fail = std::string(entry) + ":77";
    in_child({{"STUB_FAIL", fail.c_str()}}, [&] {
      EXPECT_THAT(load_error(stub_path), HasSubstr(std::string(entry) + " failed on stub"));
      EXPECT_THAT(load_error(stub_path), HasSubstr("with code 77 (the stub was told to fail)"));
    });
    in_child({{"STUB_THROW", fail.c_str()}},
             [&] { EXPECT_THAT(load_error(stub_path), HasSubstr("threw an exception: thrown on purpose")); });
  }
  in_child({{"STUB_THROW", "has_kernel:1:5"}},
           [] { EXPECT_THAT(load_error(stub_path), HasSubstr("has_kernel of stub")); });
}

TEST(LoadPlugin, NoDeviceIsNoError) {
  in_child({{"STUB_DEVICES", "0"}}, [] {
    const DeviceType kind = load_device_plugin(stub_path);
    EXPECT_EQ(device_count(kind), 0);
    EXPECT_THAT(why_no_device(kind), HasSubstr(stub_path));
    EXPECT_THROW(ones({2}, {f32, kind}), DeviceError);
  });
}

TEST(LoadPlugin, CollectivesThatAreNotThereAreNotImplemented) {
  in_child({}, [] {
    size_t bytes = 0;
    EXPECT_EQ(collectives_of(load_device_plugin(stub_path)).unique_id_size(&bytes), WEFT_OK);
    EXPECT_EQ(bytes, 128u);
    EXPECT_THROW(collectives_of(DeviceType::cpu), DeviceError);
  });
  in_child({{"STUB_WITHOUT", "collectives"}}, [] {
    const DeviceType kind = load_device_plugin(stub_path);
    EXPECT_THAT(message_of<NotImplementedError>([&] { collectives_of(kind); }), HasSubstr("stub has no collectives"));
  });
}

}  // namespace
}  // namespace weft
