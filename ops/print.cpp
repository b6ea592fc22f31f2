// Prints tensors as PyTorch does in Python: one format for all elements, large tensors summarised.
#include "../tensor/print.hpp"

#include <cctype>
#include <cmath>
#include <mutex>
#include <ostream>
#include <string_view>

#include <fmt/format.h>

#include "../tensor/layout.hpp"
#include "../tensor/tensor.hpp"

namespace weft {

namespace {

constinit std::mutex options_mutex;
constinit PrintOptions options_now;

// The printed elements, in order, and their positions along each dimension.
struct Shown {
  const View& view;
  const PrintOptions& options;
  bool summarised;

  bool elided(int dim) const { return summarised && view.layout.sizes[dim] > 2 * options.edge_items; }
  template <class F>
  void along(int dim, F&& visit) const {
    const int64_t n = view.layout.sizes[dim];
    for (int64_t i = 0; i < n; ++i) {
      if (elided(dim) && i == options.edge_items) i = n - options.edge_items;
      if (i < n) visit(i);
    }
  }
  template <class F>
  void elements(F&& visit, int dim = 0, int64_t offset = 0) const {
    if (dim == view.layout.rank) return visit(static_cast<const char*>(view.data) + offset);
    along(dim, [&](int64_t i) { elements(visit, dim + 1, offset + i * view.layout.strides[dim]); });
  }
};

double as_double(DType t, const char* element) {
  return visit_dtype(t, [&]<class T>() -> double {
    const T value = element_at<T>(element);
    if constexpr (std::is_arithmetic_v<T>) return static_cast<double>(value);
    else if constexpr (ComplexNumber<T>) return static_cast<double>(value.re);
    else return to_float(value);
  });
}

class RealFormat {
 public:
  explicit RealFormat(const Shown& shown) : dtype_(shown.view.layout.dtype), digits_(shown.options.precision) {
    if (is_floating(dtype_)) choose(shown);
    scientific_ = is_floating(dtype_) && shown.options.scientific.value_or(scientific_);
    shown.elements([&](const char* e) {
      if (sets_width(e)) width_ = std::max(width_, text(e).size());
    });
  }

  std::string padded(const char* element) const { return fmt::format("{:>{}}", text(element), width_); }
  std::string text(const char* element) const {
    if (dtype_ == DType::boolean) return element_at<bool>(element) ? "True" : "False";
    if (dtype_ == DType::u64) return fmt::format("{}", element_at<uint64_t>(element));
    if (is_integer(dtype_)) {
      return visit_dtype(dtype_, [&]<class T>() -> std::string {
        if constexpr (std::is_integral_v<T>) return fmt::format("{}", +element_at<T>(element));
        else return {};
      });
    }
    const double value = as_double(dtype_, element);
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    if (scientific_) return fmt::format("{:.{}e}", value, digits_);
    return whole_ ? fmt::format("{:.0f}.", value) : fmt::format("{:.{}f}", value, digits_);
  }
  size_t width() const { return width_; }

 private:
  // As in PyTorch, zeros, infinities and NaN do not determine the width.
  bool sets_width(const char* element) const {
    if (!is_floating(dtype_)) return true;
    const double value = as_double(dtype_, element);
    return std::isfinite(value) && value != 0;
  }

  void choose(const Shown& shown) {
    double low = INFINITY, high = 0;
    shown.elements([&](const char* e) {
      const double magnitude = std::fabs(as_double(dtype_, e));
      if (!std::isfinite(magnitude) || magnitude == 0) return;
      whole_ &= magnitude == std::ceil(magnitude);
      low = std::min(low, magnitude);
      high = std::max(high, magnitude);
    });
    if (high == 0) return;
    scientific_ = high / low > 1000.0 || high > 1e8 || (!whole_ && low < 1e-4);
  }

  DType dtype_;
  int digits_;
  bool whole_ = true;
  bool scientific_ = false;
  size_t width_ = 0;
};

/// Format of complex elements: one format for each part.
class Format {
 public:
  explicit Format(const Shown& shown) : Format(shown, is_complex(shown.view.layout.dtype)) {}

  std::string text(const char* element) const {
    if (!imaginary_) return real_.text(element);
    const std::string second = imaginary_->text(element + half_);
    return real_.padded(element) + (second.front() == '-' ? second : "+" + second) + "j";
  }
  std::string padded(const char* element) const { return imaginary_ ? text(element) : real_.padded(element); }
  size_t width() const { return imaginary_ ? real_.width() + imaginary_->width() + 2 : real_.width(); }

 private:
  Format(const Shown& shown, bool complex) : real_(complex ? part(shown, 0) : RealFormat(shown)) {
    if (!complex) return;
    imaginary_.emplace(part(shown, 1));
    half_ = itemsize(shown.view.layout.dtype) / 2;
  }
  static RealFormat part(const Shown& shown, int which) {
    const View view = part_view(shown.view, which);
    return RealFormat(Shown{view, shown.options, shown.summarised});
  }

