// Tensors of more than 2^31 and 2^32 elements: no size, offset, stride or loop counter may be 32 bits wide.
//
// Nonzero elements are where such a counter would wrap, all others are 0: a misplaced element is missing at its own
// position. One test takes up to 12 GB and a minute; they run under `./weft test -L large`.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include <weft/autograd/engine.hpp>
#include <weft/autograd/mode.hpp>
#include <weft/io/npz.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/subscript.hpp>
#include <weft/ops/join.hpp>
#include <weft/ops/masked.hpp>
#include <weft/ops/moe.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/rearrange.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/ops/scan.hpp>
#include <weft/ops/scatter.hpp>
#include <weft/tensor/allocator.hpp>

namespace weft::testing {
namespace {

constexpr int64_t gigabyte = 1'000'000'000, needed = 12 * gigabyte;
constexpr int64_t two31 = int64_t{1} << 31, two32 = int64_t{1} << 32;
constexpr std::array lengths{two31 - 2, two31 + 7, two32 + 5};

using Longs = std::vector<int64_t>;

int64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  int64_t kilobytes = 0;
  while (file >> key >> kilobytes >> unit) {
    if (key == "MemAvailable:") return kilobytes * 1024;
  }
  return 0;
}

/// Both ends of [0, n), and both sides of 2^31 and 2^32.
Longs edges(int64_t n) {
  std::set<int64_t> places;
  for (const int64_t at : {int64_t{0}, two31, two32, n}) {
    for (int64_t i = at - 2; i <= at + 1; ++i) {
      if (i >= 0 && i < n) places.insert(i);
    }
  }
  return Longs(places.begin(), places.end());
}

uint8_t mark(size_t k) { return static_cast<uint8_t>(3 * k + 1); }

Tensor marked(const Longs& places, const Dims& shape) {
  const Tensor x = zeros(shape, u8);
  for (size_t k = 0; k < places.size(); ++k) x.data<uint8_t>()[places[k]] = mark(k);
  return x;
}

/// The contiguous bytes of t are marks at `places` and 0 elsewhere.
void expect_marks(const Tensor& t, const Longs& places, int factor = 1) {
  ASSERT_TRUE(t.is_contiguous());
  ASSERT_EQ(t.itemsize(), 1);
  const auto* bytes = static_cast<const uint8_t*>(t.data_ptr());
  for (size_t k = 0; k < places.size(); ++k) EXPECT_EQ(bytes[places[k]], factor * mark(k)) << "at " << places[k];
  const int64_t blank = std::count(bytes, bytes + t.numel(), 0);
  EXPECT_EQ(blank, t.numel() - static_cast<int64_t>(places.size())) << "elements are 0";
}
void expect_all(const Tensor& t, uint8_t value) {
  ASSERT_TRUE(t.is_contiguous());
  const auto* bytes = static_cast<const uint8_t*>(t.data_ptr());
  EXPECT_EQ(std::count(bytes, bytes + t.numel(), value), t.numel());
}

struct Large : ::testing::TestWithParam<int64_t> {
  const int64_t n = GetParam();
  const Longs places = edges(n);

  void SetUp() override {
    if (std::getenv("WEFT_TEST_LARGE") == nullptr) GTEST_SKIP() << "takes 12 GB: ./weft test -L large";
    if (available_memory() < needed) GTEST_SKIP() << "takes 12 GB, " << available_memory() / gigabyte << " are free";
    set_memory_limit({}, needed);
  }
  void TearDown() override {
    set_memory_limit({}, 0);
    empty_cache();
  }

