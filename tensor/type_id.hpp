// TypeId: which type something has, also in programs that are compiled without RTTI.
#pragma once

#include <string_view>

#include "config.hpp"

namespace weft {

/// Identifies a type, as std::type_info does. Equal for the same type in a program and in shared libraries.
class TypeId {
 public:
  template <class T>
  static TypeId of() {
    return TypeId(&tag<T>, signature<T>());
  }
  /// The compiler's spelling, with namespaces and template arguments.
  WEFT_API std::string_view name() const;
  friend bool operator==(TypeId a, TypeId b) { return a.tag_ == b.tag_ || a.has_name_of(b); }

 private:
  TypeId(const void* tag, const char* signature) : tag_(tag), signature_(signature) {}
  /// False for types without linkage to other files, and for local types: several may have one name.
  WEFT_API bool has_name_of(TypeId other) const;

  template <class T>
  inline static char tag = 0;
  template <class T>
  static const char* signature() {
    return __PRETTY_FUNCTION__;
  }

  const void* tag_;
  const char* signature_;
};

}  // namespace weft
