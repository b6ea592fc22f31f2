// A mapped tensor is a list of slices, each a box of a source with a permutation. Joining, splitting and permuting
// change only this list, and reading a part intersects it. A mapped store is a `TensorStore`, so mappings do not
// depend on files.
#include "../mapping.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "../file.hpp"
#include "../json/utf8-inl.hpp"
#include "../../tensor/checked.hpp"
#include "slices-inl.hpp"
#include "statement-inl.hpp"

namespace weft::io {

struct Mapping::Contents {
  std::string path;
  std::vector<Statement> statements;
};

namespace {

using Value = Shared<const SlicedTensor>;
/// Digits by variable.
using Binding = std::map<std::string, std::string>;

// Statements are applied in full to weights. For optimizer state, missing sources are skipped.
enum class Subject : uint8_t { weights, moments, scalars };

// More than any checkpoint has. Limits the memory that a short mapping can require.
constexpr size_t most_slices = size_t{1} << 20;

std::optional<Binding> match(const NamePattern& pattern, std::string_view name) {
  Binding out;
  for (const NamePattern::Part& part : pattern.parts) {
    if (!part.variable) {
      if (!name.starts_with(part.text)) return {};
      name.remove_prefix(part.text.size());
      continue;
    }
    const std::string_view digits = name.substr(0, std::min(name.find_first_not_of("0123456789"), name.size()));
    const auto [known, is_new] = out.emplace(part.text, digits);
    if (digits.empty() || known->second != digits) return {};
    name.remove_prefix(digits.size());
  }
  return name.empty() && !pattern.is_nothing() ? std::optional(out) : std::nullopt;
}

std::string name_of(const NamePattern& pattern, const Binding& binding) {
  std::string out;
  for (const NamePattern::Part& part : pattern.parts) out += part.variable ? binding.at(part.text) : part.text;
  return out;
}

std::string text_of(const NamePattern& pattern) {
  std::string out;
  for (const NamePattern::Part& part : pattern.parts) out += (part.variable ? "$" : "") + part.text;
  return out;
}

// Applies the statements in order; `finished` returns the resulting tensors.
class Evaluation {
 public:
  // `ending` is the suffix of the source's names after the weight's name.
  Evaluation(const std::string& path, const TensorStore& source, Subject subject, const std::string& ending,
             Location where)
      : path_(path), source_(source), subject_(subject), ending_(ending), where_(where) {
    for (const auto& [name, info] : source.entries()) {
      names_.emplace(name, Entry{Value::make(whole_of(name, info)), false, 0});
    }
  }

  void take(const Statement& s) {
    statement_ = &s;
    if (s.leaves()) return;
    // Read all sources before changing any, so that names can be swapped.
    std::vector<std::pair<Binding, std::vector<Value>>> all;
    for (const Binding& binding : bindings()) {
      if (passes(binding)) all.emplace_back(binding, sources(binding));
    }
    for (const auto& [binding, values] : all) {
      if (s.drops()) drop(binding);
      else make(binding, values);
    }
  }

  std::map<std::string, Value> finished() const {
    std::map<std::string, Value> out;
    for (const auto& [name, entry] : names_) {
      if (!entry.read) out.emplace(name, entry.value);
    }
    return out;
  }

 private:
  struct Entry {
    Value value;
    bool read;
    /// 0 for a tensor of the source.
    int made_in;
  };

  template <class E>
  [[noreturn]] void fail(int column, const std::string& problem) const {
    raise_at<E>({path_, statement_->line, column, statement_->text}, problem, where_);
  }

  // ---- names --------------------------------------------------------------------------------------------------------

  std::set<Binding> matches(const NamePattern& pattern) const {
    std::set<Binding> out;
    // Names with the pattern's first text are adjacent in the map.
    const std::string start = pattern.parts.front().variable ? "" : pattern.parts.front().text;
    for (auto at = names_.lower_bound(start); at != names_.end() && at->first.starts_with(start); ++at) {
      if (std::optional<Binding> found = match(pattern, at->first)) out.insert(std::move(*found));
    }
    return out;
  }
  std::set<Binding> bindings() const {
    std::set<Binding> out;
    if (statement_->sources[0].variables().empty()) return {Binding()};
    for (const NamePattern& pattern : statement_->sources) out.merge(matches(pattern));
    if (out.empty() && subject_ == Subject::weights) {
      const NamePattern& first = statement_->sources[0];
      fail<KeyError>(first.column, fmt::format("no tensor has a name such as {}", quoted(text_of(first))));
    }
    return out;
  }
  // Whether there is anything to do: frozen weights have no optimizer state.
  bool passes(const Binding& binding) const {
    return subject_ == Subject::weights || std::ranges::any_of(statement_->sources, [&](const NamePattern& pattern) {
             return names_.contains(name_of(pattern, binding));
           });
  }

