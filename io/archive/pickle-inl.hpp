// Parses Python pickles of torch.save into plain nodes. Nothing is imported and nothing is called. Not public.
//
// Reading has two steps: an interpreter of about thirty opcodes builds a table of nodes, then values are built from
// the nodes that the root reaches. So cycles and depth are checked before values exist, and shared nodes are built
// once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "../../tensor/index.hpp"

namespace weft::io::pickle {

/// The globals that a pickle may reference.
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
  rebuild_parameter,
  // Of TorchScript: a class of the program, torch.jit._pickle.build_…list and restore_type_tag.
  script_class,
  script_list,
  script_type
};

enum class Kind : uint8_t {
  none,
  boolean,
  integer,
  floating,
  string,
  bytes,
  list,
  tuple,
  dict,
  global,
  call,
  storage,
  object
};

struct Node {
  Kind kind;
  /// Of a global, or of the called global; ordered_dict for a dict of that type.
  std::optional<Global> global = {};
  /// Of a storage, and of the globals dtype and storage; nothing if Weft lacks it.
  std::optional<DType> dtype = {};
  /// Offset of its opcode.
  size_t offset = 0;
  /// The value of a boolean or an integer; the number of elements of a storage.
  int64_t integer = 0;
  double floating = 0;
  /// A string or bytes, the name of a global or class, the key of a storage. Points into the pickle, which must outlive
  /// it.
  std::string_view text = {};
  /// Elements of a list or tuple; alternating keys and values of a dict; the argument tuple of a call; the class of a
  /// storage; the dict of an object's attributes.
  std::vector<uint32_t> parts = {};
};

struct Pickle {
  /// Lists and dicts may contain each other and themselves.
  std::vector<Node> nodes;
  uint32_t root = 0;
};

/// Context of an error in a pickle.
struct Source {
  const char* op;
  std::string path;
  Location where;
  /// Whether objects of TorchScript are accepted.
  bool script = false;

  /// Raises FormatError "data.pkl, byte N: …".
  [[noreturn]] void fail(size_t offset, std::string problem, std::string remedy = {}) const;
};

/// Raises FormatError, with the offset, for an unsupported opcode or global and for malformed data. Time and memory are
/// linear in the length.
Pickle parse(std::string_view bytes, const Source& source);

/// "list", "a call of torch.Size", …, for errors.
std::string description(const Node& node);

}  // namespace weft::io::pickle
