// Event files, read back with the real tensorboard package where one is installed.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/io/event_file.hpp>
#include <weft/io/gradient_log.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>

#include <temporary_folder.hpp>

namespace weft {
namespace {

using testing::HasSubstr;

TEST(EventFile, ChecksumsAreCastagnolis) {
  // RFC 3720 B.4 has 0xe3069283 for "123456789"; TFRecords rotate it right by 15 and add a constant.
  const std::string digits = "123456789";
  const uint32_t crc = 0xe3069283u;
  EXPECT_EQ(io::masked_crc32c(digits), ((crc >> 15) | (crc << 17)) + 0xa282ead8u);
}

template <class Value, class Step>
constexpr bool writes = requires(io::EventFile& file, Value value, Step step) {
  file.scalar("loss", value, step);
};

// PyTorch has the value first; the types say which number is which.
TEST(EventFile, TheIntegerOfAScalarIsTheStepInEitherOrder) {
  static_assert(writes<double, int> && writes<float, int64_t> && writes<int, double>);
  static_assert(!writes<int, int> && !writes<double, double>);
  for (const bool value_first : {true, false}) {
    const TemporaryFolder folder;
    io::EventFile file(folder.path());
    if (value_first) file.scalar("loss", 0.5, 3);
    else file.scalar("loss", 3, 0.5);
    file.flush();
    // Event.step is field 2, a varint; Summary.Value.simple_value is field 2, a float.
    EXPECT_THAT(read_bytes(file.path()), HasSubstr(std::string("\x10\x03", 2)));
    EXPECT_THAT(read_bytes(file.path()), HasSubstr(std::string("\x15\x00\x00\x00\x3f", 5)));
  }
}

TEST(EventFile, RecordsAreFramed) {
  const TemporaryFolder folder;
  io::EventFile file(folder.path());
  file.scalar("loss", 0.5, 3);
  file.flush();
  const std::string bytes = read_bytes(file.path());
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  ASSERT_GT(bytes.size(), length + 16);
  uint32_t length_sum = 0, data_sum = 0;
  std::memcpy(&length_sum, bytes.data() + 8, 4);
  std::memcpy(&data_sum, bytes.data() + 12 + length, 4);
  EXPECT_EQ(length_sum, io::masked_crc32c({bytes.data(), 8}));
  EXPECT_EQ(data_sum, io::masked_crc32c({bytes.data() + 12, length}));
  EXPECT_THAT(bytes, HasSubstr("brain.Event:2"));
}

TEST(EventFile, AFolderThatCannotBeIsAnError) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "x";
  EXPECT_THROW(io::EventFile(folder.path() / "file" / "below"), IoError);
}

TEST(EventFile, TensorBoardReadsItBack) {
  const std::string program = python_with("tensorboard");
  if (program.empty()) GTEST_SKIP() << "the Python package tensorboard is not installed";
  const TemporaryFolder folder;
  const Tensor x = tensor({-3.0, 0.0, 0.5, 0.75, 4.0});
  {
    io::EventFile file(folder.path());
    for (int step = 0; step < 3; ++step) file.scalar("loss", 1.0 / (step + 1), step);
    file.scalar("odd", NAN, 0);
    file.histogram("gradient/w", 2, magnitude_histogram(x), statistics(x));
    file.flush();
  }
  const std::string out = folder / "out";
  const int status = run_python(program, folder, R"py(
import sys
sys.stdout = open('out', 'w')
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event
import glob
for path in glob.glob('events*'):
    for raw in RawEventFileLoader(path).Load():
        e = Event.FromString(raw)
        for v in e.summary.value:
            if v.HasField('histo'):
                h = v.histo
                full = [(round(l, 6), int(n)) for l, n in zip(h.bucket_limit, h.bucket) if n]
                print('histogram', v.tag, e.step, h.min, h.max, h.num, round(h.sum, 5), round(h.sum_squares, 5), full)
            else:
                print('scalar', v.tag, e.step, round(v.simple_value, 4))
)py");
  ASSERT_EQ(status, 0);
  const std::string said = read_bytes(out);
  EXPECT_THAT(said, HasSubstr("scalar loss 0 1.0\nscalar loss 1 0.5\nscalar loss 2 0.3333\nscalar odd 0 nan\n"));
  // 0.5 and 0.75 are in [0.5, 1), 4 in [4, 8), -3 in (-4, -2], and zero in the bin between the signs.
  EXPECT_THAT(said,
              HasSubstr("histogram gradient/w 2 -3.0 4.0 5.0 2.25 25.8125 [(-2.0, 1), (0.0, 1), (1.0, 2), (8.0, 1)]"));
}

TEST(GradientLog, LeavesLinesEventsAndAPage) {
  const TemporaryFolder folder;
  const Tensor w = randn({8}).requires_grad_();
  GradientRecorder recorder(NamedTensors{{"w", w}});
  {
    io::GradientLog log(recorder, folder.path() / "run");
    for (int i = 0; i < 3; ++i) {
      w.sum().backward();
      recorder.step(1.0);
    }
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "run" / "gradients.html"));
  }
  const std::string lines = read_bytes(folder.path() / "run" / "gradients.jsonl");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 3);
  EXPECT_THAT(lines, HasSubstr(R"({"step":2,"loss":1,"tensors":{"w":{"gradient":)"));
  EXPECT_THAT(read_bytes(folder.path() / "run" / "gradients.html"), HasSubstr("</html>"));
  int events = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "run")) {
    events += entry.path().filename().string().starts_with("events.out.tfevents");
  }
  EXPECT_EQ(events, 1);
  recorder.step();  // the log is gone: nothing is written, nothing fails
}

TEST(GradientLog, AFullDiskDoesNotEndTheRun) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "run");
  std::filesystem::create_symlink("/dev/full", folder / "run" / "gradients.jsonl");
  const Tensor w = randn({8}).requires_grad_();
  GradientRecorder recorder(NamedTensors{{"w", w}});
  testing::internal::CaptureStderr();
  {
    const io::GradientLog log(recorder, folder.path() / "run");
    for (int i = 0; i < 3; ++i) {
      w.sum().backward();
      recorder.step(1.0);
    }
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(HasSubstr("run/gradients.jsonl\n  No space left on device"),
                             HasSubstr("continues without a log")));
  EXPECT_THAT(read_bytes(folder.path() / "run" / "gradients.html"), HasSubstr("</html>"));
}

TEST(EventFile, TheCauseOfAFailureIsNamed) {
  const TemporaryFolder folder;
  try {
    io::EventFile(folder / std::string(300, 'x'));
    FAIL() << "no error";
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), HasSubstr("File name too long"));
  }
}

TEST(GradientLog, AFolderThatCannotBeIsAnError) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "x";
  EXPECT_THROW(io::GradientLog(GradientRecorder{NamedTensors{}}, folder.path() / "file"), IoError);
}

}  // namespace
}  // namespace weft
