// index_get and index_put against plain loops over coordinates.
#include <cmath>

#include "kernel_checks.hpp"

#include <weft/tensor/error.hpp>

namespace weft {
namespace {

using namespace test;
using Sizes = std::vector<int64_t>;

/// A selection from a tensor: the index of each dimension (-1: not indexed).
struct Case {
  std::string what;
  Sizes base;                ///< the tensor's sizes
  Sizes selected;            ///< the selection's sizes
  std::vector<int> plain;    ///< for each dimension of the selection the tensor's dimension that it is, or -1
  std::vector<int> dims;     ///< the indexed dimensions
  std::vector<Sizes> along;  ///< for each index the selection's dimensions along which it varies
};
const std::vector<Case> cases = {
    {"one by one", {37}, {50}, {-1}, {0}, {{0}}},
    {"many", {1000}, {3000}, {-1}, {0}, {{0}}},
    {"matrix of indices", {37}, {6, 9}, {-1, -1}, {0}, {{0, 1}}},
    {"rows", {11, 40}, {25, 40}, {-1, 1}, {0}, {{0}}},
    {"short rows", {11, 3}, {25, 3}, {-1, 1}, {0}, {{0}}},
    {"columns", {7, 13}, {7, 30}, {0, -1}, {1}, {{1}}},
    {"pairs", {7, 13}, {40}, {-1}, {0, 1}, {{0}, {0}}},
    {"pairs of rows", {7, 13, 5}, {40, 5}, {-1, 2}, {0, 1}, {{0}, {0}}},
    {"outer product", {7, 13}, {4, 6}, {-1, -1}, {0, 1}, {{0}, {1}}},
    {"separated", {7, 3, 13}, {40, 3}, {-1, 1}, {0, 2}, {{0}, {0}}},
    {"middle", {3, 7, 4}, {3, 6, 2, 4}, {0, -1, -1, 2}, {1}, {{1, 2}}},
    {"three", {5, 4, 3}, {600}, {-1}, {0, 1, 2}, {{0}, {0}, {0}}},
    {"single index", {5, 4}, {1, 4}, {-1, 1}, {0}, {{0}}},
    {"nothing", {5, 4}, {0, 4}, {-1, 1}, {0}, {{0}}},
    {"eight", {2, 2, 3, 2, 2, 2, 2, 2}, {2, 4, 2, 2, 2, 2, 2, 2}, {0, -1, 1, 3, 4, 5, 6, 7}, {2}, {{1}}},
};

struct Selection {
  View base;
  IndexPlan plan;
  std::vector<HostArray> indices;
  std::vector<int64_t> sources;  ///< the row-major position in the tensor of each position of the selection
};

Selection select(const Case& c, const HostArray& tensor, DType index_type, unsigned seed) {
  Selection s;
  const Layout& from = tensor.view.layout;
  const size_t rank = c.selected.size();
  s.base = tensor.view;
  s.base.layout.rank = static_cast<uint8_t>(rank);
  s.base.layout.numel = 1;
  for (size_t d = 0; d < rank; ++d) {
    s.base.layout.sizes[d] = c.selected[d];
    s.base.layout.numel *= c.selected[d];
    s.base.layout.strides[d] = c.plain[d] < 0 ? 0 : from.strides[c.plain[d]];
  }
  s.plan.count = static_cast<int>(c.dims.size());
  std::mt19937 random(seed);
  for (size_t k = 0; k < c.dims.size(); ++k) {
    Sizes own(rank, 1);
    for (const int64_t d : c.along[k]) own[static_cast<size_t>(d)] = c.selected[static_cast<size_t>(d)];
    HostArray index(index_type, {.sizes = own, .gap = static_cast<int64_t>(k) + 1});
    const int64_t size = from.sizes[c.dims[k]];
    for (int64_t i = 0; i < index.numel(); ++i) {
      index.set(i, static_cast<double>(static_cast<int64_t>(random() % static_cast<unsigned>(2 * size)) - size));
    }
    View view = index.view;
    view.layout.numel = s.base.layout.numel;
    for (size_t d = 0; d < rank; ++d) {
      if (own[d] == 1) view.layout.strides[d] = 0;
      view.layout.sizes[d] = c.selected[d];
    }
    s.plan.indices[k] = view;
    s.plan.sizes[k] = size;
    s.plan.strides[k] = from.strides[c.dims[k]];
    s.plan.dims[k] = c.dims[k];
    s.indices.push_back(std::move(index));
  }
  for (int64_t i = 0; i < s.base.layout.numel; ++i) {
    Sizes at(rank), where(static_cast<size_t>(from.rank), 0);
    for (int64_t d = static_cast<int64_t>(rank) - 1, rest = i; d >= 0; --d) {
      at[static_cast<size_t>(d)] = rest % c.selected[static_cast<size_t>(d)];
      rest /= c.selected[static_cast<size_t>(d)];
    }
    for (size_t d = 0; d < rank; ++d) {
      if (c.plain[d] >= 0) where[static_cast<size_t>(c.plain[d])] = at[d];
    }
    for (size_t k = 0; k < c.dims.size(); ++k) {
      int64_t position = 0;
      for (size_t d = 0; d < rank; ++d) {
        const int64_t own = s.indices[k].view.layout.sizes[d];
        position = position * own + (own == 1 ? 0 : at[d]);
      }
      const int64_t value = static_cast<int64_t>(s.indices[k].get(position));
      where[static_cast<size_t>(c.dims[k])] = value < 0 ? value + s.plan.sizes[k] : value;
    }
    int64_t source = 0;
    for (int d = 0; d < from.rank; ++d) source = source * from.sizes[d] + where[static_cast<size_t>(d)];
    s.sources.push_back(source);
  }
  return s;
}

TEST(IndexGet, EveryTypeCaseAndLayout) {
  for (const Case& c : cases) {
    for (const DType dtype : {u8, bf16, f32, f64}) {
      for (const ArrayShape& shape : layouts_of(c.base)) {
        const HostArray x(dtype, shape, 3);
        for (const DType index_type : {i32, i64}) {
          const Selection s = select(c, x, index_type, 4);
          for (const ArrayShape& out_shape : layouts_of(c.selected)) {
            HostArray out(dtype, out_shape);
            cpu::index_get(out.view, s.base, s.plan);
            for (int64_t i = 0; i < out.numel(); ++i) {
              ASSERT_EQ(out.get(i), x.get(s.sources[static_cast<size_t>(i)])) << c.what << " " << i;
            }
          }
        }
      }
    }
  }
}

double stored(DType dtype, double value) {
  HostArray one(dtype, {.sizes = {1}});
  one.set(0, dtype == boolean ? value != 0 : value);
  return one.get(0);
}

TEST(IndexPut, LastWinsAndAccumulationAddsAll) {
  for (const Case& c : cases) {
    for (const DType dtype : real_types) {
      for (const ArrayShape& shape : layouts_of(c.base)) {
        for (const ArrayShape& value_shape : layouts_of(c.selected)) {
          const HostArray values(dtype, value_shape, 5);
          HostArray replaced(dtype, shape, 3), added(dtype, shape, 3);
          std::vector<double> last = replaced.values(), sum = added.values();
          const Selection to = select(c, replaced, i64, 4), plus = select(c, added, i32, 4);
          for (int64_t i = 0; i < values.numel(); ++i) {
            last[static_cast<size_t>(to.sources[static_cast<size_t>(i)])] = values.get(i);
            sum[static_cast<size_t>(plus.sources[static_cast<size_t>(i)])] += values.get(i);
          }
          cpu::index_put(to.base, values.view, to.plan, false);
          ASSERT_EQ(replaced.values(), last) << c.what << " " << name(dtype);
          cpu::index_put(plus.base, values.view, plus.plan, true);
          for (int64_t i = 0; i < added.numel(); ++i) {
            const double e =
                dtype == boolean ? sum[static_cast<size_t>(i)] != 0 : stored(dtype, sum[static_cast<size_t>(i)]);
            ASSERT_NEAR(added.get(i), e, 2 * epsilon(dtype) * std::abs(e) + (is_floating(dtype) ? 2e-4 : 0))
                << c.what << " " << name(dtype);
          }
        }
      }
    }
  }
}

TEST(IndexPut, HalfTypesAreRoundedOnce) {
  for (const DType dtype : {bf16, f16}) {
    for (const Sizes& sizes : {Sizes{3}, Sizes{3, 16}, Sizes{100000}}) {
      const int64_t count = dtype == bf16 ? 512 : 4096, width = sizes.size() == 1 ? 1 : 16;
      HostArray out(dtype, {.sizes = sizes});
      const Sizes selected = sizes.size() == 1 ? Sizes{count} : Sizes{count, 16};
      const HostArray values =
          filled(dtype, {.sizes = selected}, std::vector<double>(static_cast<size_t>(count * width), 1));
      const auto last = static_cast<double>(sizes[0] - 1);
      const HostArray index = filled(i64, {.sizes = {count}}, std::vector<double>(static_cast<size_t>(count), last));
      cpu::index_add(out.view, 0, index.view, values.view);
      EXPECT_EQ(out.get(out.numel() - 1), static_cast<double>(count));
      EXPECT_EQ(out.get(0), 0);
    }
  }
}

TEST(IndexElements, ABadIndexChangesNothing) {
  for (const double bad : {37.0, -38.0, 1e18}) {
    for (const int64_t n : {50, 70000}) {
      HostArray x(f32, {.sizes = {37}}, 1), values(f32, {.sizes = {n}}, 2);
      const std::vector<double> before = x.values();
      HostArray index(i64, {.sizes = {n}});
      index.set(n - 1, bad);
      IndexPlan plan;
      plan.count = 1;
      plan.indices[0] = index.view;
      plan.sizes[0] = 37;
      plan.strides[0] = 4;
      plan.dims[0] = 0;
      View base = x.view;
      base.layout.sizes[0] = base.layout.numel = n;
      base.layout.strides[0] = 0;
      EXPECT_THROW(cpu::index_put(base, values.view, plan, false), IndexError);
      EXPECT_THROW(cpu::index_put(base, values.view, plan, true), IndexError);
      EXPECT_THROW(cpu::index_add(x.view, 0, index.view, values.view), IndexError);
      EXPECT_EQ(x.values(), before);
      EXPECT_THROW(cpu::index_get(values.view, base, plan), IndexError);
    }
  }
}

TEST(IndexElements, TheFirstBadIndexIsNamed) {
  const HostArray x(f32, {.sizes = {5}}, 1);
  HostArray out(f32, {.sizes = {4}});
  const HostArray index = filled(i64, {.sizes = {4}}, {0, 9, -7, 5});
  try {
    cpu::index_select(out.view, x.view, 0, index.view);
    FAIL();
  } catch (const IndexError& error) {
    EXPECT_NE(std::string(error.what()).find('9'), std::string::npos) << error.what();
  }
}

TEST(IndexElements, AnIndexIsCheckedThoughNothingIsSelected) {
  const HostArray x(f32, {.sizes = {5, 0}});
  HostArray out(f32, {.sizes = {2, 0}});
  EXPECT_THROW(cpu::index_select(out.view, x.view, 0, filled(i64, {.sizes = {2}}, {0, 5}).view), IndexError);
  cpu::index_select(out.view, x.view, 0, filled(i64, {.sizes = {2}}, {0, 4}).view);
}

TEST(IndexElements, SameBits) {
  const int64_t n = 150000;
  HostArray index(i64, {.sizes = {n}}), rows(i64, {.sizes = {3000}});
  std::mt19937 random(1);
  for (int64_t i = 0; i < n; ++i) index.set(i, random() % 5000);
  for (int64_t i = 0; i < 3000; ++i) rows.set(i, random() % 60);
  for (const DType dtype : {i8, f32, bf16, f64}) {
    const HostArray values(dtype, {.sizes = {n}}, 2), wide(dtype, {.sizes = {3000, 50}}, 3);
    const auto all = [&] {
      HostArray put(dtype, {.sizes = {5000}}), sum(dtype, {.sizes = {5000}}), read(dtype, {.sizes = {n}}),
          table(dtype, {.sizes = {60, 50}});
      IndexPlan plan;
      plan.count = 1;
      plan.indices[0] = index.view;
      plan.sizes[0] = 5000;
      plan.strides[0] = itemsize(dtype);
      plan.dims[0] = 0;
      View base = put.view;
      base.layout.sizes[0] = base.layout.numel = n;
      base.layout.strides[0] = 0;
      cpu::index_put(base, values.view, plan, false);
      cpu::index_get(read.view, base, plan);
      cpu::index_add(sum.view, 0, index.view, values.view);
      cpu::index_add(table.view, 0, rows.view, wide.view);
      return bits_of(put) + bits_of(read) + bits_of(sum) + bits_of(table);
    };
    expect_same_bits(all);
    const int threads = num_threads();
    set_num_threads(1);
    const std::string one = all();
    set_num_threads(3);
    EXPECT_TRUE(all() == one) << "three threads, " << name(dtype);
    set_num_threads(threads);
  }
}

}  // namespace
}  // namespace weft
