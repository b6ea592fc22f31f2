// Reads and writes x[…] for tensors, memory layouts and indices made from bytes, and compares with indexing_model.hpp.
//
//   indexing_fuzz                     random bytes for 3 seconds
//   indexing_fuzz --seconds 600       for longer; --seed N begins elsewhere
//   indexing_fuzz FILE...             the bytes of files, as a failure or libFuzzer leaves them
//
// Ten minutes under the sanitizers: ./weft build asan indexing_fuzz && build/asan/tests/fuzz/indexing_fuzz --seconds
// 600 With WEFT_LIBFUZZER it has no main of its own and libFuzzer drives it, where clang 19 and its runtime are
// installed: CXX=clang++-19 ./weft build asan indexing_libfuzzer && build/asan/tests/fuzz/indexing_libfuzzer
// -max_total_time=600
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>

#include <weft/ops/create.hpp>
#include <weft/ops/subscript.hpp>
#include <weft/ops/pointwise.hpp>

#include "indexing_model.hpp"

namespace weft::fuzz {
namespace {

/// Decisions; zeros when the bytes are used up.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : next_(data), end_(data + size) {}
  int64_t below(int64_t n) { return n <= 0 ? 0 : byte() % n; }
  bool one_in(int64_t n) { return byte() % n == n - 1; }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }

 private:
  int64_t byte() { return next_ == end_ ? 0 : *next_++; }
  const uint8_t *next_, *end_;
};

[[noreturn]] void fail(const std::string& what) { throw std::logic_error(what); }

// ---- tensors --------------------------------------------------------------------------------------------------------

constexpr std::array value_dtypes{i64, f32, u8, i32, f64, boolean, i16, i8, f16};
constexpr std::array index_dtypes{i64, i32, u8, i16, i8};

Shape random_shape(Bytes& b) {
  static constexpr std::array<int64_t, 16> sizes{2, 3, 1, 4, 2, 3, 5, 1, 0, 6, 2, 3, 4, 17, 2, 150};
  Shape shape;
  int64_t space = 1;  // of the block, which may be larger than an empty tensor
  for (int64_t rank = b.below(6); rank > 0; --rank) {
    const int64_t size = sizes[static_cast<size_t>(b.below(16))];
    if (space * size > 300) continue;
    shape.push_back(size);
    space *= std::max<int64_t>(size, 1);
  }
  return shape;
}

/// A tensor somewhere in a larger block.
struct Placed {
  Tensor block, view;
  /// The element of the block behind each element of the view.
  std::vector<int64_t> element;
  bool expanded = false;

  std::vector<int64_t> elements() const { return block.to_vector<int64_t>(); }
};

/// Applies `layout` to a block of data and to a block that counts its elements.
template <class F>
Placed placed(const Dims& block_shape, DType dtype, F&& layout) {
  const int64_t n = block_shape.product();
  Placed p{full(block_shape, dtype == boolean ? 0 : 125, dtype), {}, {}};
  p.view = layout(p.block);
  p.element = layout(arange(n).view(block_shape)).template to_vector<int64_t>();
  return p;
}

