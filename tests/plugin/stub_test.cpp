// The stub finds errors of the host: otherwise tests on it could not fail.
#include "in_child.hpp"

#include <dlfcn.h>

#include <functional>

namespace weft {
namespace {

/// The stub without Weft around it, with one device initialised and selected.
struct Bare {
  static constexpr int32_t device = 10;
  WeftDeviceInterface table = {};
  WeftHost host = {};
  WeftStream stream = nullptr;

  Bare() {
    void* const object = dlopen(stub_path.c_str(), RTLD_NOW | RTLD_LOCAL);
    const auto init = reinterpret_cast<decltype(&weft_plugin_init)>(dlsym(object, "weft_plugin_init"));
    WeftPluginParams params = {};
    params.table = &table;
    params.host = &host;
    if (init(&params) != WEFT_OK || table.initialize() != WEFT_OK) std::abort();
    table.init_device(device);
    table.set_device(device);
    table.create_stream(device, &stream);
  }
};

void dies_with(const char* words, const std::function<void(Bare&)>& misuse) {
  SCOPED_TRACE(words);
  EXPECT_DEATH(
      {
        Bare bare;
        misuse(bare);
        bare.table.synchronize_stream(Bare::device, bare.stream);
      },
      words);
}

TEST(Stub, FindsFaultsOfTheHost) {
  constexpr int32_t d = Bare::device;
  char host[64] = {};
  dies_with("a stream was used that is destroyed", [](Bare& b) {
    b.table.destroy_stream(d, b.stream);
    b.table.query_stream(d, b.stream);
  });
  dies_with("an event was used that is destroyed", [](Bare& b) {
    WeftEvent event = nullptr;
    b.table.create_event(d, &event);
    b.table.record_event(d, b.stream, event);
    b.table.destroy_event(d, event);
    b.table.query_event(d, event);
  });
  dies_with("memory was freed that was not given out", [](Bare& b) {
    void* data = nullptr;
    b.table.device_alloc(d, &data, 64);
    b.table.device_free(d, data, 64);
    b.table.device_free(d, data, 64);
  });
  dies_with("freed with another size", [](Bare& b) {
    void* data = nullptr;
    b.table.device_alloc(d, &data, 128);
    b.table.device_free(d, data, 64);
  });
  dies_with("memory of 0 bytes", [](Bare& b) {
    void* data = nullptr;
    b.table.device_alloc(d, &data, 0);
  });
  dies_with("a copy goes where no memory of the device is", [&](Bare& b) {
    void* data = nullptr;
    b.table.device_alloc(d, &data, 64);
    b.table.async_h2d(d, b.stream, static_cast<char*>(data) + 32, host, 64);
  });
  dies_with("had not selected the device", [](Bare& b) {
    b.table.init_device(d + 1);
    void* data = nullptr;
    b.table.device_alloc(d + 1, &data, 64);
  });
  dies_with("used before init_device", [](Bare& b) {
    b.table.set_device(d + 1);
    void* data = nullptr;
    b.table.device_alloc(d + 1, &data, 64);
  });
  dies_with("finalize came before destroy_stream", [](Bare& b) { b.table.finalize(); });
  dies_with("was called after finalize", [](Bare& b) {
    b.table.destroy_stream(d, b.stream);
    b.table.deinit_device(d);
    b.table.finalize();
    b.table.get_device_count(nullptr);
  });
}

TEST(Stub, PoisonsMemoryAndRunsWorkLate) {
  in_child({{"STUB_LAZY", "1"}}, [] {
    Bare b;
    void* data = nullptr;
    b.table.device_alloc(Bare::device, &data, 64);
    EXPECT_EQ(static_cast<unsigned char*>(data)[63], 0xFF);
    b.table.memory_set(Bare::device, b.stream, data, 3, 64);
    EXPECT_EQ(b.table.query_stream(Bare::device, b.stream), WEFT_NOT_READY);
    EXPECT_EQ(static_cast<unsigned char*>(data)[63], 0xFF) << "nobody waited yet";
    b.table.synchronize_stream(Bare::device, b.stream);
    EXPECT_EQ(static_cast<unsigned char*>(data)[63], 3);
    std::_Exit(tell_failures());
  });
}

}  // namespace
}  // namespace weft
