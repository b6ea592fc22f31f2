#include "check_weights-inl.hpp"

#include "../files/naming_file-inl.hpp"

namespace weft::io {

namespace {

void add_names(std::string& text, const char* what, const std::vector<std::string>& names) {
  constexpr size_t limit = 6;
  if (names.empty()) return;
  text += fmt::format("{}{}: ", text.empty() ? "" : "; ", what);
  for (size_t i = 0; i < std::min(limit, names.size()); ++i) text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > limit) text += fmt::format(" and {} more", names.size() - limit);
}

}  // namespace

void check_weights(const nn::Module& module, const TensorMap& weights, const Path& path, const char* op,
                   const std::string& remedy, Location where) {
  const nn::LoadReport report = module.check_state_dict(weights, false, where);
  if (!report.mismatched.empty()) {
    naming_file<ShapeError>(path, op, [&] { (void)module.check_state_dict(weights, true, where); });
  }
  std::string details;
  add_names(details, "missing", report.missing);
  add_names(details, "unexpected", report.unexpected);
  if (details.empty()) return;
  raise<ValueError>({.op = op,
                     .problem = fmt::format("{}: the names are not the module's", path.string()),
                     .details = details,
                     .remedy = remedy},
                    where);
}

}  // namespace weft::io