Placed random_place(Bytes& b, const Shape& shape, DType dtype, bool may_expand) {
  const int rank = static_cast<int>(shape.size());
  if (b.below(3) == 0) return placed(Dims(shape), dtype, [](const Tensor& t) { return t; });
  Dims order, block;
  for (int d = 0; d < rank; ++d) order.insert(static_cast<int>(b.below(d + 1)), d);
  struct Cut {
    int64_t before, step, after;
  };
  std::vector<Cut> cuts;
  int expanded = -1;
  for (int d = 0; d < rank; ++d) {
    cuts.push_back({b.one_in(4), (b.one_in(4) ? 2 : 1) * (b.one_in(3) ? -1 : 1), b.one_in(4)});
  }
  if (may_expand && rank > 0 && product(shape) > 0 && b.one_in(16)) expanded = static_cast<int>(b.below(rank));
  for (int i = 0; i < rank; ++i) {
    const int d = static_cast<int>(order[i]);
    const Cut& c = cuts[static_cast<size_t>(d)];
    const int64_t n = d == expanded ? 1 : shape[static_cast<size_t>(d)];
    block.push_back(c.before + n * std::abs(c.step) + c.after);
  }
  Dims back = Dims::filled(rank, 0);
  for (int i = 0; i < rank; ++i) back[static_cast<int>(order[i])] = i;
  Placed p = placed(block, dtype, [&](const Tensor& whole) {
    Tensor t = whole.permute(back);
    for (int d = 0; d < rank; ++d) {
      const Cut& c = cuts[static_cast<size_t>(d)];
      const int64_t n = d == expanded ? 1 : shape[static_cast<size_t>(d)];
      t = t.narrow(d, c.before, n * std::abs(c.step)).slice(d, {}, {}, c.step);
    }
    return expanded < 0 ? t : t.expand(Dims(shape));
  });
  p.expanded = expanded >= 0 && shape[static_cast<size_t>(expanded)] > 1;
  return p;
}

int64_t in_dtype(int64_t value, DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return value != 0;
    case DType::u8:
      return static_cast<uint8_t>(value);
    case DType::i8:
      return static_cast<int8_t>(value);
    case DType::i16:
      return static_cast<int16_t>(value);
    default:
      return value;
  }
}

void fill(const Placed& p, std::vector<int64_t>& values) {
  for (int64_t& value : values) value = in_dtype(value, p.view.dtype());
  if (p.expanded) return;
  p.view.copy_(tensor(std::span<const int64_t>(values), p.view.shape(), i64).to(p.view.dtype()));
}

// ---- indices --------------------------------------------------------------------------------------------------------

Array random_indices(Bytes& b, const Shape& joined, int64_t n) {
  Array a;
  for (const int64_t size : joined) a.shape.push_back(b.one_in(6) ? 1 : size);
  if (b.one_in(6)) a.shape.erase(a.shape.begin(), a.shape.begin() + b.below(static_cast<int64_t>(a.shape.size()) + 1));
  if (n == 0 && !b.one_in(8)) a.shape = {0};
  for (int64_t k = product(a.shape); k > 0; --k)
    a.values.push_back(b.one_in(255) ? n : b.between(-n, std::max<int64_t>(n - 1, 0)));
  return a;
}

Array random_mask(Bytes& b, const Shape& shape, const Shape& joined) {
  Array a{shape, std::vector<int64_t>(static_cast<size_t>(product(shape)))};
  const int64_t wanted = joined.empty() ? 1 : joined.back(), n = product(shape);
  if (b.one_in(2)) {
    for (int64_t& bit : a.values) bit = b.below(2);
  } else {
    for (int64_t k = 0; k < std::min(wanted, n); ++k) a.values[static_cast<size_t>((b.below(256) + k * 7) % n)] = 1;
  }
  if (!a.shape.empty() && b.one_in(32)) {
    a.shape[0] += 1;
    a.values.resize(static_cast<size_t>(product(a.shape)));
  }
  return a;
}

