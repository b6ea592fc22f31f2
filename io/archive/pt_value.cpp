#include "pt_value-inl.hpp"

#include <fmt/format.h>

#include "../json/utf8-inl.hpp"
#include "../../tensor/error.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::io {

namespace {

const char* name_of(PtValue::Kind kind) {
  constexpr const char* names[] = {"None",    "a bool", "an int", "a float",  "a string", "bytes",    "a list",
                                   "a tuple", "a set",  "a dict", "a tensor", "a dtype",  "a device", "an object"};
  return names[static_cast<int>(kind)];
}

[[noreturn]] void refuse(std::string problem, Location where) {
  raise<ValueError>({.op = "load_pt", .problem = std::move(problem)}, where);
}

}  // namespace

PtValue::Kind PtValue::kind() const { return contents_ ? contents_->kind : Kind::none; }

const PtValue::Contents& PtValue::as(Kind wanted, Location where) const {
  if (kind() != wanted) refuse(mismatch_text("value", name_of(wanted), name_of(kind())), where);
  return *contents_;
}

bool PtValue::boolean(Location where) const { return as(Kind::boolean, where).integer != 0; }
int64_t PtValue::integer(Location where) const { return as(Kind::integer, where).integer; }
double PtValue::number(Location where) const {
  return is(Kind::integer) ? static_cast<double>(contents_->integer) : as(Kind::floating, where).floating;
}
const std::string& PtValue::string(Location where) const {
  return is(Kind::bytes) || is(Kind::device) ? contents_->text : as(Kind::string, where).text;
}
const Tensor& PtValue::tensor(Location where) const { return as(Kind::tensor, where).tensor; }
DType PtValue::dtype(Location where) const { return as(Kind::dtype, where).dtype; }

size_t PtValue::size(Location where) const {
  return is(Kind::dict) || is(Kind::object) ? contents_->entries.size() : items(where).size();
}

std::span<const PtValue> PtValue::items(Location where) const {
  return is(Kind::tuple) || is(Kind::set) ? contents_->items : as(Kind::list, where).items;
}
std::span<const PtEntry> PtValue::entries(Location where) const {
  return is(Kind::object) ? contents_->entries : as(Kind::dict, where).entries;
}
std::string_view PtValue::script_type() const { return is(Kind::list) ? contents_->text : std::string_view(); }

const PtValue* PtValue::find(std::string_view key, Location where) const {
  const Contents& dict = is(Kind::object) ? *contents_ : as(Kind::dict, where);
  if (dict.index == nullptr) return nullptr;
  const auto found = dict.index->by_name.find(key);
  return found == dict.index->by_name.end() ? nullptr : &dict.entries[found->second].value;
}
const PtValue* PtValue::find(int64_t key, Location where) const {
  const Contents& dict = as(Kind::dict, where);
  if (dict.index == nullptr) return nullptr;
  const auto found = dict.index->by_number.find(key);
  return found == dict.index->by_number.end() ? nullptr : &dict.entries[found->second].value;
}

const PtValue& PtValue::at(std::string_view key, Location where) const {
  if (const PtValue* found = find(key, where)) return *found;
  refuse(fmt::format("the dict has no key {}", quoted(key)), where);
}
const PtValue& PtValue::at(int64_t key, Location where) const {
  if (is(Kind::dict)) {
    if (const PtValue* found = find(key, where)) return *found;
    refuse(fmt::format("the dict has no key {}", key), where);
  }
  const std::span<const PtValue> all = items(where);
  if (key >= 0 && static_cast<uint64_t>(key) < all.size()) return all[static_cast<size_t>(key)];
  refuse(fmt::format("the value has {} elements and no {}", all.size(), key), where);
}

}  // namespace weft::io
