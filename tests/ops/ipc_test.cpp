// Tensors shared by two processes: writes of one are visible to the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include <message_of.hpp>
#include <temporary_folder.hpp>

#include <weft/backends/backend.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/ipc.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/tensor/error.hpp>
#include <weft/tensor/allocator.hpp>

namespace weft {
namespace {

using testing::HasSubstr;

std::vector<Device> devices_here() {
  std::vector<Device> all = {Device()};
  for (const DeviceType type : {DeviceType::cuda, DeviceType::hpu}) {
    if (device_count(type) > 0) all.emplace_back(type);
  }
  return all;
}

/// A process that opens the handle, checks that its elements are 0, 1, 2 … and adds 100 to each. It is this program
/// again, since a device does not live through a fork.
int run_opener(const IpcHandle& handle, const TemporaryFolder& folder) {
  const std::filesystem::path file = folder / "handle";
  write_bytes(file, handle.bytes);
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  return std::system(("WEFT_TEST_HANDLE='" + file.string() + "' " + program + " --gtest_filter=Ipc.Opener >" +
                      (folder / "words").string() + " 2>&1")
                         .c_str());
}

TEST(Ipc, Opener) {
  const char* file = std::getenv("WEFT_TEST_HANDLE");
  if (file == nullptr) GTEST_SKIP() << "is run by others";
  const Tensor x = open_shared({read_bytes(file)});
  const std::vector<double> values = x.to(Device()).to_vector<double>();
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], static_cast<double>(i));
  x.add_(100);
  synchronize(x.device());
}

std::string words_in(const TemporaryFolder& folder) { return read_bytes(folder / "words"); }

TEST(Ipc, TwoProcessesShareATensor) {
  const TemporaryFolder folder;
  for (const Device on : devices_here()) {
    for (const DType dtype : {DType::f32, DType::i64, DType::u8}) {
      const Tensor x = share_memory(arange(0, 120).to(dtype).view({2, 60}).to(on));
      EXPECT_EQ(run_opener(share(x), folder), 0) << on.name() << "\n" << words_in(folder);
      EXPECT_EQ(x.select(1, 3).to(Device()).to_vector<double>(), (std::vector<double>{103, 163})) << on.name();
    }
  }
}

TEST(Ipc, AViewIsSharedWithItsStrides) {
  const TemporaryFolder folder;
  for (const Device on : devices_here()) {
    const Tensor base = share_memory(zeros({10, 8}, {DType::f32, on}));
    const Tensor x = base.slice(0, 2, 8, 2).transpose(0, 1);
    x.copy_(arange(0, 24).to(DType::f32).view({8, 3}).to(on));
    EXPECT_EQ(run_opener(share(x), folder), 0) << on.name() << "\n" << words_in(folder);
    EXPECT_EQ(base.sum().item<float>(), 24 * 23 / 2 + 24 * 100);
    EXPECT_EQ(base[3].sum().item<float>(), 0) << "between its rows";
    const Tensor backwards = base.slice(0, {}, {}, -1).slice(1, {}, {}, -1);
    const IpcHandle handle = share(backwards);
    if (on.type == DeviceType::cuda) continue;
    const Tensor again = open_shared(handle);
    EXPECT_EQ(again.strides().text(), backwards.strides().text());
    EXPECT_EQ((again - backwards).abs().sum().item<float>(), 0);
  }
}

TEST(Ipc, TheSharerAndOpenersMayEndInAnyOrderOnTheCpu) {
  Tensor x = share_memory(full({100}, 3.0));
  const Tensor same = open_shared(share(x)), twice = open_shared(share(x));
  const IpcHandle handle = share(x);
  x.add_(1);
  EXPECT_EQ(twice[7].item<float>(), 4);
  x = Tensor();
  EXPECT_EQ(same.sum().item<float>(), 400);
  EXPECT_THROW(open_shared(handle), DeviceError) << "nobody keeps it";
  same.add_(1);
  EXPECT_EQ(twice[99].item<float>(), 5);
}