std::vector<Item> random_items(Bytes& b, const Shape& shape, bool basic) {
  static const std::vector<Shape> shapes{{2}, {3}, {1}, {2, 2}, {1, 3}, {2, 1}, {0}, {}, {2, 1, 2}, {40}};
  const Shape& joined = shapes[static_cast<size_t>(b.below(10))];
  std::vector<Item> items;
  const size_t rank = shape.size() + b.one_in(48);
  for (size_t d = 0; d < rank; ++d) {
    const int64_t n = d < shape.size() ? shape[d] : 3;
    switch (b.below(24)) {
      case 20:
        items.push_back({.kind = Item::none});
        break;
      case 21:
        items.push_back({.kind = Item::ellipsis});
        break;
      case 22:
        if (!basic) items.push_back({.kind = Item::boolean, .start = !b.one_in(3)});
        break;
      case 23:
        if (b.one_in(8)) return items;
        break;
      default:
        break;
    }
    const int64_t kind = b.below(basic ? 6 : 16);
    if (kind < 3 && (n > 0 || b.one_in(8))) {
      items.push_back({.kind = Item::integer, .start = b.one_in(64) ? n : b.between(-n, n - 1)});
    } else if (kind < 6 || d >= shape.size()) {
      Item item{.kind = Item::slice};
      if (b.one_in(2)) item.start = b.between(-n - 2, n + 2);
      if (b.one_in(2)) item.stop = b.between(-n - 2, n + 2);
      if (b.one_in(2)) item.step = b.between(-4, 4);
      if (item.step == 0 && !b.one_in(16)) item.step = -1;
      items.push_back(item);
    } else if (kind < 13) {
      items.push_back({.kind = Item::indices, .array = random_indices(b, joined, n)});
    } else if (kind < 15) {
      const auto end = static_cast<size_t>(b.between(static_cast<int64_t>(d), static_cast<int64_t>(shape.size())));
      items.push_back({.kind = Item::mask,
                       .array = random_mask(b,
                                            Shape(shape.begin() + static_cast<std::ptrdiff_t>(d),
                                                  shape.begin() + static_cast<std::ptrdiff_t>(end)),
                                            joined)});
      d = end - 1;  // a 0-d mask takes no dimension
    } else if (b.one_in(16)) {
      items.push_back({.kind = Item::floats, .array = {{1}, {0}}});
    } else {
      items.push_back({.kind = Item::slice});
    }
    if (items.size() > 24) break;
  }
  return items;
}

std::vector<Index> as_indices(Bytes& b, const std::vector<Item>& items) {
  std::vector<Index> out;
  for (const Item& item : items) {
    switch (item.kind) {
      case Item::integer:
        out.push_back(*item.start);
        break;
      case Item::slice:
        out.push_back(Slice(item.start, item.stop, item.step));
        break;
      case Item::none:
        out.push_back(None);
        break;
      case Item::ellipsis:
        out.push_back(Ellipsis);
        break;
      case Item::boolean:
        out.push_back(*item.start != 0);
        break;
      case Item::floats:
        out.push_back(zeros({1}));
        break;
      default: {
        std::vector<int64_t> values = item.array.values;
        DType dtype = item.kind == Item::mask ? boolean : index_dtypes[static_cast<size_t>(b.below(5))];
        // Indices that dtype does not hold keep 64 bits.
        for (const int64_t value : values) {
          if (dtype != boolean && (value < (dtype == u8 ? 0 : -128) || value > 127)) dtype = i64;
        }
        const Placed place = random_place(b, item.array.shape, dtype, false);
        fill(place, values);
        out.push_back(place.view);
      }
    }
  }
  return out;
}

// ---- in words -------------------------------------------------------------------------------------------------------

std::string text(const std::vector<int64_t>& list) {
  std::ostringstream out;
  for (const char* comma = "["; const int64_t value : list) out << std::exchange(comma, ", ") << value;
  return list.empty() ? "[]" : out.str() + "]";
}
std::string text(const Item& item) {
  const auto bound = [](const std::optional<int64_t>& value) { return value ? std::to_string(*value) : std::string(); };
  switch (item.kind) {
    case Item::integer:
      return bound(item.start);
    case Item::slice:
      return bound(item.start) + ":" + bound(item.stop) + ":" + std::to_string(item.step);
    case Item::none:
      return "None";
    case Item::ellipsis:
      return "...";
    case Item::boolean:
      return *item.start != 0 ? "True" : "False";
    case Item::floats:
      return "floats";
    case Item::mask:
      return "mask" + text(item.array.shape) + text(item.array.values);
    default:
      return "tensor" + text(item.array.shape) + text(item.array.values);
  }
}

