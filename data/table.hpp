// Columns by name, of numbers or of texts, as files of tables hold them.
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
  /// What the codes of a column of categories stand for: code i for categories[i].
  std::vector<std::string> categories = {};

  bool is_text() const { return !values.defined(); }
  int64_t rows() const { return is_text() ? static_cast<int64_t>(texts.size()) : values.size(0); }
};

namespace detail {
/// A name between brackets, with the place of the call.
struct Name {
  template <std::convertible_to<std::string_view> T>
  Name(const T& text_, Location where_ = {}) : text(text_), where(where_) {}  // NOLINT: converts implicitly
  std::string_view text;
  Location where;
};
}  // namespace detail

/// A value; tensors of the columns are shared by copies.
class WEFT_API Table {
 public:
  Table() = default;

  int64_t rows() const { return columns_.empty() ? 0 : columns_[0].rows(); }
  const std::vector<Column>& columns() const { return columns_; }
  std::vector<std::string> names() const;
  bool has(std::string_view name) const;
  /// KeyError where there is none of this name.
  const Column& column(std::string_view name, Location where = {}) const;
  /// The numbers of a column. KeyError; DTypeError for a column of texts.
  const Tensor& operator[](detail::Name name) const { return values(name.text, name.where); }
  const Tensor& values(std::string_view name, Location where = {}) const;
  /// KeyError; DTypeError for a column of numbers.
  const std::vector<std::string>& texts(std::string_view name, Location where = {}) const;
  /// Columns of numbers side by side, [rows, names.size()]: a new tensor. KeyError; DTypeError for a column of texts,
  /// ShapeError where one has more than a number for each row.
  Tensor tensor(const std::vector<std::string>& names, DType dtype = DType::f32, Location where = {}) const;
  /// ShapeError for another number of rows and for a tensor without dimensions, ValueError for a name that is taken.
  void add(Column column, Location where = {});

 private:
  std::vector<Column> columns_;
};

}  // namespace weft::data