  Tensor marked() const { return testing::marked(places, {n}); }
  Longs marks() const {
    Longs out;
    for (size_t k = 0; k < places.size(); ++k) out.push_back(mark(k));
    return out;
  }
  int64_t total() const {
    int64_t sum = 0;
    for (const int64_t m : marks()) sum += m;
    return sum;
  }
  Longs reversed() const {
    Longs out;
    for (const int64_t i : places) out.push_back(n - 1 - i);
    return out;
  }
  /// Every element 0 of something, n times, without the memory.
  Tensor repeated(DType dtype, int value = 0) const { return full({1}, value, dtype).expand({n}); }
};
std::string size_name(const ::testing::TestParamInfo<int64_t>& size) {
  constexpr std::array names{"BelowTwo31", "AboveTwo31", "AboveTwo32"};
  return names.at(size.index);
}
INSTANTIATE_TEST_SUITE_P(Size, Large, ::testing::ValuesIn(lengths), size_name);

// ---- copies and pointwise -------------------------------------------------------------------------------------------

TEST_P(Large, Fill) {
  const Tensor x = full({n}, 7, u8);
  expect_all(x, 7);
  x.fill_(9);
  expect_all(x, 9);
  x.slice(0, 1, n - 1, 2).fill_(4);
  EXPECT_EQ(x.sum().item<int64_t>(), 9 * n - 5 * ((n - 1) / 2));
}

TEST_P(Large, CopyAndCast) {
  const Tensor x = marked();
  expect_marks(x.clone(), places);
  expect_marks(x.to(i8), places);
  const Tensor bits = x.to(boolean);
  EXPECT_EQ(count_nonzero(bits).item<int64_t>(), static_cast<int64_t>(places.size()));
}

TEST_P(Large, CopyBackwards) {
  const Tensor y = zeros({n}, u8);
  y.slice(0, {}, {}, -1).copy_(marked());
  expect_marks(y, reversed());
  empty_cache();
  expect_marks(y.slice(0, {}, {}, -1).contiguous(), places);
}

TEST_P(Large, Add) {
  const Tensor x = marked();
  expect_marks(x + x, places, 2);
  x += x;
  expect_marks(x, places, 2);
}

TEST_P(Large, AddStrided) {
  const Tensor x = marked(), y = x.slice(0, {}, {}, 2) + x.slice(0, {}, {}, 2);
  Longs even;
  int64_t twice = 0;
  for (size_t k = 0; k < places.size(); ++k) {
    if (places[k] % 2 != 0) continue;
    even.push_back(places[k] / 2);
    twice += 2 * mark(k);
    EXPECT_EQ(y.data<uint8_t>()[even.back()], 2 * mark(k)) << "at " << places[k];
  }
  EXPECT_EQ(y.sum().item<int64_t>(), twice);
}

TEST_P(Large, CompareAndWhere) {
  const Tensor x = marked(), mask = x != 0;
  EXPECT_EQ(count_nonzero(mask).item<int64_t>(), static_cast<int64_t>(places.size()));
  x.masked_fill_(mask, 0);
  expect_all(x, 0);
}

TEST_P(Large, TransposedCopy) {
  const int64_t columns = 65537, rows = n / columns + 1;
  Longs from, to;
  for (const int64_t i : edges(rows * columns)) {
    from.push_back(i);
    to.push_back(i % columns * rows + i / columns);
  }
  const Tensor x = testing::marked(from, {rows, columns});
  expect_marks(x.t().contiguous(), to);
}

TEST_P(Large, Concatenate) {
  const Tensor x = marked();
  expect_marks(cat({x.narrow(0, 0, n - 5), x.narrow(0, n - 5, 5)}), places);
}

TEST_P(Large, PaddingRowsOfExperts) {
  const int64_t width = 4096, block = n / width / 2 + 1;  // the second expert's begins in the middle
  const Tensor x = full({2, width}, 1, f8_e4m3fn), scale = full({2, width / 128}, 3, f32);
  const auto out = moe_permute(x, scale, tensor({{1}, {0}}), full({2, 1}, 1, f32), 2, Longs{1, 1}, block);
  ASSERT_EQ(out.tokens.shape(), (Dims{2 * block, width}));
  const auto* bytes = static_cast<const uint8_t*>(out.tokens.data_ptr());
  const uint8_t one = *static_cast<const uint8_t*>(x.data_ptr());
  for (const int64_t begin : {int64_t{0}, block * width}) {
    EXPECT_EQ(std::count(bytes + begin, bytes + begin + width, one), width);
    EXPECT_EQ(std::count(bytes + begin + width, bytes + begin + block * width, 0), (block - 1) * width);
  }
  EXPECT_EQ(out.rowmap.to_vector<int64_t>(), (Longs{-1, block, 0, -1}));
  EXPECT_EQ(out.scale.sum().item<double>(), 2. * 3 * width / 128);
}

// ---- reductions -----------------------------------------------------------------------------------------------------

TEST_P(Large, Reductions) {
  const Tensor x = marked();
  EXPECT_EQ(x.sum().item<int64_t>(), total());
  EXPECT_EQ(max(x).item<int64_t>(), marks().back());
  EXPECT_EQ(argmax(x).item<int64_t>(), n - 1);
  EXPECT_TRUE(any(x).item<bool>());
  EXPECT_FALSE(all(x).item<bool>());
  EXPECT_EQ(count_nonzero(x).item<int64_t>(), static_cast<int64_t>(places.size()));
  x.data<uint8_t>()[n - 1] = 0;
  EXPECT_EQ(argmax(x).item<int64_t>(), n - 2);
}

TEST_P(Large, ReductionsOfRowsAndColumns) {
  const int64_t half = n / 2;
  const Tensor x = marked().narrow(0, 0, 2 * half);
  const Tensor columns = x.view({half, 2}).sum(Dims{0}), rows = x.view({2, half}).sum(Dims{1});
  Longs by_column(2), by_row(2);
  for (size_t k = 0; k < places.size() && places[k] < 2 * half; ++k) {
    by_column[static_cast<size_t>(places[k] % 2)] += mark(k);
    by_row[static_cast<size_t>(places[k] / half)] += mark(k);
  }
  EXPECT_EQ(columns.to_vector<int64_t>(), by_column);
  EXPECT_EQ(rows.to_vector<int64_t>(), by_row);
  const Tensor widest = amax(x.view({2, half}), {0});
  EXPECT_EQ(widest.numel(), half);
  EXPECT_EQ(widest.data<uint8_t>()[half - 1], std::max(x.data<uint8_t>()[half - 1], x.data<uint8_t>()[2 * half - 1]));
}

TEST_P(Large, RunningSum) {
  const Tensor sums = cumsum(marked(), 0, false, false, u8);
  int64_t expected = 0;
  for (size_t k = 0; k < places.size(); ++k) {
    expected += mark(k);
    EXPECT_EQ(sums.data<uint8_t>()[places[k]], static_cast<uint8_t>(expected)) << "at " << places[k];
    const int64_t next = k + 1 < places.size() ? places[k + 1] - 1 : n - 1;
    EXPECT_EQ(sums.data<uint8_t>()[next], static_cast<uint8_t>(expected)) << "at " << next;
  }
}

// ---- reading by indices ---------------------------------------------------------------------------------------------

TEST_P(Large, ReadAFewOfMany) {
  const Tensor x = marked();
  Longs negative;
  for (const int64_t i : places) negative.push_back(i - n);
  for (const Longs& list : {places, negative}) {
    const Tensor index = tensor(list);
    EXPECT_EQ(Tensor(x[list]).to_vector<int64_t>(), marks());
    EXPECT_EQ(gather(x, 0, index).to_vector<int64_t>(), marks());
    EXPECT_EQ(index_select(x, 0, index).to_vector<int64_t>(), marks());
    EXPECT_EQ(take(x, index).to_vector<int64_t>(), marks());
  }
  for (size_t k = 0; k < places.size(); ++k) EXPECT_EQ(x[places[k]].item<int>(), mark(k));
  EXPECT_THROW(x.index(n), IndexError);
  EXPECT_THROW(x.index(Longs{-n - 1}), IndexError);
}

TEST_P(Large, ReadColumnsOfMany) {
  const int64_t half = n / 2;
  const Tensor y = marked().narrow(0, 0, 2 * half).view({half, 2})[{Slice(), Longs{1, 0}}];
  Longs swapped;
  for (const int64_t i : places) {
    if (i < 2 * half) swapped.push_back(i ^ 1);
  }
  expect_marks(y, swapped);
}

TEST_P(Large, ReadManyOfAFew) {
  if (n > two32) GTEST_SKIP() << "takes 21 GB";
  const Tensor index = zeros({n}, i32);
  for (const int64_t i : places) index.data<int32_t>()[i] = 1;
  const Tensor x = tensor<uint8_t>({0, 5});
  const Tensor y = x[index];
  EXPECT_EQ(y.sum().item<int64_t>(), 5 * static_cast<int64_t>(places.size()));
  for (const int64_t i : places) EXPECT_EQ(y.data<uint8_t>()[i], 5) << "at " << i;
}

TEST_P(Large, GatherMany) {
  if (n > two32) GTEST_SKIP() << "takes 21 GB";
  const Tensor index = zeros({n}, i32);
  for (const int64_t i : places) index.data<int32_t>()[i] = 1;
  const Tensor y = gather(tensor<uint8_t>({0, 5}).view({2, 1}).expand({2, n}), 0, index.view({1, n}));
  EXPECT_EQ(y.sum().item<int64_t>(), 5 * static_cast<int64_t>(places.size()));
  for (const int64_t i : places) EXPECT_EQ(y.data<uint8_t>()[i], 5) << "at " << i;
}

TEST_P(Large, Masks) {
  const Tensor x = marked(), mask = x.to(boolean);
  EXPECT_EQ(Tensor(x[mask]).to_vector<int64_t>(), marks());
  EXPECT_EQ(masked_select(x, mask).to_vector<int64_t>(), marks());
  EXPECT_EQ(nonzero(x).to_vector<int64_t>(), places);
  EXPECT_EQ(nonzero(mask).to_vector<int64_t>(), places);
}

// ---- writing by indices ---------------------------------------------------------------------------------------------

TEST_P(Large, WriteAFewOfMany) {
  const Tensor x = zeros({n}, u8), values = tensor(marks()).to(u8);
  x[places] = values;
  expect_marks(x, places);
  x.index_put_(places, values, true);
  expect_marks(x, places, 2);
  scatter_add_(x, 0, tensor(places), values);
  expect_marks(x, places, 3);
}

TEST_P(Large, WriteSlices) {
  const Tensor x = zeros({n}, u8);
  x[Slice(none, none, -1)] = marked();
  expect_marks(x, reversed());
  x[Slice(1, none, 2)] = 1;
  x[Slice(0, none, 2)] = 1;
  expect_all(x, 1);
  set_value_(x, 2, {n - 3}, {n}, {1}, {0});
  EXPECT_EQ(x.sum().item<int64_t>(), n + 3);
}

TEST_P(Large, WriteMasks) {
  const Tensor mask = marked().to(boolean), x = zeros({n}, u8);  // two of 4 GB at a time
  x[mask] = 6;
  EXPECT_EQ(x.sum().item<int64_t>(), 6 * static_cast<int64_t>(places.size()));
  x[mask] = tensor(marks());
  expect_marks(x, places);
}

TEST_P(Large, AddManyToAFew) {
  const Tensor x = zeros({3}, i64);
  x.index_put_({repeated(i64, 1)}, repeated(i64, 1), true);
  EXPECT_EQ(x.to_vector<int64_t>(), (Longs{0, n, 0}));
}

TEST_P(Large, GradientOfManyReadFromAFew) {
  if (n > two32) GTEST_SKIP() << "takes 17 GB";
  const Tensor x = zeros({3}, {.dtype = f16, .requires_grad = true});
  const Tensor y = x[repeated(i64, 1)];
  const Tensor seed = zeros({n}, f16);
  seed[places] = 1;
  y.backward(seed);
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{0, static_cast<double>(places.size()), 0}));
}

#if WEFT_HAS_ZIP
TEST_P(Large, ArchiveOfArrays) {
  const auto path = std::filesystem::temp_directory_path() / "weft-large-test.npz";
  io::save_npz({{"behind", ones({3}, u8)}, {"a", marked()}}, path);
  {
    const io::TensorMap loaded = io::load_npz(path);
    expect_marks(loaded.at("a"), places);
    expect_all(loaded.at("behind"), 1);
  }
  std::filesystem::remove(path);
}
#endif

}  // namespace
}  // namespace weft::testing
