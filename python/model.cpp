// Models as files, for Python; weft/_model.py builds Python's modules.
#include "../io/model.hpp"
#include "../nn/least_elements-inl.hpp"
#include "../nn/memory_budget-inl.hpp"

#include "caster.hpp"

namespace weft::python {

namespace {

using nn::Attribute;

[[noreturn]] void refuse(const std::string& option, nb::handle value) {
  throw_type_error(("option '" + option + "' is a " + Py_TYPE(value.ptr())->tp_name +
                    "; a file of a model holds bool, int, float, str, None and lists of one of them")
                       .c_str());
}

/// One value that is no list.
std::optional<Attribute> single(nb::handle value) {
  if (value.is_none()) return Attribute();
  if (nb::isinstance<nb::bool_>(value)) return nb::cast<bool>(value);
  if (nb::isinstance<nb::int_>(value)) return nb::cast<int64_t>(value);
  if (nb::isinstance<nb::float_>(value)) return nb::cast<double>(value);
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  return std::nullopt;
}

template <class T>
std::optional<Attribute> list_of(nb::handle items) {
  std::vector<T> out;
  if (!nb::try_cast(items, out)) return std::nullopt;
  return out;
}

Attribute attribute_from(const std::string& option, nb::handle value) {
  if (const auto one = single(value)) return *one;
  if (!nb::isinstance<nb::tuple>(value) && !nb::isinstance<nb::list>(value)) refuse(option, value);
  bool bools = nb::len(value) > 0, integers = true;
  for (const nb::handle item : value) {
    bools = bools && nb::isinstance<nb::bool_>(item);
    integers = integers && nb::isinstance<nb::int_>(item) && !nb::isinstance<nb::bool_>(item);
  }
  const auto list = bools ? list_of<bool>(value) : integers ? list_of<int64_t>(value) : list_of<double>(value);
  if (list) return *list;
  if (const auto texts = list_of<std::string>(value)) return *texts;
  refuse(option, value);
}

/// Raises FormatError if a tree claims more elements than `stored`, or than its own tensors. Types in `others` are
/// Python classes.
void check_claims(const std::string& tree, const std::vector<std::string>& others, std::optional<int64_t> stored,
                  const char* op, Location where) {
  const auto is_weft = [&](const std::string& type) { return std::ranges::find(others, type) == others.end(); };
  nn::detail::check_claims(io::read_model(tree, where), stored, is_weft, op, where);
}

/// The budget for building a model: the weights of a folder, and `unsaved` elements that are not stored.
struct BuildBudget {
  BuildBudget(const std::string& folder, const std::string& tree, const std::vector<std::string>& others,
              int64_t unsaved) {
    const Location where = here();
    constexpr int64_t most_unsaved = int64_t{1} << 26;
    int64_t elements = 0;
    const io::TensorStore store = io::open_sharded(folder, "model", false, where);
    for (const auto& [name, info] : store.entries()) elements += info.shape.product();
    check_claims(tree, others, elements, "load_model", where);
    budget.emplace(elements + std::min(unsaved, most_unsaved), std::ssize(store.entries()), "load_model", folder,
                   where);
  }
  std::optional<nn::detail::MemoryBudget> budget;
};

}  // namespace

nn::Config config_from(const nb::dict& options) {
  nn::Config config;
  for (const auto& [name, value] : options) {
    const auto option = nb::cast<std::string>(name);
    config.set(option, attribute_from(option, value));
  }
  return config;
}

void bind_models(nb::module_& m) {
  m.def("_model_json",
        [](nb::handle state) { return io::to_json(module_of(state), nn::ModuleRegistry::standard(), here()); });
  // The text as to_json writes it, once it was found to be in order.
  m.def("_checked_model", [](const std::string& text) { return io::to_json(io::read_model(text, here()), here()); });
  m.def("_check_native", [](nb::handle state) {
    const nn::ModuleRegistry& registry = nn::ModuleRegistry::standard();
    const nn::Module& module = module_of(state);
    if (registry.contains(module.class_name())) registry.check_types(module, here());
  });
  m.def("_check_claims", [](const std::string& tree, const std::vector<std::string>& others) {
    check_claims(tree, others, {}, "from_json", here());
  });
  nb::class_<BuildBudget>(m, "_BuildBudget")
      .def(nb::init<const std::string&, const std::string&, const std::vector<std::string>&, int64_t>())
      .def("end", [](BuildBudget& b) { b.budget.reset(); });
  m.def("_save_model", [](const std::string& folder, nb::handle state, const std::string& tree,
                          const std::string& max_shard_size, const std::map<std::string, std::string>& documents) {
    const Location where = here();
    const nn::StateDict weights = module_of(state).state_dict();
    const WithoutGil others;
    io::save_model(folder, io::read_model(tree, where), weights,
                   {.max_shard_size = io::ByteCount(max_shard_size, where), .documents = documents}, where);
  });
}

}  // namespace weft::python
