// Archives: tensors and values by name, in libtorch's file format.
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <string>

#include <torch/ordered_dict.h>
#include <torch/types.h>

namespace torch::jit {
/// libtorch's archives belong to one. Weft's do not need it.
struct CompilationUnit {};
}  // namespace torch::jit

namespace torch::serialize {

/// Collects tensors, values and archives by name, and writes them as a TorchScript module without code.
class OutputArchive final {
 public:
  OutputArchive();
  explicit OutputArchive(const std::shared_ptr<jit::CompilationUnit>&) : OutputArchive() {}
  OutputArchive(OutputArchive&&) noexcept;
  OutputArchive& operator=(OutputArchive&&) noexcept;
  OutputArchive(const OutputArchive&) = delete;
  ~OutputArchive();

  void write(const std::string& key, const c10::IValue& value);
  void write(const std::string& key, const Tensor& tensor, bool is_buffer = false);
  void write(const std::string& key, OutputArchive& nested_archive);
  std::shared_ptr<jit::CompilationUnit> compilation_unit() const { return nullptr; }
  // Raise IoError if the system rejects the write, DTypeError for a dtype that PyTorch lacks.
  void save_to(const std::string& filename);
  void save_to(std::ostream& stream);
  void save_to(const std::function<size_t(const void*, size_t)>& func);
  template <class... A>
  void operator()(A&&... arguments) {
    write(std::forward<A>(arguments)...);
  }

 private:
  struct Entries;
  std::shared_ptr<Entries> entries_;
};

/// Reads files of libtorch and of OutputArchive.
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
  // Tensors are loaded onto the CPU, unless there is a device. Raise FormatError for other files.
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
  struct Object;
  std::shared_ptr<Object> object_;
  std::string path_;
};

}  // namespace torch::serialize
