// std::cout << tensor, as libtorch's C++ interface prints it: one column or matrix, then "[ CPUFloatType{2,3} ]".
#include <cmath>
#include <iomanip>
#include <ostream>

#include <ATen/ATen.h>

namespace at {

namespace {

/// How the elements of one tensor are printed.
struct Format {
  bool scientific = false, fixed = false;
  double scale = 1;
  int width = 0;

  void put(std::ostream& out, double value) const {
    if (scientific) out << std::scientific << std::setprecision(4);
    else if (fixed) out << std::fixed << std::setprecision(4);
    else out << std::defaultfloat << std::setprecision(10);
    out << std::setw(width) << value / scale;
  }
};

double digits_before_point(double magnitude) { return magnitude == 0 ? 1 : std::floor(std::log10(magnitude)) + 1; }

struct Magnitudes {
  bool whole = true;
  double low = 1, high = 1;
};
Magnitudes magnitudes_of(const double* values, int64_t n) {
  Magnitudes found;
  bool any = false;
  for (int64_t i = 0; i < n; ++i) {
    const double magnitude = std::fabs(values[i]);
    if (!std::isfinite(magnitude)) continue;
    found.whole &= magnitude == std::ceil(magnitude);
    found.low = any ? std::min(found.low, magnitude) : magnitude;
    found.high = any ? std::max(found.high, magnitude) : magnitude;
    any = true;
  }
  return found;
}

Format format_of(const double* values, int64_t n) {
  const Magnitudes found = magnitudes_of(values, n);
  const bool any = n > 0;
  const double low = any ? digits_before_point(found.low) : 1, high = any ? digits_before_point(found.high) : 1;
  Format format;
  if (found.whole) {
    format.scientific = high > 9;
    format.width = format.scientific ? 11 : static_cast<int>(high) + 1;
    return format;
  }
  if (high - low > 4) {
    format.scientific = true;
    format.width = std::fabs(high) > 99 || std::fabs(low) > 99 ? 12 : 11;
    return format;
  }
  format.fixed = true;
  if (high > 5 || high < 0) {
    format.width = 7;
    format.scale = std::pow(10, high - 1);
  } else {
    format.width = high == 0 ? 7 : static_cast<int>(high) + 6;
  }
  return format;
}

void put_scale(std::ostream& out, const Format& format) { out << std::defaultfloat << format.scale << " *\n"; }

void put_matrix(std::ostream& out, const double* values, int64_t rows, int64_t columns, int64_t line, int indent) {
  const Format format = format_of(values, rows * columns);
  const std::string margin(static_cast<size_t>(indent), ' ');
  const int64_t per_line = std::max<int64_t>(1, (line - indent) / (format.width + 1));
  for (int64_t first = 0; first < columns; first += per_line) {
    const int64_t last = std::min(first + per_line, columns);
    if (per_line < columns) {
      if (first != 0) out << '\n';
      out << "Columns " << first + 1 << " to " << last << margin;
    }
    if (format.scale != 1) {
      put_scale(out, format);
      out << margin;
    }
    for (int64_t row = 0; row < rows; ++row) {
      if (row > 0) out << margin;
      if (row > 0 && format.scale != 1) out << ' ';
      for (int64_t column = first; column < last; ++column) {
        format.put(out, values[row * columns + column]);
        out << (column + 1 == last ? "\n" : " ");
      }
    }
  }
}

void put_matrices(std::ostream& out, const double* values, IntArrayRef sizes, int64_t line) {
  const int64_t rows = sizes[sizes.size() - 2], columns = sizes.back();
  std::vector<int64_t> counter(sizes.size() - 2);
  int64_t matrices = 1;
  for (size_t i = 0; i < counter.size(); ++i) matrices *= sizes[i];
  for (int64_t m = 0; m < matrices; ++m) {
    if (m > 0) out << '\n';
    int64_t rest = m;
    for (size_t i = counter.size(); i-- > 0; rest /= sizes[i]) counter[i] = rest % sizes[i];
    out << '(';
    for (int64_t c : counter) out << c + 1 << ',';
    out << ".,.) = \n ";
    put_matrix(out, values + m * rows * columns, rows, columns, line, 1);
  }
}

void put_type(std::ostream& out, const Tensor& tensor) {
  out << "[ " << tensor.toString() << '{';
  const char* comma = "";
  for (int64_t n : tensor.sizes()) {
    out << comma << n;
    comma = ",";
  }
  out << "} ]";
}

}  // namespace

std::ostream& print(std::ostream& out, const Tensor& tensor, int64_t line_size) {
  if (!tensor.defined()) return out << "[ Tensor (undefined) ]";
  std::ios state(nullptr);
  state.copyfmt(out);
  if (tensor.is_meta() || tensor.is_complex()) {
    if (tensor.is_complex()) out << tensor.text() << '\n';
    put_type(out, tensor);
    return out;
  }
  const weft::NoGradGuard unrecorded;
  const std::vector<double> values = tensor.weft::Tensor::to(weft::Device()).to_vector<double>();
  const IntArrayRef sizes = tensor.sizes();
  if (sizes.empty()) {
    out << std::defaultfloat << values[0] << '\n';
  } else if (sizes.size() == 1) {
    const Format format = format_of(values.data(), sizes[0]);
    if (sizes[0] > 0 && format.scale != 1) put_scale(out, format);
    for (double value : values) {
      format.put(out, value);
      out << '\n';
    }
  } else if (tensor.numel() > 0) {
    if (sizes.size() == 2) put_matrix(out, values.data(), sizes[0], sizes[1], line_size, 0);
    else put_matrices(out, values.data(), sizes, line_size);
  }
  put_type(out, tensor);
  out.copyfmt(state);
  return out;
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return print(out, tensor, 80); }

}  // namespace at
