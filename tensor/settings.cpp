#include "settings.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string_view>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>

#include "warning.hpp"

namespace weft::detail {

namespace {

// Levenshtein distance: number of insertions, deletions and substitutions.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t above = row[j + 1];
      row[j + 1] = std::min({above + 1, row[j] + 1, diagonal + (a[i] != b[j] ? 1 : 0)});
      diagonal = above;
    }
  }
  return row.back();
}

std::string_view nearest_setting(std::string_view name) {
  const auto far = [&](const Setting& s) { return distance(name, s.name); };
  return std::ranges::min_element(all_settings, {}, far)->name;
}

}  // namespace

const char* setting(SettingName name) { return std::getenv(name.text()); }

bool is_switched_on(SettingName name) { return is_variable_on(name.text()); }

bool is_switched_off(SettingName name) {
  const char* text = setting(name);
  return text != nullptr && std::strcmp(text, "0") == 0;
}

bool is_variable_on(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' && std::strcmp(text, "0") != 0;
}

void warn_of_unknown_settings() {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view line = *entry;
    if (!line.starts_with("WEFT_")) continue;
    const std::string name(line.substr(0, line.find('=')));
    if (is_setting(name.c_str())) continue;
    warn({.op = name.c_str(),
          .problem = "is no setting",
          .remedy = fmt::format("mean {}? docs/settings.md has the list", nearest_setting(name))},
         Location::none());
  }
}

}  // namespace weft::detail
