// Adds the file's name to errors. Internal to io/.
#pragma once

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "../path.hpp"
#include "../../tensor/error.hpp"

namespace weft::io {

/// Runs `f`; an error of type E gets the file's name.
template <class E, class F>
auto naming_file(const Path& path, const char* op, F&& f) {
  try {
    return f();
  } catch (const E& error) {
    const std::string text = error.what();
    throw E(fmt::format("[{}] {}: {}", op, path.string(), text.substr(std::min(text.size(), text.find("] ") + 2))));
  }
}

}  // namespace weft::io