TEST(Ipc, AProcessThatIsGoneSharesNothing) {
  int words[2];
  ASSERT_EQ(pipe(words), 0);
  const pid_t child = fork();
  if (child == 0) {
    const Tensor x = share_memory(ones({10}));
    const IpcHandle handle = share(x);
    const bool written = write(words[1], handle.bytes.data(), handle.bytes.size()) > 0;
    pause();
    _exit(written ? 0 : 1);
  }
  IpcHandle handle;
  handle.bytes.resize(share(share_memory(ones({1}))).bytes.size());
  ASSERT_EQ(read(words[0], handle.bytes.data(), handle.bytes.size()), static_cast<ssize_t>(handle.bytes.size()));
  const Tensor x = open_shared(handle);
  EXPECT_EQ(x.sum().item<float>(), 10);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(x.sum().item<float>(), 10) << "an opened tensor keeps its memory";
  EXPECT_THAT(message_of<DeviceError>([&] { open_shared(handle); }),
              HasSubstr("[open_shared] the memory that process"));
  close(words[0]), close(words[1]);
}

TEST(Ipc, DamagedHandlesAreRefused) {
  const Tensor x = share_memory(ones({4, 4}));
  const IpcHandle handle = share(x);
  for (size_t i = 0; i < handle.bytes.size(); ++i) {
    IpcHandle damaged = handle;
    damaged.bytes[i] = static_cast<char>(damaged.bytes[i] ^ 0x10);
    EXPECT_THROW(open_shared(damaged), FormatError) << i;
    damaged.bytes = handle.bytes.substr(0, i);
    EXPECT_THROW(open_shared(damaged), FormatError) << i;
  }
  EXPECT_THROW(open_shared({handle.bytes + "x"}), FormatError);
  EXPECT_EQ(open_shared(handle).sum().item<float>(), 16);
}

TEST(Ipc, UnsharableTensorsRaise) {
  EXPECT_THAT(message_of<ValueError>([] { share(ones({100})); }), HasSubstr("share the result of share_memory(x)"));
  EXPECT_THROW(share(zeros({2}, {DType::f32, Device(DeviceType::meta)})), ValueError);
  EXPECT_THROW(share_memory(zeros({2}, {DType::f32, Device(DeviceType::meta)})), ValueError);
  EXPECT_THROW(share(Tensor()), ValueError);
  EXPECT_THROW(share_memory(Tensor()), ValueError);
  for (const Device on : devices_here()) {
    if (on.type != DeviceType::hpu) continue;
    const Tensor opened = open_shared(share(ones({10}, {DType::f32, on})));
    EXPECT_THROW(share(opened), ValueError) << "another's";
  }
}

TEST(Ipc, EmptyAndZeroDimensionalTensors) {
  for (const Device on : devices_here()) {
    if (on.type == DeviceType::cuda) continue;
    EXPECT_EQ(open_shared(share(share_memory(zeros({0, 3}, {DType::i32, on})))).shape().text(), "[0, 3]");
    const Tensor one = share_memory(full({}, 5.0, {DType::f32, on}));
    EXPECT_EQ(open_shared(share(one)).item<float>(), 5);
  }
}

TEST(Ipc, SharedMemoryIsMadeOnceAndCopiesNothingTwice) {
  const Tensor x = arange(0, 50), y = share_memory(x), z = share_memory(y);
  EXPECT_NE(x.data_ptr(), y.data_ptr());
  EXPECT_EQ(y.data_ptr(), z.data_ptr());
  const Tensor w = ones({3}).requires_grad_(), v = share_memory(w * 2.0);
  EXPECT_EQ(v.sum().item<float>(), 6);
}

TEST(Ipc, AHandleIsPrintedByteForByte) {
  EXPECT_EQ(IpcHandle{std::string("\x00\x0f\xf0\xff", 4)}.hex(), "000ff0ff");
  const IpcHandle handle = share(share_memory(ones({2})));
  EXPECT_EQ(handle.hex().size(), 2 * handle.bytes.size());
  EXPECT_EQ(handle.hex().substr(0, 16), "5745465449504331");
}

TEST(Ipc, AnOpenedTensorOfADeviceMayBeDroppedWhileItIsUsed) {
  if (device_count(DeviceType::hpu) == 0) GTEST_SKIP() << "there is no HPU";
  const Device on(DeviceType::hpu);
  const Tensor x = ones({1000}, {DType::f32, on});
  const IpcHandle handle = share(x);
  Tensor sum = zeros({1000}, {DType::f32, on});
  for (int i = 0; i < 50; ++i) sum = sum + open_shared(handle);
  EXPECT_EQ(sum.sum().item<float>(), 50'000);
}

}  // namespace
}  // namespace weft