  RealFormat real_;
  std::optional<RealFormat> imaginary_;
  int64_t half_ = 0;
};

std::string row(const Shown& shown, const Format& format, int64_t offset, int indent) {
  const Layout& layout = shown.view.layout;
  const int dim = layout.rank - 1;
  const auto width = static_cast<int64_t>(format.width()) + 2;
  const int64_t per_line = std::max<int64_t>(1, (shown.options.line_width - indent) / width);
  std::string out = "[";
  int64_t on_line = 0;
  const auto put = [&](const std::string& item, bool first) {
    if (!first) out += on_line % per_line == 0 ? fmt::format(",\n{:{}}", "", indent + 1) : ", ";
    out += item;
    ++on_line;
  };
  const int64_t edge = shown.options.edge_items;
  if (shown.elided(dim) && edge == 0) put("...", true);
  shown.along(dim, [&](int64_t i) {
    if (shown.elided(dim) && i == layout.sizes[dim] - edge) put(" ...", false);
    const char* element = static_cast<const char*>(shown.view.data) + offset + i * layout.strides[dim];
    put(format.padded(element), i == 0);
  });
  return out + "]";
}

std::string block(const Shown& shown, const Format& format, int dim, int64_t offset, int indent) {
  const Layout& layout = shown.view.layout;
  if (layout.rank == 0) return format.text(static_cast<const char*>(shown.view.data));
  if (dim == layout.rank - 1) return row(shown, format, offset, indent);
  const std::string separator = "," + std::string(static_cast<size_t>(layout.rank - 1 - dim), '\n') +
                                std::string(static_cast<size_t>(indent) + 1, ' ');
  std::string out = "[";
  const int64_t edge = shown.options.edge_items;
  if (shown.elided(dim) && edge == 0) out += "...";
  shown.along(dim, [&](int64_t i) {
    if (i != 0) out += separator;
    if (shown.elided(dim) && i == layout.sizes[dim] - edge) out += "..." + separator;
    out += block(shown, format, dim + 1, offset + i * layout.strides[dim], indent + 1);
  });
  return out + "]";
}

// "grad_fn=<MulBackward0>" for the op mul, "grad_fn=<LogSoftmaxBackward0>" for log_softmax.
std::string pytorch_node_name(std::string_view op) {
  std::string text;
  bool starts = true;
  for (const char c : op) {
    if (c == '_') {
      starts = true;
      continue;
    }
    text += starts ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    starts = false;
  }
  return text + "Backward0";
}

std::string history_text(const Tensor& t, const PrintOptions& options) {
  if (!t.requires_grad()) return {};
  if (t.is_leaf()) return ", requires_grad=True";
  if (!options.pytorch_names) return ", requires_grad=True, not a leaf";
  return fmt::format(", grad_fn=<{}>", pytorch_node_name(detail::producing_op(t.impl())));
}

}  // namespace

PrintOptions print_options() {
  const std::lock_guard lock(options_mutex);
  return options_now;
}

void set_print_options(const PrintOptions& options, Location where) {
  const CallScope call("set_print_options", where);
  const bool valid = options.precision >= 0 && options.threshold >= 0 && options.edge_items >= 0;
  if (!valid || options.line_width < 0) {
    raise<ValueError>(
        {.problem = fmt::format("expected numbers from 0 on, got precision {}, threshold {}, edge_items "
                                "{}, line_width {}",
                                options.precision, options.threshold, options.edge_items, options.line_width)});
  }
  const std::lock_guard lock(options_mutex);
  options_now = options;
}

std::string Tensor::text() const {
  if (!defined()) return "tensor(undefined)";
  const PrintOptions options = print_options();
  std::string notes;
  const bool usual = real_type(dtype()) == default_dtype() || dtype() == DType::i64 || dtype() == DType::boolean;
  std::string body;
  if (device().type == DeviceType::meta) {
    body = "...";
    notes += fmt::format(", size=({}{})", fmt::join(shape(), ", "), dim() == 1 ? "," : "");
  } else if (numel() == 0) {
    body = "[]";
    if (dim() != 1) notes += fmt::format(", size=({}{})", fmt::join(shape(), ", "), dim() == 1 ? "," : "");
  } else {
    const Tensor host = detach().to(Device());
    const Shown shown{host.raw_view(), options, numel() > options.threshold};
    body = block(shown, Format(shown), 0, 0, 7);
  }
  if (!device().is_cpu()) notes += fmt::format(", device='{}'", device().name());
  if (!usual || (numel() == 0 && dtype() != default_dtype())) {
    notes += fmt::format(", dtype={}{}", options.pytorch_names ? "torch." : "", name(dtype()));
  }
  notes += history_text(*this, options);
  return fmt::format("tensor({}{})", body, notes);
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << tensor.text(); }
std::ostream& operator<<(std::ostream& out, const Dims& dims) { return out << dims.text(); }
std::ostream& operator<<(std::ostream& out, DType t) { return out << name(t); }
std::ostream& operator<<(std::ostream& out, Device device) { return out << device.name(); }

}  // namespace weft
