// Writes pickles as PyTorch writes them. Not public; exported for libtorch/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "zip-inl.hpp"

namespace weft::io {

/// Appends values to a pickle of protocol 2. A container is begun, filled and ended.
class WEFT_API PickleWriter {
 public:
  PickleWriter() : bytes_("\x80\x02", 2) {}

  void none() { bytes_ += 'N'; }
  void boolean(bool value) { bytes_ += value ? '\x88' : '\x89'; }
  void integer(int64_t value);
  void floating(double value);
  void string(std::string_view value);
  /// Elements are written between; `tuple` has any number of them.
  void begin_list() { bytes_ += "]("; }
  void end_list() { bytes_ += 'e'; }
  void begin_tuple() { bytes_ += '('; }
  void end_tuple() { bytes_ += 't'; }
  /// Keys and values alternate.
  void begin_dict() { bytes_ += "}("; }
  void end_dict() { bytes_ += 'u'; }
  /// Attributes are written between as in a dict.
  void begin_object(std::string_view module, std::string_view name);
  void end_object() { bytes_ += "ub"; }
  /// A call: the arguments are written between.
  void begin_call(std::string_view module, std::string_view name);
  void end_call() { bytes_ += "tR"; }
  /// Tensors that share memory share it in the file. Raises DTypeError for a dtype without a class of storages.
  void tensor(const Tensor& tensor, const char* op, Location where);

  /// The pickle as the entry `root`/data.pkl, and the storages of its tensors. Ends the writer.
  std::vector<ZipItem> items(const std::string& root) &&;

 private:
  void global(std::string_view module, std::string_view name);
  size_t storage_of(const Tensor& tensor, Location where);

  std::string bytes_;
  std::vector<Tensor> storages_;  ///< each 1-d
};

}  // namespace weft::io