/// The current trial, for messages.
struct Trial {
  std::string text;
  Placed x;
  Shape shape;
  std::vector<int64_t> values;
  std::vector<Item> items;
  std::vector<Index> index;

  void expect(const char* what, const std::vector<int64_t>& actual, const std::vector<int64_t>& expected) const {
    if (actual != expected) fail(text + "\n" + what + " " + fuzz::text(actual) + ", not " + fuzz::text(expected));
  }
};

std::vector<int64_t> taken(const std::vector<int64_t>& from, const std::vector<int64_t>& places) {
  std::vector<int64_t> out;
  for (const int64_t place : places) out.push_back(from[static_cast<size_t>(place)]);
  return out;
}

/// The numbers of correct results and of expected errors.
struct {
  uint64_t done = 0, refused = 0;
} calls;

/// Runs `f`, which must raise an Error unless `expected`, and then change nothing.
template <class F>
bool works(const Trial& t, bool expected, F&& f) {
  const std::vector<int64_t> before = t.x.elements();
  const uint32_t version = t.x.view.version();
  try {
    f();
  } catch (const Error& e) {
    if (expected) fail(t.text + "\nrefused: " + e.what());
    t.expect("what was refused changed x to", t.x.elements(), before);
    if (t.x.view.version() != version) fail(t.text + "\nwhat was refused raised the version");
    ++calls.refused;
    return false;
  }
  if (!expected) fail(t.text + "\nno error");
  ++calls.done;
  return true;
}

// ---- reading --------------------------------------------------------------------------------------------------------

void check_read(const Trial& t, const std::optional<Selected>& selected) {
  Tensor y;
  if (!works(t, selected.has_value(), [&] { y = t.x.view[t.index]; })) return;
  t.expect("the shape is", Shape(y.sizes().begin(), y.sizes().end()), selected->shape);
  t.expect("the elements are", y.to_vector<int64_t>(), taken(t.values, selected->places));
}

void check_read_gradient(const Trial& t, const Selected& selected) {
  const Tensor x = t.x.view.detach().requires_grad_();
  const Tensor y = x[t.index];
  y.backward(arange(1, 1 + y.numel()).view(y.shape()).to(y.dtype()));
  std::vector<int64_t> expected(t.values.size());
  for (size_t k = 0; k < selected.places.size(); ++k) {
    expected[static_cast<size_t>(selected.places[k])] += static_cast<int64_t>(k) + 1;
  }
  t.expect("the gradient is", x.grad().to_vector<int64_t>(), expected);
}

// ---- writing --------------------------------------------------------------------------------------------------------

struct Value {
  Shape shape;
  std::vector<int64_t> values;
  Tensor tensor;
};

Value random_value(Bytes& b, const Trial& t, const Shape& selected) {
  Value v;
  if (b.one_in(8) && !t.x.expanded) {
    // A part of x itself.
    const std::vector<Item> items = random_items(b, t.shape, true);
    try {
      const Selected part = select(t.shape, items, 1 << 12);
      v = {part.shape, taken(t.values, part.places), t.x.view[as_indices(b, items)]};
      return v;
    } catch (const Refused&) {
    }
  }
  v.shape = selected;
  for (int64_t& size : v.shape) {
    if (b.one_in(5)) size = 1;
    if (b.one_in(100)) size = b.below(4);
  }
  if (b.one_in(4)) {
    v.shape.erase(v.shape.begin(), v.shape.begin() + b.below(static_cast<int64_t>(v.shape.size()) + 1));
  }
  if (b.one_in(8) && v.shape.size() < 8) v.shape.insert(v.shape.begin(), b.one_in(8) ? 2 : 1);
  for (int64_t k = 0; k < product(v.shape); ++k) v.values.push_back((3 * k + 7) % 110);
  const DType dtype = b.one_in(4) ? value_dtypes[static_cast<size_t>(b.below(9))] : t.x.view.dtype();
  const Placed place = random_place(b, v.shape, dtype, false);
  fill(place, v.values);
  v.tensor = place.view;
  return v;
}

