// A path type that does not need <filesystem>, which would add half a second to the compile time of every file that
// includes Weft.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <utility>

namespace weft::io {

template <class P>
concept NativePath = requires(const P& path) {
  { path.native() } -> std::convertible_to<const std::string&>;
};

/// The path of a file or folder. Converts from a string or a std::filesystem::path, and to the latter.
class Path {
 public:
  Path() = default;
  Path(const char* name) : name_(name) {}
  Path(std::string name) : name_(std::move(name)) {}
  Path(std::string_view name) : name_(name) {}
  template <NativePath P>
  Path(const P& path) : name_(path.native()) {}
  template <NativePath P>
  operator P() const {
    return P(name_);
  }

  const std::string& string() const { return name_; }
  const char* c_str() const { return name_.c_str(); }
  bool empty() const { return name_.empty(); }
  /// Joins the paths; returns `name` if it is absolute.
  friend Path operator/(const Path& folder, std::string_view name) {
    if (folder.empty() || name.starts_with('/')) return name;
    return folder.name_ + (folder.name_.ends_with('/') ? "" : "/") + std::string(name);
  }
  friend bool operator==(const Path&, const Path&) = default;

 private:
  std::string name_;
};

}  // namespace weft::io
