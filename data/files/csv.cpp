#include "../csv.hpp"

#include <cmath>

#include <fmt/format.h>

#include "csv_columns-inl.hpp"
#include "../../io/file.hpp"
#include "../../io/json/utf8-inl.hpp"

namespace weft::data {

namespace {

Table read_all(std::string_view text, const CsvOptions& options, CsvPlace place) {
  CsvReader reader(text, options, std::move(place));
  reader.start();
  reader.read(INT64_MAX);
  reader.read_texts_again();
  return reader.take();
}

// ---- writing --------------------------------------------------------------------------------------------------------

class Printer {
 public:
  explicit Printer(const Column& column) : column_(column) {
    if (column.is_text()) return;
    const DType dtype = column.values.dtype();
    const Tensor cpu = column.values.to(Device());
    if (dtype == DType::boolean || !is_floating(dtype)) wholes_ = cpu.to(DType::i64).to_vector<int64_t>();
    else fractions_ = cpu.to(DType::f64).to_vector<double>();
  }
  std::string field(size_t row) const {
    if (column_.is_text()) return column_.texts[row];
    if (!fractions_.empty()) {
      const double value = fractions_[row];
      if (std::isnan(value)) return {};
      return column_.values.dtype() == DType::f64 ? fmt::format("{}", value)
                                                  : fmt::format("{}", static_cast<float>(value));
    }
    const int64_t value = wholes_[row];
    if (column_.values.dtype() == DType::boolean) return value != 0 ? "true" : "false";
    if (column_.categories.empty()) return fmt::format("{}", value);
    return value < 0 || value >= std::ssize(column_.categories) ? std::string()
                                                                : column_.categories[static_cast<size_t>(value)];
  }

 private:
  const Column& column_;
  std::vector<int64_t> wholes_;
  std::vector<double> fractions_;
};

}  // namespace

Table parse_csv(std::string_view text, const CsvOptions& options, Location where) {
  return read_all(text, options, {{}, "parse_csv", where});
}

Table read_csv(const io::Path& path, const CsvOptions& options, Location where) {
  return io::read_checked("read_csv", where, [&] {
    const io::MappedFile file = io::MappedFile::open(path, "read_csv", where);
    const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    return read_all(text, options, {path.string(), "read_csv", where});
  });
}

void write_csv(const Table& table, const io::Path& path, char delimiter, Location where) {
  const CallScope call("write_csv", where);
  std::vector<Printer> columns;
  std::string out;
  const bool alone = table.columns().size() == 1;
  for (const Column& column : table.columns()) {
    if (!column.is_text() && column.values.dim() != 1) {
      raise<ShapeError>(
          {.op = "write_csv",
           .problem = fmt::format("column {} has the shape {}", io::quoted(column.name), column.values.shape().text())},
          where);
    }
    if (!columns.empty()) out += delimiter;
    put_csv_field(out, column.name, delimiter, alone);
    columns.emplace_back(column);
  }
  out += '\n';
  for (size_t row = 0; row < static_cast<size_t>(table.rows()); ++row) {
    for (size_t i = 0; i < columns.size(); ++i) {
      if (i > 0) out += delimiter;
      put_csv_field(out, columns[i].field(row), delimiter, alone);
    }
    out += '\n';
  }
  io::write_file(path, out, "write_csv", where);
}

}  // namespace weft::data