/// Where each selected element's value comes from; nothing where the write is an error.
std::optional<std::vector<int64_t>> sources(const std::optional<Selected>& selected, const Value& v) {
  if (!selected) return {};
  try {
    return spread(v.shape, selected->shape);
  } catch (const Refused&) {
    return {};
  }
}

std::vector<int64_t> written(const Trial& t, const Selected& selected, const Value& v, const std::vector<int64_t>& from,
                             bool add) {
  const DType dtype = t.x.view.dtype();
  std::vector<int64_t> out = t.values;
  for (size_t k = 0; k < from.size(); ++k) {
    int64_t& place = out[static_cast<size_t>(selected.places[k])];
    const int64_t term = in_dtype(v.values[static_cast<size_t>(from[k])], dtype);
    place = add ? in_dtype(place + term, dtype) : term;
  }
  return out;
}

void check_write_gradient(const Trial& t, const Selected& selected, const Value& v, const std::vector<int64_t>& from,
                          bool add) {
  const Tensor x = t.x.view.detach().requires_grad_(), value = v.tensor.clone().detach().requires_grad_();
  const Tensor y = index_put(x, t.index, value, add);
  y.backward(arange(1, 1 + y.numel()).view(y.shape()).to(y.dtype()));
  std::vector<int64_t> dx(t.values.size()), dv(v.values.size());
  for (size_t k = 0; k < dx.size(); ++k) dx[k] = static_cast<int64_t>(k) + 1;
  std::map<int64_t, size_t> last;  // the position whose value stays at each place
  for (size_t k = 0; k < from.size(); ++k) last[selected.places[k]] = k;
  for (size_t k = 0; k < from.size(); ++k) {
    if (add || last[selected.places[k]] == k) dv[static_cast<size_t>(from[k])] += selected.places[k] + 1;
    if (!add) dx[static_cast<size_t>(selected.places[k])] = 0;
  }
  t.expect("the gradient of x is", x.grad().to_vector<int64_t>(), dx);
  t.expect("the gradient of the value is", value.grad().to_vector<int64_t>(), dv);
}

void check_write(Bytes& b, Trial& t, const std::optional<Selected>& selected) {
  const Value v = random_value(b, t, selected ? selected->shape : Shape{1});
  const bool add = b.one_in(3);
  const DType dtype = t.x.view.dtype();
  t.text += (add ? " += " : " = ") + std::string(name(v.tensor.dtype())) + text(v.shape) +
            (v.tensor.shares_storage(t.x.view) ? " of x" : "");
  const auto from = sources(selected, v);
  const auto expected = from ? std::optional(written(t, *selected, v, *from, add)) : std::nullopt;
  const bool exact = dtype != f16 || !expected || std::ranges::all_of(*expected, [](int64_t n) { return n <= 2048; });
  if (!exact) return;

  Tensor copy;
  if (works(t, expected.has_value(), [&] { copy = index_put(t.x.view, t.index, v.tensor, add); })) {
    t.expect("index_put gives", copy.to_vector<int64_t>(), *expected);
    if (dtype == f64 && v.tensor.dtype() == f64) check_write_gradient(t, *selected, v, *from, add);
  }
  std::vector<int64_t> block = t.x.elements();
  const bool done = works(t, expected && !t.x.expanded, [&] {
    if (add) t.x.view.index_put_(t.index, v.tensor, true);
    else t.x.view[t.index] = v.tensor;
  });
  if (!done) return;
  for (size_t k = 0; k < expected->size(); ++k) block[static_cast<size_t>(t.x.element[k])] = (*expected)[k];
  t.expect("x and what surrounds it become", t.x.elements(), block);
}

