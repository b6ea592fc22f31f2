// TensorBoard's event files: TFRecords of protocol buffers, written without either library.
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

/// Scalars and histograms over steps, for `tensorboard --logdir FOLDER`. Readers may follow the file as it grows. Tags
/// are names such as "gradient/rms/head.weight"; the part before a slash is a group.
class WEFT_API EventFile {
 public:
  /// Makes the folder and in it a new file `events.out.tfevents.<time>.<process>.weft`. IoError.
  explicit EventFile(const Path& folder, Location where = {});
  ~EventFile();
  EventFile(EventFile&&) noexcept;

  /// A value at a step, as PyTorch's SummaryWriter.add_scalar; the integer is the step, also where it comes first.
  /// Values that are not finite are written as they are. IoError.
  template <std::floating_point Value, std::integral Step>
  void scalar(const std::string& tag, Value value, Step step, Location where = {}) {
    add_scalar(tag, value, static_cast<int64_t>(step), where);
  }
  template <std::integral Step, std::floating_point Value>
  void scalar(const std::string& tag, Step step, Value value, Location where = {}) {
    add_scalar(tag, value, static_cast<int64_t>(step), where);
  }
  /// `statistics` adds what bins do not have: extremes, sum, sum of squares. IoError.
  void histogram(const std::string& tag, int64_t step, const Histogram& bins, const Statistics& statistics,
                 Location where = {});
  /// Writes everything to the file. IoError with the cause; what could not be written is kept for the next flush.
  void flush(Location where = {});
  const Path& path() const { return path_; }

 private:
  void add_scalar(const std::string& tag, double value, int64_t step, Location where);
  void append(const std::string& event, Location where);

  Path path_;
  weft::detail::Pimpl<GrowingFile> file_;
};

/// CRC-32C (Castagnoli) as TFRecords keep it: rotated and offset.
WEFT_API uint32_t masked_crc32c(std::span<const char> bytes);

}  // namespace weft::io