  std::vector<Value> sources(const Binding& binding) {
    std::vector<Value> values;
    for (const NamePattern& pattern : statement_->sources) values.push_back(read(pattern, name_of(pattern, binding)));
    return values;
  }
  void drop(const Binding& binding) {
    for (const NamePattern& pattern : statement_->sources) names_.erase(name_of(pattern, binding));
  }
  void make(const Binding& binding, std::vector<Value> values) {
    for (const Attribute& attribute : statement_->attributes) values = applied(attribute, values);
    for (size_t i = 0; i < values.size(); ++i) {
      const NamePattern& pattern = statement_->destinations[i];
      if (!pattern.is_nothing()) make(pattern, name_of(pattern, binding), values[i]);
    }
  }
  Value read(const NamePattern& pattern, const std::string& name) {
    const auto found = names_.find(name);
    if (found == names_.end())
      fail<KeyError>(pattern.column, fmt::format("no tensor is named {}", quoted(name + ending_)));
    found->second.read = true;
    return found->second.value;
  }
  void make(const NamePattern& pattern, const std::string& name, const Value& value) {
    Entry& entry = names_.try_emplace(name, Entry{{}, true, 0}).first->second;
    if (!entry.read) {
      const std::string by = entry.made_in == 0 ? "the source" : fmt::format("line {}", entry.made_in);
      fail<ValueError>(pattern.column,
                       fmt::format("{} is there already, from {}, and nothing has read it", quoted(name), by));
    }
    entry = {value, false, statement_->line};
  }

  // ---- attributes ---------------------------------------------------------------------------------------------------

  std::vector<Value> applied(const Attribute& attribute, const std::vector<Value>& values) {
    if (attribute.kind == Attribute::Kind::axis)
      return values.size() > 1 ? joined(attribute, values) : split(attribute, values[0]);
    std::vector<Value> out;
    for (const Value& value : values) {
      out.push_back(attribute.kind == Attribute::Kind::permute ? permuted(attribute, value)
                                                               : converted(attribute, value));
    }
    return out;
  }
  // Counts slices before they are created, to enforce the limit.
  void tally(const Attribute& attribute, const Value& value) {
    slices_ += value->slices.size() + 1;
    if (slices_ <= most_slices) return;
    fail<ValueError>(attribute.column, fmt::format("more than {} slices are made", most_slices));
  }
  Value checked(const Attribute& attribute, SlicedTensor made) const {
    Layout layout;
    if (!set_contiguous(layout, made.info.shape, itemsize(made.info.dtype))) {
      fail<ShapeError>(attribute.column, fmt::format("{} of {} has more than 2^63 - 1 bytes", name(made.info.dtype),
                                                     made.info.shape.text()));
    }
    return Value::make(std::move(made));
  }
  int axis_of(const Attribute& attribute, const Dims& shape) const {
    const int axis = attribute.axis < 0 ? attribute.axis + shape.size() : attribute.axis;
    if (axis >= 0 && axis < shape.size()) return axis;
    fail<ShapeError>(attribute.column, fmt::format("the shape {} has no axis {}", shape.text(), attribute.axis));
  }

