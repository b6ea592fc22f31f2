// Archives: tensors and values by name, in libtorch's file format.
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <string>

#include <torch/ordered_dict.h>
#include <torch/types.h>

namespace torch::serialize {

/// Collects tensors, values and archives by name, and writes them as a TorchScript module without code.
class OutputArchive final {
 public:
  OutputArchive();
  OutputArchive(OutputArchive&&) noexcept;
  OutputArchive& operator=(OutputArchive&&) noexcept;
  OutputArchive(const OutputArchive&) = delete;
  ~OutputArchive();

  void write(const std::string& key, const c10::IValue& value);
  void write(const std::string& key, const Tensor& tensor, bool is_buffer = false);
  void write(const std::string& key, OutputArchive& nested_archive);
  // Raise IoError if the system rejects the write.
  void save_to(const std::string& filename);
  void save_to(std::ostream& stream);
  void save_to(const std::function<size_t(const void*, size_t)>& func);

 private:
  friend class InputArchive;
  struct Entries;
  std::shared_ptr<Entries> entries_;
};

/// Reads what libtorch or OutputArchive wrote.
class InputArchive final {
 public:
  InputArchive();
  InputArchive(InputArchive&&) noexcept;
  InputArchive& operator=(InputArchive&&) noexcept;
  InputArchive(const InputArchive&) = delete;
  ~InputArchive();

  /// Return false for an unknown key.
  bool try_read(const std::string& key, c10::IValue& value);
  bool try_read(const std::string& key, Tensor& tensor, bool is_buffer = false);
  bool try_read(const std::string& key, InputArchive& archive);
  /// Raise an error for an unknown key.
  void read(const std::string& key, c10::IValue& value);
  void read(const std::string& key, Tensor& tensor, bool is_buffer = false);
  void read(const std::string& key, InputArchive& archive);
  // Raise FormatError for other files.
  void load_from(const std::string& filename, optional<Device> device = nullopt);
  void load_from(std::istream& stream, optional<Device> device = nullopt);
  void load_from(const char* data, size_t size, optional<Device> device = nullopt);
  void load_from(const std::function<size_t(uint64_t, void*, size_t)>& read_func,
                 const std::function<size_t()>& size_func, optional<Device> device = nullopt);
  std::vector<std::string> keys();
  template <class... A>
  void operator()(A&&... arguments) {
    read(std::forward<A>(arguments)...);
  }

 private:
  std::shared_ptr<OutputArchive::Entries> entries_;
  std::string path_;
};

}  // namespace torch::serialize
