#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "pickle_names-inl.hpp"

namespace weft::io::pickle {

namespace {

struct Opcode {
  unsigned char code;
  const char* name;
};
constexpr Opcode opcodes[] = {{'(', "MARK"},
                              {'.', "STOP"},
                              {'0', "POP"},
                              {'1', "POP_MARK"},
                              {'2', "DUP"},
                              {'F', "FLOAT"},
                              {'I', "INT"},
                              {'J', "BININT"},
                              {'K', "BININT1"},
                              {'L', "LONG"},
                              {'M', "BININT2"},
                              {'N', "NONE"},
                              {'P', "PERSID"},
                              {'Q', "BINPERSID"},
                              {'R', "REDUCE"},
                              {'S', "STRING"},
                              {'T', "BINSTRING"},
                              {'U', "SHORT_BINSTRING"},
                              {'V', "UNICODE"},
                              {'X', "BINUNICODE"},
                              {'a', "APPEND"},
                              {'b', "BUILD"},
                              {'c', "GLOBAL"},
                              {'d', "DICT"},
                              {'}', "EMPTY_DICT"},
                              {'e', "APPENDS"},
                              {'g', "GET"},
                              {'h', "BINGET"},
                              {'i', "INST"},
                              {'j', "LONG_BINGET"},
                              {'l', "LIST"},
                              {']', "EMPTY_LIST"},
                              {'o', "OBJ"},
                              {'p', "PUT"},
                              {'q', "BINPUT"},
                              {'r', "LONG_BINPUT"},
                              {'s', "SETITEM"},
                              {'t', "TUPLE"},
                              {')', "EMPTY_TUPLE"},
                              {'u', "SETITEMS"},
                              {'G', "BINFLOAT"},
                              {0x80, "PROTO"},
                              {0x81, "NEWOBJ"},
                              {0x82, "EXT1"},
                              {0x83, "EXT2"},
                              {0x84, "EXT4"},
                              {0x85, "TUPLE1"},
                              {0x86, "TUPLE2"},
                              {0x87, "TUPLE3"},
                              {0x88, "NEWTRUE"},
                              {0x89, "NEWFALSE"},
                              {0x8a, "LONG1"},
                              {0x8b, "LONG4"},
                              {'B', "BINBYTES"},
                              {'C', "SHORT_BINBYTES"},
                              {0x8c, "SHORT_BINUNICODE"},
                              {0x8d, "BINUNICODE8"},
                              {0x8e, "BINBYTES8"},
                              {0x8f, "EMPTY_SET"},
                              {0x90, "ADDITEMS"},
                              {0x91, "FROZENSET"},
                              {0x92, "NEWOBJ_EX"},
                              {0x93, "STACK_GLOBAL"},
                              {0x94, "MEMOIZE"},
                              {0x95, "FRAME"},
                              {0x96, "BYTEARRAY8"},
                              {0x97, "NEXT_BUFFER"},
                              {0x98, "READONLY_BUFFER"}};

struct NamedGlobal {
  std::string_view name;
  KnownGlobal known;
};
constexpr NamedGlobal globals[] = {{"collections.OrderedDict", {Global::ordered_dict}},
                                   {"__builtin__.set", {Global::set}},
                                   {"builtins.set", {Global::set}},
                                   {"__builtin__.bytes", {Global::bytes}},
                                   {"builtins.bytes", {Global::bytes}},
                                   {"_codecs.encode", {Global::encode}},
                                   {"torch.Size", {Global::size}},
                                   {"torch.device", {Global::device}},
                                   {"torch._utils._rebuild_tensor", {Global::rebuild_tensor}},
                                   {"torch._utils._rebuild_tensor_v2", {Global::rebuild_tensor_v2}},
                                   {"torch._utils._rebuild_tensor_v3", {Global::rebuild_tensor_v3}},
                                   {"torch._utils._rebuild_qtensor", {Global::rebuild_quantized}},
                                   {"torch._utils._rebuild_parameter", {Global::rebuild_parameter}},
                                   {"torch.storage.UntypedStorage", {Global::untyped_storage}},
                                   {"torch.DoubleStorage", {Global::storage, DType::f64}},
                                   {"torch.FloatStorage", {Global::storage, DType::f32}},
                                   {"torch.HalfStorage", {Global::storage, DType::f16}},
                                   {"torch.BFloat16Storage", {Global::storage, DType::bf16}},
                                   {"torch.LongStorage", {Global::storage, DType::i64}},
                                   {"torch.IntStorage", {Global::storage, DType::i32}},
                                   {"torch.ShortStorage", {Global::storage, DType::i16}},
                                   {"torch.CharStorage", {Global::storage, DType::i8}},
                                   {"torch.ByteStorage", {Global::storage, DType::u8}},
                                   {"torch.BoolStorage", {Global::storage, DType::boolean}},
                                   {"torch.ComplexFloatStorage", {Global::storage, DType::c64}},
                                   {"torch.ComplexDoubleStorage", {Global::storage, DType::c128}},
                                   {"torch.QInt8Storage", {Global::storage}},
                                   {"torch.QUInt8Storage", {Global::storage}},
                                   {"torch.QInt32Storage", {Global::storage}},
                                   {"torch.QUInt4x2Storage", {Global::storage}},
                                   {"torch.QUInt2x4Storage", {Global::storage}},
                                   {"torch.per_tensor_affine", {Global::quantizer}},
                                   {"torch.per_tensor_symmetric", {Global::quantizer}},
                                   {"torch.per_channel_affine", {Global::quantizer}},
                                   {"torch.per_channel_symmetric", {Global::quantizer}},
                                   {"torch.per_channel_affine_float_qparams", {Global::quantizer}}};

constexpr NamedGlobal script_globals[] = {{"torch.jit._pickle.build_intlist", {Global::script_list}},
                                          {"torch.jit._pickle.build_doublelist", {Global::script_list}},
                                          {"torch.jit._pickle.build_boollist", {Global::script_list}},
                                          {"torch.jit._pickle.build_tensorlist", {Global::script_list}},
                                          {"torch.jit._pickle.restore_type_tag", {Global::script_type}}};

// PyTorch dtypes that Weft lacks.
constexpr std::string_view other_dtypes[] = {"complex32", "qint8",
                                             "quint8",    "qint32",
                                             "quint4x2",  "quint2x4",
                                             "bits8",     "bits16",
                                             "bits1x8",   "bits2x4",
                                             "bits4x2",   "int1",
                                             "int2",      "int3",
                                             "int4",      "int5",
                                             "int6",      "int7",
                                             "uint1",     "uint2",
                                             "uint3",     "uint4",
                                             "uint5",     "uint6",
                                             "uint7",     "float4_e2m1fn_x2"};

}  // namespace

std::string opcode_name(unsigned char code) {
  const auto* found = std::ranges::find(opcodes, code, &Opcode::code);
  return found != std::end(opcodes) ? found->name : fmt::format("0x{:02x}", code);
}

std::optional<KnownGlobal> known_global(std::string_view name) {
  if (const auto* found = std::ranges::find(globals, name, &NamedGlobal::name); found != std::end(globals)) {
    return found->known;
  }
  if (!name.starts_with("torch.")) return {};
  name.remove_prefix(std::string_view("torch.").size());
  KnownGlobal found{Global::dtype};
  found.dtype = find_dtype(name);
  const bool known = found.dtype || std::ranges::find(other_dtypes, name) != std::end(other_dtypes);
  return known ? std::optional(found) : std::nullopt;
}

std::optional<KnownGlobal> known_script_global(std::string_view name) {
  if (name.starts_with("__torch__.")) return KnownGlobal{Global::script_class};
  const auto* found = std::ranges::find(script_globals, name, &NamedGlobal::name);
  return found != std::end(script_globals) ? found->known : known_global(name);
}

std::string_view storage_class(DType dtype) {
  for (const NamedGlobal& entry : globals) {
    if (entry.known.global == Global::storage && entry.known.dtype == dtype)
      return entry.name.substr(entry.name.find('.') + 1);
  }
  return {};
}

}  // namespace weft::io::pickle
