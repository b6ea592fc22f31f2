// PyTorch's .pt and .pth files, as torch.save writes them since PyTorch 1.6. They are pickles, but no code is executed:
// everything except tensors, containers, numbers and texts is rejected. Needs libzip.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "path.hpp"
#include "safetensors.hpp"
#include "../tensor/dtype.hpp"
#include "../tensor/shared.hpp"

namespace weft::io {

struct PtEntry;

/// One value of a .pt file, with its contents. Copies share them. An accessor of another type raises ValueError.
class WEFT_API PtValue {
 public:
  /// A torch.Size is a tuple. A torch.device is a string, such as "cuda:0". An object is one of TorchScript, with its
  /// attributes by name.
  enum class Kind : uint8_t {
    none,
    boolean,
    integer,
    floating,
    string,
    bytes,
    list,
    tuple,
    set,
    dict,
    tensor,
    dtype,
    device,
    object
  };

  /// Constructs None.
  PtValue() = default;
  Kind kind() const;
  bool is(Kind wanted) const { return kind() == wanted; }

  bool boolean(Location where = {}) const;
  int64_t integer(Location where = {}) const;
  /// An integer or a float.
  double number(Location where = {}) const;
  /// A string, bytes, or a device's name.
  const std::string& string(Location where = {}) const;
  const Tensor& tensor(Location where = {}) const;
  DType dtype(Location where = {}) const;

  /// Number of elements or entries. Raises ValueError if the value is not a container.
  size_t size(Location where = {}) const;
  /// The elements of a list, tuple or set, in file order.
  std::span<const PtValue> items(Location where = {}) const;
  /// The entries of a dict or object, in file order. A key is a text, a number, a bool or None.
  std::span<const PtEntry> entries(Location where = {}) const;
  /// The value of a dict or object under this key, or null.
  const PtValue* find(std::string_view key, Location where = {}) const;
  const PtValue* find(int64_t key, Location where = {}) const;
  /// The value of a dict under this key. Raises ValueError if it is missing.
  const PtValue& at(std::string_view key, Location where = {}) const;
  /// An element of a list or tuple, or the value of a dict under this integer. Raises ValueError if it is missing.
  const PtValue& at(int64_t key, Location where = {}) const;

  /// The TorchScript type of an empty list, such as "List[int]"; empty for other values, and if the file has none.
  std::string_view script_type() const;

  /// Equal for two values that are the same object in the file, such as tied weights or a list that is referenced
  /// twice.
  const void* identity() const { return contents_.get(); }

 private:
  friend class PtBuilder;
  struct Contents;
  const Contents& as(Kind wanted, Location where) const;
  Shared<const Contents> contents_;
};

struct PtEntry {
  PtValue key, value;
};

/// Returns everything in the file. Tensors are loaded onto `device`, regardless of their saved device. Tensors that
/// shared memory share it again; strides and requires_grad are restored.
///
/// Raises IoError if the file cannot be read or Weft was built without libzip; FormatError if it is malformed, refers
/// to code, or is older than PyTorch 1.6; DTypeError for complex and quantised tensors and ShapeError for more than 8
/// dimensions, both with the tensor's key.
WEFT_API PtValue load_pt(const Path& path, Device device = {}, Location where = {});

/// Returns a dict of tensors by name, such as a state_dict. With `entry`, returns the dict under that key, such as
/// "state_dict" or "model". Errors as load_pt, and ValueError if it is not a dict of tensors.
WEFT_API TensorMap load_pt_state_dict(const Path& path, const std::string& entry = {}, Device device = {},
                                      Location where = {});

}  // namespace weft::io