void check(const uint8_t* data, size_t size) {
  Bytes b(data, size);
  Trial t;
  t.shape = random_shape(b);
  const DType dtype = value_dtypes[static_cast<size_t>(b.below(9))];
  t.x = random_place(b, t.shape, dtype, true);
  for (int64_t k = 0; k < product(t.shape); ++k) t.values.push_back(k % 120);
  if (t.x.expanded) t.values.assign(t.values.size(), dtype == boolean ? 0 : 125);
  fill(t.x, t.values);
  t.items = random_items(b, t.shape, b.one_in(4));
  t.index = as_indices(b, t.items);
  t.text = std::string(name(dtype)) + text(t.shape) + " of strides " + t.x.view.strides().text() + ", x[";
  for (const char* comma = ""; const Item& item : t.items) t.text += std::exchange(comma, ", ") + text(item);
  t.text += "]";
  std::optional<Selected> selected;
  try {
    selected = select(t.shape, t.items, 1 << 12);
  } catch (const Refused&) {
  } catch (const Open&) {
    return;
  }
  check_read(t, selected);
  if (selected && dtype == f64) check_read_gradient(t, *selected);
  check_write(b, t, selected);
}

}  // namespace
}  // namespace weft::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    weft::fuzz::check(data, size);
  } catch (const std::logic_error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    std::abort();
  }
  return 0;
}

#ifndef WEFT_LIBFUZZER
namespace {

using Input = std::vector<uint8_t>;

std::string failure(const Input& input) {
  try {
    weft::fuzz::check(input.data(), input.size());
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

Input random_input(uint64_t seed) {
  const auto next = [&seed] {
    seed += 0x9e3779b97f4a7c15;
    uint64_t z = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  };
  next();
  Input input(8 + next() % 250);
  for (uint8_t& byte : input) byte = static_cast<uint8_t>(next());
  return input;
}

/// Prints the failure for the shortest failing prefix of the input, and writes the prefix to a file.
void report(Input input, uint64_t seed) {
  while (!input.empty() && !failure(Input(input.begin(), input.end() - 1)).empty()) input.pop_back();
  const std::string file = "indexing_fuzz." + std::to_string(seed);
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(input.data()), static_cast<std::streamsize>(input.size()));
  std::printf("FAILED seed %llu, %zu bytes in %s\n%s\n", static_cast<unsigned long long>(seed), input.size(),
              file.c_str(), failure(input).c_str());
}

int replay(int count, char** files) {
  int failures = 0;
  for (int i = 0; i < count; ++i) {
    std::ifstream file(files[i], std::ios::binary);
    const Input input((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const std::string text = failure(input);
    std::printf("%s: %s\n", files[i], text.empty() ? "passed" : text.c_str());
    failures += !text.empty();
  }
  return failures != 0;
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 3;
  uint64_t seed = 1;
  int i = 1;
  for (; i + 1 < argc && std::strncmp(argv[i], "--", 2) == 0; i += 2) {
    if (std::strcmp(argv[i], "--seconds") == 0) seconds = std::atof(argv[i + 1]);
    else if (std::strcmp(argv[i], "--seed") == 0) seed = std::strtoull(argv[i + 1], nullptr, 10);
    else return std::fprintf(stderr, "unknown option %s\n", argv[i]), 2;
  }
  if (i < argc) return replay(argc - i, argv + i);
  using clock = std::chrono::steady_clock;
  const auto start = clock::now();
  int failures = 0;
  uint64_t runs = 0;
  for (; failures < 10 && clock::now() - start < std::chrono::duration<double>(seconds); ++runs, ++seed) {
    const Input input = random_input(seed);
    if (failure(input).empty()) continue;
    report(input, seed);
    ++failures;
  }
  const auto count = [](uint64_t n) { return static_cast<unsigned long long>(n); };
  std::printf("%llu inputs, %llu calls done and %llu refused, %d failures\n", count(runs),
              count(weft::fuzz::calls.done), count(weft::fuzz::calls.refused), failures);
  return runs == 0 || failures != 0;
}
#endif
