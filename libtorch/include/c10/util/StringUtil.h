// c10::str joins values into a string.
#pragma once

#include <sstream>
#include <string>
#include <vector>

namespace c10 {

template <class T>
std::ostream& operator<<(std::ostream& out, const std::vector<T>& values);

namespace detail {
inline void put(std::ostream&) {}
template <class T, class... A>
void put(std::ostream& out, const T& first, const A&... rest) {
  out << first;
  put(out, rest...);
}
}  // namespace detail

/// The values, one after the other, as operator<< prints them.
template <class... A>
std::string str(const A&... values) {
  std::ostringstream out;
  detail::put(out, values...);
  return out.str();
}
inline std::string str(const std::string& text) { return text; }
inline std::string str(const char* text) { return text; }

template <class Container>
std::string Join(const std::string& delimiter, const Container& values) {
  std::ostringstream out;
  bool first = true;
  for (const auto& value : values) {
    if (!first) out << delimiter;
    first = false;
    out << value;
  }
  return out.str();
}

template <class T>
std::string to_string(const T& value) {
  return str(value);
}

}  // namespace c10
