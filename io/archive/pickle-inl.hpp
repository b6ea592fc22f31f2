// Python's pickles as torch.save writes them, read into plain nodes. Nothing is imported and nothing is called. Not
// public.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "../../tensor/index.hpp"

namespace weft::io::pickle {

/// The globals that a pickle may name.
enum class Global : uint8_t {
  ordered_dict,
  set,
  bytes,
  encode,
  size,
  device,
  dtype,
  quantizer,
  storage,
  untyped_storage,
  rebuild_tensor,
  rebuild_tensor_v2,
  rebuild_tensor_v3,
  rebuild_quantized,
  rebuild_parameter
};

enum class Kind : uint8_t { none, boolean, integer, floating, string, bytes, list, tuple, dict, global, call, storage };

struct Node {
  Kind kind;
  /// Of a global, of what it was called with (a call), and ordered_dict for a dict that is one.
  std::optional<Global> global = {};
  /// Of a storage, and of the globals dtype and storage; nothing where Weft lacks it.
  std::optional<DType> dtype = {};
  /// Where its opcode stands.
  size_t offset = 0;
  /// The value of a boolean or an integer; the elements of a storage.
  int64_t integer = 0;
  double floating = 0;
  /// A string or bytes, the name of a global, the key of a storage. A part of the pickle, as long as that lives.
  std::string_view text = {};
  /// Elements of a list or tuple; keys and values of a dict by turns; of a call its tuple of arguments; of a
  /// storage its class.
  std::vector<uint32_t> parts = {};
};

struct Pickle {
  /// Lists and dicts may hold one another, and themselves.
  std::vector<Node> nodes;
  uint32_t root = 0;
};

/// What the error of a pickle names besides the place in it.
struct Source {
  const char* op;
  std::string path;
  Location where;

  /// FormatError "data.pkl, byte N: …".
  [[noreturn]] void fail(size_t offset, std::string problem, std::string remedy = {}) const;
};

/// FormatError for an opcode or a global that is refused, with its place, and for whatever is malformed. Work and
/// memory are linear in the length.
Pickle parse(std::string_view bytes, const Source& source);

/// "list", "a call of torch.Size" and so on, for errors.
std::string description(const Node& node);

}  // namespace weft::io::pickle
