#include "../table.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "../../io/json/utf8-inl.hpp"
#include "../../ops/create.hpp"
#include "../../ops/join.hpp"

namespace weft::data {

std::vector<std::string> Table::names() const {
  std::vector<std::string> out;
  for (const Column& column : columns_) out.push_back(column.name);
  return out;
}

bool Table::has(std::string_view name) const {
  return std::ranges::find(columns_, name, &Column::name) != columns_.end();
}

const Column& Table::column(std::string_view name, Location where) const {
  const auto found = std::ranges::find(columns_, name, &Column::name);
  if (found != columns_.end()) return *found;
  raise<KeyError>({.op = "Table", .problem = fmt::format("there is no column {}", io::quoted(name))}, where);
}

const Tensor& Table::values(std::string_view name, Location where) const {
  const Column& found = column(name, where);
  if (!found.is_text()) return found.values;
  raise<DTypeError>({.op = "Table", .problem = fmt::format("column {} holds texts", io::quoted(name))}, where);
}

const std::vector<std::string>& Table::texts(std::string_view name, Location where) const {
  const Column& found = column(name, where);
  if (found.is_text()) return found.texts;
  raise<DTypeError>({.op = "Table", .problem = fmt::format("column {} holds numbers", io::quoted(name))}, where);
}

Tensor Table::tensor(const std::vector<std::string>& names, DType dtype, Location where) const {
  const CallScope call("Table.tensor", where);
  std::vector<Tensor> parts;
  for (const std::string& name : names) {
    const Tensor& part = values(name, where);
    if (part.dim() != 1) {
      raise<ShapeError>({.op = "Table.tensor",
                         .problem = fmt::format("column {} has the shape {}", io::quoted(name), part.shape().text())},
                        where);
    }
    parts.push_back(part.to(dtype));
  }
  return parts.empty() ? empty({rows(), 0}, {.dtype = dtype}) : stack(parts, 1);
}

void Table::add(Column column, Location where) {
  if (has(column.name)) {
    raise<ValueError>(
        {.op = "Table.add", .problem = fmt::format("there is a column {} already", io::quoted(column.name))}, where);
  }
  if (!column.is_text() && column.values.dim() == 0) {
    raise<ShapeError>({.op = "Table.add", .problem = fmt::format("column {} has no rows", io::quoted(column.name))},
                      where);
  }
  if (!columns_.empty() && column.rows() != rows()) {
    raise<ShapeError>(
        {.op = "Table.add",
         .problem = fmt::format("column {} has {} rows, the table {}", io::quoted(column.name), column.rows(), rows())},
        where);
  }
  columns_.push_back(std::move(column));
}

}  // namespace weft::data
