// A table of named columns of numbers or texts.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <vector>

#include "../tensor/index.hpp"

namespace weft::data {

struct Column {
  std::string name;
  /// [rows, …]; undefined for a column of texts.
  Tensor values = {};
  std::vector<std::string> texts = {};
  /// The text of each code of a category column: code i means categories[i].
  std::vector<std::string> categories = {};

  bool is_text() const { return !values.defined(); }
  int64_t rows() const { return is_text() ? static_cast<int64_t>(texts.size()) : values.size(0); }
};

namespace detail {
/// The name of operator[], with the location of the call.
struct Name {
  template <std::convertible_to<std::string_view> T>
  Name(const T& text_, Location where_ = {}) : text(text_), where(where_) {}  // NOLINT: converts implicitly
  std::string_view text;
  Location where;
};
}  // namespace detail

/// A value type; copies share the column tensors.
class WEFT_API Table {
 public:
  Table() = default;

  int64_t rows() const { return columns_.empty() ? 0 : columns_[0].rows(); }
  const std::vector<Column>& columns() const { return columns_; }
  std::vector<std::string> names() const;
  bool has(std::string_view name) const;
  /// Raises KeyError for an unknown name.
  const Column& column(std::string_view name, Location where = {}) const;
  /// Returns the values of a numeric column. Raises KeyError, and DTypeError for a column of texts.
  const Tensor& operator[](detail::Name name) const { return values(name.text, name.where); }
  const Tensor& values(std::string_view name, Location where = {}) const;
  /// Raises KeyError, and DTypeError for a numeric column.
  const std::vector<std::string>& texts(std::string_view name, Location where = {}) const;
  /// Returns numeric columns side by side as a new tensor [rows, names.size()]. Raises KeyError, DTypeError for a
  /// column of texts, and ShapeError for a column with more than one number per row.
  Tensor tensor(const std::vector<std::string>& names, DType dtype = DType::f32, Location where = {}) const;
  /// Raises ShapeError for another number of rows or a 0-d tensor, and ValueError for a duplicate name.
  void add(Column column, Location where = {});

 private:
  std::vector<Column> columns_;
};

}  // namespace weft::data
