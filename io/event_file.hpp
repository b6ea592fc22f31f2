// TensorBoard event files: TFRecords of protocol buffers, written without TensorFlow or protobuf.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>

#include "path.hpp"
#include "../hooks/statistics.hpp"
#include "../tensor/error.hpp"
#include "../tensor/pimpl.hpp"

namespace weft::io {

class GrowingFile;

/// Writes scalars and histograms over steps, for `tensorboard --logdir FOLDER`. TensorBoard can read the file while it
/// grows. Tags are names such as "gradient/rms/head.weight"; the part before the first slash is the group.
class WEFT_API EventFile {
 public:
  /// Creates the folder and a new file `events.out.tfevents.<time>.<process>.weft` in it. Raises IoError.
  explicit EventFile(const Path& folder, Location where = {});
  ~EventFile();
  EventFile(EventFile&&) noexcept;

  /// Adds a value at a step, like PyTorch's SummaryWriter.add_scalar. The integer argument is the step, in either
  /// order. Values that are not finite are written unchanged. Raises IoError.
  template <std::floating_point Value, std::integral Step>
  void scalar(const std::string& tag, Value value, Step step, Location where = {}) {
    add_scalar(tag, value, static_cast<int64_t>(step), where);
  }
  template <std::integral Step, std::floating_point Value>
  void scalar(const std::string& tag, Step step, Value value, Location where = {}) {
    add_scalar(tag, value, static_cast<int64_t>(step), where);
  }
  /// Adds a histogram; `statistics` supplies the extremes, sum and sum of squares. Raises IoError.
  void histogram(const std::string& tag, int64_t step, const Histogram& bins, const Statistics& statistics,
                 Location where = {});
  /// Writes all events to the file. Raises IoError with the cause; unwritten events are kept for the next flush.
  void flush(Location where = {});
  const Path& path() const { return path_; }

 private:
  void add_scalar(const std::string& tag, double value, int64_t step, Location where);
  void append(const std::string& event, Location where);

  Path path_;
  weft::detail::Pimpl<GrowingFile> file_;
};

/// Masked CRC-32C (Castagnoli) as used in TFRecords: rotated and offset.
WEFT_API uint32_t masked_crc32c(std::span<const char> bytes);

}  // namespace weft::io