  Value permuted(const Attribute& attribute, const Value& value) {
    if (subject_ == Subject::scalars) return value;
    const int rank = value->info.shape.size();
    Dims order = attribute.permutation;
    for (int d = rank - 1; d >= 0 && attribute.permutation.empty(); --d) order.push_back(d);
    if (order.size() != rank) {
      fail<ShapeError>(attribute.column, fmt::format("{} permutes {} dimensions, the shape is {}", order.text(),
                                                     order.size(), value->info.shape.text()));
    }
    tally(attribute, value);
    return checked(attribute, io::permuted(*value, order));
  }
  Value converted(const Attribute& attribute, const Value& value) {
    if (subject_ != Subject::weights || value->info.dtype == attribute.dtype) return value;
    tally(attribute, value);
    return checked(attribute, io::converted(*value, attribute.dtype));
  }
  std::vector<Value> split(const Attribute& attribute, const Value& value) {
    const auto count = std::ssize(statement_->destinations);
    std::vector<Value> out;
    if (subject_ == Subject::scalars) return std::vector<Value>(static_cast<size_t>(count), value);
    const Dims& shape = value->info.shape;
    const int axis = axis_of(attribute, shape);
    if (shape[axis] % count != 0) {
      fail<ShapeError>(attribute.column,
                       fmt::format("axis {} of {} cannot be split evenly by {}", axis, shape.text(), count));
    }
    Box box = Box::whole(shape);
    const int64_t size = shape[axis] / count;
    for (int64_t i = 0; i < count; ++i) {
      box.starts[axis] = i * size, box.ends[axis] = (i + 1) * size;
      tally(attribute, value);
      out.push_back(checked(attribute, boxed(*value, box)));
    }
    return out;
  }
  std::vector<Value> joined(const Attribute& attribute, const std::vector<Value>& values) {
    if (subject_ == Subject::scalars) return {same(attribute, values)};
    const TensorStore::Info& first = values[0]->info;
    const int axis = axis_of(attribute, first.shape);
    Dims shape = first.shape;
    Checked size = 0;
    for (const Value& value : values) {
      const TensorStore::Info& info = value->info;
      if (info.dtype != first.dtype) {
        fail<DTypeError>(attribute.column, fmt::format("{} and {} are joined; a dtype before makes them one",
                                                       name(first.dtype), name(info.dtype)));
      }
      bool fits = info.shape.size() == shape.size();
      for (int d = 0; fits && d < shape.size(); ++d) fits = d == axis || info.shape[d] == shape[d];
      if (!fits) {
        fail<ShapeError>(attribute.column, fmt::format("{} and {} do not fit together along axis {}",
                                                       first.shape.text(), info.shape.text(), axis));
      }
      size += info.shape[axis];
    }
    if (!size.fits())
      fail<ShapeError>(attribute.column, fmt::format("axis {} would have more than 2^63 - 1 elements", axis));
    shape[axis] = size.value();
    for (const Value& value : values) tally(attribute, value);
    return {checked(attribute, io::joined(values, axis, shape))};
  }
  Value same(const Attribute& attribute, const std::vector<Value>& values) const {
    const auto text_of = [&](const Value& value) {
      const Scalar number = elements_of(*value, Box::whole({}), source_, where_).item_scalar(where_);
      return number.is_floating() ? fmt::format("{}", number.to<double>()) : fmt::format("{}", number.to<int64_t>());
    };
    const std::string first = text_of(values[0]);
    for (const Value& value : values) {
      if (const std::string other = text_of(value); other != first) {
        fail<ValueError>(attribute.column,
                         fmt::format("tensors are joined whose scalars differ: {} and {}", first, other));
      }
    }
    return values[0];
  }

