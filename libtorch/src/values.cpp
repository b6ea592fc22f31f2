#include "values.h"

namespace torch::serialize::detail {

using c10::IValue;
using weft::io::PickleWriter;
using weft::io::PtValue;

namespace {

std::string type_of_elements(const std::vector<IValue>& values) {
  std::string out;
  for (const IValue& value : values) out += (out.empty() ? "" : ", ") + type_of(value);
  return out.empty() ? "()" : out;
}

template <class T>
void write_list(PickleWriter& pickle, const std::vector<T>& values, const char* type, const char* op) {
  pickle.begin_call("torch.jit._pickle", "restore_type_tag");
  pickle.begin_list();
  for (const T& value : values) write(pickle, value, op);
  pickle.end_list();
  pickle.string(type);
  pickle.end_call();
}

void write_dict(PickleWriter& pickle, const IValue& value, const char* op) {
  pickle.begin_call("torch.jit._pickle", "restore_type_tag");
  pickle.begin_dict();
  for (const auto& [key, element] : value.toGenericDict()) {
    write(pickle, key, op);
    write(pickle, element, op);
  }
  pickle.end_dict();
  pickle.string(type_of(value));
  pickle.end_call();
}

// ---- reading ----
using Kind = PtValue::Kind;

bool all_are(const PtValue& list, Kind kind) {
  for (const PtValue& item : list.items()) {
    if (!item.is(kind)) return false;
  }
  return true;
}
template <class T, class F>
IValue list_of(const PtValue& list, const F& get) {
  std::vector<T> out;
  for (const PtValue& item : list.items()) out.push_back(get(item));
  return out;
}

IValue list_value(const PtValue& list) {
  if (list.size() == 0) {
    const std::string_view type = list.script_type();
    if (type == "List[int]") return std::vector<int64_t>();
    if (type == "List[float]") return std::vector<double>();
    if (type == "List[str]") return std::vector<std::string>();
    return std::vector<at::Tensor>();
  }
  if (all_are(list, Kind::integer)) return list_of<int64_t>(list, [](const PtValue& v) { return v.integer(); });
  if (all_are(list, Kind::floating)) return list_of<double>(list, [](const PtValue& v) { return v.number(); });
  if (all_are(list, Kind::string)) return list_of<std::string>(list, [](const PtValue& v) { return v.string(); });
  if (all_are(list, Kind::tensor))
    return list_of<at::Tensor>(list, [](const PtValue& v) { return at::Tensor(v.tensor()); });
  return list_of<IValue>(list, value_of);
}

}  // namespace

std::string type_of(const IValue& value) {
  if (value.isNone()) return "NoneType";
  if (value.isTensor()) return "Tensor";
  if (value.isDouble()) return "float";
  if (value.isInt()) return "int";
  if (value.isBool()) return "bool";
  if (value.isString()) return "str";
  if (value.isIntList()) return "List[int]";
  if (value.isDoubleList()) return "List[float]";
  if (value.isTensorList()) return "List[Tensor]";
  if (value.isTuple()) return "Tuple[" + type_of_elements(*value.toTuple()) + "]";
  if (value.isGenericDict()) {
    const auto& entries = value.toGenericDict();
    if (entries.empty()) return "Dict[str, Tensor]";
    return "Dict[" + type_of(entries[0].first) + ", " + type_of(entries[0].second) + "]";
  }
  return "List[str]";
}

void write(PickleWriter& pickle, const IValue& value, const char* op) {
  if (value.isNone()) return pickle.none();
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    return tensor.defined() ? pickle.tensor(tensor, op, {}) : pickle.none();
  }
  if (value.isDouble()) return pickle.floating(value.toDouble());
  if (value.isInt()) return pickle.integer(value.toInt());
  if (value.isBool()) return pickle.boolean(value.toBool());
  if (value.isString()) return pickle.string(value.toStringRef());
  if (value.isIntList()) return write_list(pickle, value.toIntVector(), "List[int]", op);
  if (value.isDoubleList()) return write_list(pickle, value.toDoubleVector(), "List[float]", op);
  if (value.isTensorList()) return write_list(pickle, value.toTensorVector(), "List[Tensor]", op);
  if (value.isGenericDict()) return write_dict(pickle, value, op);
  if (!value.isTuple()) return write_list(pickle, value.to<std::vector<std::string>>(), "List[str]", op);
  pickle.begin_tuple();
  for (const IValue& element : *value.toTuple()) write(pickle, element, op);
  pickle.end_tuple();
}

IValue value_of(const PtValue& value) {
  switch (value.kind()) {
    case Kind::none:
      return {};
    case Kind::boolean:
      return value.boolean();
    case Kind::integer:
      return value.integer();
    case Kind::floating:
      return value.number();
    case Kind::string:
    case Kind::device:
      return value.string();
    case Kind::tensor:
      return at::Tensor(value.tensor());
    case Kind::list:
      return list_value(value);
    case Kind::tuple:
      return list_of<IValue>(value, value_of);
    case Kind::dict:
    case Kind::object: {
      IValue::Dict entries;
      for (const weft::io::PtEntry& entry : value.entries()) {
        entries.emplace_back(value_of(entry.key), value_of(entry.value));
      }
      return entries;
    }
    case Kind::bytes:
    case Kind::set:
    case Kind::dtype:
      break;
  }
  throw weft::NotImplementedError("[torch::load] bytes, sets and dtypes of Python are no values of IValue");
}

int64_t read_integer(InputArchive& archive, const std::string& key) {
  at::Tensor tensor;
  archive.read(key, tensor);
  TORCH_CHECK_VALUE(tensor.numel() == 1, "the entry ", key, " has ", tensor.numel(), " elements, expected 1");
  return tensor.item<int64_t>();
}

}  // namespace torch::serialize::detail
