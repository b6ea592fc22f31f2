// PyTorch's .pt and .pth files, as torch.save writes them since PyTorch 1.6. They are pickles, but no code is run: what
// is not a tensor, a container, a number or a text is refused. Needs libzip.
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

/// One value of a .pt file, with all that it contains. Copies share it. What asks for another kind than it is raises
/// ValueError.
class WEFT_API PtValue {
 public:
  /// A torch.Size is a tuple. A torch.device is its name, such as "cuda:0".
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
    device
  };

  /// None.
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

  /// Number of elements or entries; ValueError where it is no container.
  size_t size(Location where = {}) const;
  /// The elements of a list, tuple or set, in the file's order.
  std::span<const PtValue> items(Location where = {}) const;
  /// The entries of a dict, in the file's order. A key is a text, a number, a bool or None.
  std::span<const PtEntry> entries(Location where = {}) const;
  /// The value of a dict under this key, or null.
  const PtValue* find(std::string_view key, Location where = {}) const;
  const PtValue* find(int64_t key, Location where = {}) const;
  /// The value of a dict under this key; ValueError where there is none.
  const PtValue& at(std::string_view key, Location where = {}) const;
  /// An element of a list or tuple, or the value of a dict under this integer. ValueError where there is none.
  const PtValue& at(int64_t key, Location where = {}) const;

  /// The same for two values that are one object in the file: a list that stands in two places, tied weights.
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

/// Everything in the file. Tensors come to `device`, wherever they were saved; those that shared memory share it again,
/// and have the strides and requires_grad that they had.
///
/// IoError where the file cannot be read or Weft was built without libzip; FormatError where it is malformed, refers to
/// code, or is older than PyTorch 1.6; DTypeError for complex and quantised tensors, ShapeError above 8 dimensions,
/// both with the tensor's key.
WEFT_API PtValue load_pt(const Path& path, Device device = {}, Location where = {});

/// A dict of tensors by name, such as a state_dict; with `entry`, the one under that key, such as "state_dict" or
/// "model". Errors as load_pt's, and ValueError where it is no dict of tensors.
WEFT_API TensorMap load_pt_state_dict(const Path& path, const std::string& entry = {}, Device device = {},
                                      Location where = {});

}  // namespace weft::io