  const std::string& path_;
  const TensorStore& source_;
  Subject subject_;
  const std::string& ending_;
  Location where_;
  const Statement* statement_ = nullptr;
  std::map<std::string, Entry> names_;
  size_t slices_ = 0;
};

TensorStore store_of(std::map<std::string, Value> values, const TensorStore& source, Location where) {
  TensorStore::Entries entries;
  for (const auto& [name, value] : values) entries.emplace(name, value->info);
  const auto read = [values = std::move(values), source](const std::string& name, const Dims& starts, const Dims& ends,
                                                         Location at) {
    return elements_of(*values.at(name), {starts, ends}, source, at);
  };
  return TensorStore(std::move(entries), read, where);
}

TensorStore evaluated(const std::string& path, const std::vector<Statement>& statements, const TensorStore& source,
                      Subject subject, const std::string& ending, Location where) {
  Evaluation evaluation(path, source, subject, ending, where);
  for (const Statement& s : statements) evaluation.take(s);
  std::map<std::string, Value> values = evaluation.finished();
  for (const Statement& s : statements) {
    if (!s.leaves()) continue;
    for (const NamePattern& pattern : s.destinations) {
      const auto made =
          std::ranges::find_if(values, [&](const auto& v) { return match(pattern, v.first).has_value(); });
      if (made == values.end()) continue;
      raise_at<ValueError>({path, s.line, pattern.column, s.text},
                           fmt::format("{} is to stay as it is, and a tensor has its name", quoted(made->first)),
                           where);
    }
  }
  return store_of(std::move(values), source, where);
}

}  // namespace

Mapping Mapping::parse(std::string_view text, Location where) {
  Mapping out;
  out.contents_ = Shared<Contents>::make(Contents{"", parse_statements(text, "", where)});
  return out;
}

Mapping Mapping::read(const Path& path, Location where) {
  Mapping out;
  const std::string text = read_file(path, "Mapping", where);
  out.contents_ = Shared<Contents>::make(Contents{path.string(), parse_statements(text, path.string(), where)});
  return out;
}

TensorStore Mapping::apply(const TensorStore& source, Location where) const {
  if (contents_ == nullptr) return source;
  return evaluated(contents_->path, contents_->statements, source, Subject::weights, "", where);
}

bool Mapping::leaves(const std::string& name) const {
  if (contents_ == nullptr) return false;
  return std::ranges::any_of(contents_->statements, [&](const Statement& s) {
    return s.leaves() &&
           std::ranges::any_of(s.destinations, [&](const NamePattern& p) { return match(p, name).has_value(); });
  });
}

// ---- optimizer state ------------------------------------------------------------------------------------------------

namespace {

/// Suffix of the state of every weight, such as "exp_avg", and whether it is a scalar.
using Field = std::pair<std::string, bool>;

std::optional<size_t> end_of_weight(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == name.npos || name.starts_with("group.") ? std::nullopt : std::optional(dot);
}

// The tensors of one field, under the names of their weights.
TensorStore field_of(const TensorStore& state, const std::string& field, TensorStore::Entries entries) {
  const auto read = [state, field](const std::string& name, const Dims& starts, const Dims& ends, Location at) {
    return state.get_slice(name + "." + field, starts, ends, {}, at);
  };
  return TensorStore(std::move(entries), read);
}

}  // namespace

TensorStore Mapping::apply_to_optimizer(const TensorStore& state, Location where) const {
  if (contents_ == nullptr) return state;
  std::map<Field, TensorStore::Entries> fields;
  /// For each result, the store and the name in it.
  std::map<std::string, std::pair<TensorStore, std::string>> found;
  for (const auto& [name, info] : state.entries()) {
    const std::optional<size_t> end = end_of_weight(name);
    if (end) fields[{name.substr(*end + 1), info.shape.empty()}].emplace(name.substr(0, *end), info);
    else if (!name.ends_with(".params")) found.emplace(name, std::pair(state, name));
  }
  for (auto& [field, entries] : fields) {
    const Subject subject = field.second ? Subject::scalars : Subject::moments;
    const TensorStore kept = field_of(state, field.first, std::move(entries));
    const TensorStore mapped =
        evaluated(contents_->path, contents_->statements, kept, subject, "." + field.first, where);
    for (const auto& [weight, info] : mapped.entries()) {
      const std::string name = weight + "." + field.first;
      if (found.emplace(name, std::pair(mapped, weight)).second) continue;
      raise<ValueError>({.op = "Mapping", .problem = fmt::format("{} would be the name of two tensors", quoted(name))},
                        where);
    }
  }
  TensorStore::Entries entries;
  for (const auto& [name, place] : found) entries.emplace(name, place.first.info(place.second));
  const auto read = [found = std::move(found)](const std::string& name, const Dims& starts, const Dims& ends,
                                               Location at) {
    const auto& [store, inner] = found.at(name);
    return store.get_slice(inner, starts, ends, {}, at);
  };
  return TensorStore(std::move(entries), read, where);
}

void load_into(const TensorMap& destinations, const TensorStore& source, const Mapping& mapping, bool strict,
               Location where) {
  TensorMap loaded;
  for (const auto& [name, t] : destinations) {
    if (!mapping.leaves(name)) loaded.emplace(name, t);
  }
  load_into(loaded, mapping.apply(source, where), strict, where);
}

}  // namespace weft::io
