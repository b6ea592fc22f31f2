// Indexing has shorter ways for its commonest forms: each agrees with the general one, errors included.
#include <weft/autograd/mode.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/subscript.hpp>
#include <weft/ops/join.hpp>
#include <weft/ops/rearrange.hpp>
#include <weft/ops/scatter.hpp>
#include <weft/tensor/threads.hpp>

#include "ops/samples.hpp"

namespace weft::testing {
namespace {

constexpr DType element_types[] = {DType::boolean, i8, i32, i64, f16, bf16, f32, f64};

/// Elements of any dtype that differ, as far as it can tell them apart.
Tensor numbers(const Dims& shape, DType dtype, double start = 0) {
  return (arange(shape.product()).to(f64) * 3.0 + start).view(shape).to(dtype);
}

struct Threads {
  explicit Threads(int count) : before(num_threads()) { set_num_threads(count); }
  ~Threads() { set_num_threads(before); }
  int before;
};

/// The error's text without its first word, the op.
template <class E>
std::string message(const std::function<void()>& call) {
  try {
    call();
  } catch (const E& e) {
    const std::string text = e.what();
    return text.substr(0, text.find('\n'));
  }
  return "no such error";
}

// An Ellipsis beside the index changes nothing, but leads the general way.

TEST(OneIndex, ReadsAsAmongOthers) {
  const Tensor columns = numbers({4, 6}, f64).t();
  for (const DType dtype : element_types) {
    for (const Tensor& x : {numbers({6}, dtype), numbers({6, 3}, dtype), numbers({6, 2, 3}, dtype), columns.to(dtype),
                            columns.to(dtype).slice(0, 0, 6, 2)}) {
      for (const DType index_dtype : {i32, i64, i8}) {
        for (const Tensor& index : {tensor({2, 0, 1, -1}, index_dtype), tensor({{1, -3}, {0, 2}}, index_dtype),
                                    tensor({{1, -3}, {0, 2}}, index_dtype).t(), tensor({1}, index_dtype),
                                    tensor({1}, index_dtype).expand({3}), empty({0}, index_dtype)}) {
          const Tensor one = x[index], general = x[{index, Ellipsis}];
          EXPECT_EQ(one.dtype(), dtype);
          EXPECT_EQ(one.shape(), general.shape());
          EXPECT_TRUE(same(one, general)) << name(dtype) << " " << x.shape().text() << index.shape().text();
        }
      }
    }
  }
}

TEST(OneIndex, WritesAsAmongOthers) {
  const Tensor index = tensor({2, 0, -1, 2});
  for (const DType dtype : element_types) {
    for (const Dims& shape : {Dims{5}, Dims{5, 3}, Dims{5, 2, 3}}) {
      const Tensor start = numbers(shape, dtype, 1);
      const Tensor whole = numbers(Tensor(start[index]).shape(), dtype, 100);
      for (const bool add : {false, true}) {
        for (const Tensor& value : {whole, whole[Slice(0, 1)].operator Tensor(), numbers({}, dtype, 7),
                                    numbers({}, f64, 7), numbers({1, 1, 1, 1}, dtype, 7)}) {
          const Tensor one = start.clone(), general = start.clone();
          one.index_put_({index}, value, add);
          general.index_put_({index, Ellipsis}, value, add);
          EXPECT_TRUE(same(one, general)) << name(dtype) << " " << shape.text() << value.shape().text() << add;
          EXPECT_EQ(one.version(), general.version());
        }
        const Tensor one = start.clone(), general = start.clone();
        one.index_put_({index}, 1.75, add);
        general.index_put_({index, Ellipsis}, 1.75, add);
        EXPECT_TRUE(same(one, general)) << name(dtype) << " " << shape.text() << add;
      }
    }
  }
}

TEST(OneIndex, WritesThroughStridesAndFromItself) {
  const Tensor one = numbers({6, 4}, f32), general = one.clone();
  const Tensor index = tensor({3, 1});
  one.t()[index] = numbers({2, 6}, f32, 50);
  general.t()[{index, Ellipsis}] = numbers({2, 6}, f32, 50);
  EXPECT_TRUE(same(one, general));
  one[index] = one[Slice(0, 2)];
  general[{index, Ellipsis}] = general[Slice(0, 2)];
  EXPECT_TRUE(same(one, general));
  const Tensor places = tensor({2, 0, 1});
  places[places] = tensor({7, 8, 9});
  EXPECT_EQ(places.to_vector<double>(), (std::vector<double>{8, 9, 7}));
}

TEST(OneIndex, RefusesAsAmongOthersBeforeItWrites) {
  const Tensor x = numbers({4}, f32), before = x.clone();
  for (const Tensor& bad : {tensor({0, 4}), tensor({1, -5}), tensor({1, 9, -7}).to(i32)}) {
    EXPECT_EQ(message<IndexError>([&] { Tensor r = x[bad]; }), message<IndexError>([&] {
                Tensor r = x[{bad, Ellipsis}];
              }));
    EXPECT_EQ(message<IndexError>([&] { x[bad] = 1.f; }), message<IndexError>([&] { x[{bad, Ellipsis}] = 1.f; }));
    EXPECT_NE(message<IndexError>([&] { x.index_put_({bad}, ones({bad.numel()}), true); }), "no such error");
    EXPECT_NE(message<IndexError>([&] { gather(x, 0, bad); }), "no such error");
    EXPECT_NE(message<IndexError>([&] { index_select(x, 0, bad); }), "no such error");
  }
  EXPECT_EQ(message<ShapeError>([&] {
              x[tensor({0, 1})] = ones({3});
            }),
            message<ShapeError>([&] {
              x[{tensor({0, 1}), Ellipsis}] = ones({3});
            }));
  EXPECT_TRUE(same(x, before));
  EXPECT_EQ(x.version(), 0u);
}

TEST(OneIndex, IsRecordedWhereAGradientIsWanted) {
  const Tensor index = tensor({2, 0, 2});
  const Tensor x = numbers({3}, f64).requires_grad_(), y = numbers({3}, f64).requires_grad_();
  (Tensor(x[index]) * tensor({1, 10, 100}).to(f64)).sum().backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{10, 0, 101}));
  const Tensor target = zeros({3}, f64);
  target[tensor({1, 0, 2})] = y;
  (target * tensor({1, 10, 100}).to(f64)).sum().backward();
  EXPECT_EQ(y.grad().to_vector<double>(), (std::vector<double>{10, 1, 100}));
  const NoGradGuard unrecorded;
  EXPECT_FALSE(Tensor(x[index]).requires_grad());
}

// ---- lists ----------------------------------------------------------------------------------------------------------

TEST(Lists, GatherAsColumnsOnAnyNumberOfThreads) {
  for (const int64_t n : {1, 7, 1000, 100001}) {
    SampleMaker make(f32, {});
    const Tensor x = make.tensor({1000}), index = make.indices({n}, 1000);
    const Tensor column = gather(x.view({1000, 1}), 0, index.view({n, 1})).view({n});
    for (const int threads : {1, 3}) {
      const Threads guard(threads);
      EXPECT_TRUE(same(gather(x, 0, index), column));
      EXPECT_TRUE(same(index_select(x, 0, index), column));
      EXPECT_TRUE(same(x[index], column));
      EXPECT_TRUE(same(gather(x.view({1, 1000}), 1, index.view({1, n})).view({n}), column));
      EXPECT_TRUE(same(gather(x.expand({2, 1000}), 1, index.expand({2, n})), column.expand({2, n})));
    }
  }
}

TEST(Lists, ScatterAsTheFirstOfTwoColumnsOnAnyNumberOfThreads) {
  for (const DType dtype : {i32, bf16, f32}) {
    for (const int64_t n : {3, 40, 600, 100001}) {
      SampleMaker make(f32, {});
      const Tensor x = make.tensor({700}, -9, 9).to(dtype), index = make.indices({n}, 700);
      const Tensor source = make.tensor({n}, -9, 9).to(dtype);
      const auto column = [](const Tensor& t) { return t.unsqueeze(1); };
      const auto twice = [&](const Tensor& t) { return cat({column(t), column(t)}, 1); };
      const Tensor put = scatter(twice(x), 0, twice(index), twice(source)).select(1, 0);
      const Tensor sum = scatter_add(twice(x), 0, twice(index), twice(source)).select(1, 0);
      for (const int threads : {1, 3}) {
        const Threads guard(threads);
        EXPECT_TRUE(same(scatter(x, 0, index, source), put)) << name(dtype) << n;
        EXPECT_TRUE(same(scatter_add(x, 0, index, source), sum)) << name(dtype) << n;
        EXPECT_TRUE(same(scatter(column(x), 0, column(index), column(source)), column(put)));
        EXPECT_TRUE(same(scatter_add(column(x).t(), 1, column(index).t(), column(source).t()), column(sum).t()));
      }
    }
  }
  const Tensor x = zeros({1, 4}), before = x.clone();
  EXPECT_EQ(message<IndexError>([&] {
              scatter_(x, 1, tensor({{0, 1, -5}}), ones({1, 3}));
            }),
            "[scatter_] index -5 is out of range for axis 1 of size 4");
  EXPECT_EQ(message<IndexError>([&] {
              scatter_add_(x[0], 0, tensor({0, 4}), ones({2}));
            }),
            "[scatter_add_] index 4 is out of range for axis 0 of size 4");
  EXPECT_TRUE(same(x, before));
}

TEST(Lists, ABadIndexIsFoundWhereverItIs) {
  const int64_t n = 100001;
  const Tensor x = ones({10});
  for (const int64_t place : {int64_t{0}, n / 2, n - 1}) {
    const Tensor index = zeros({n}, i64);
    index[place] = 10;
    for (const int threads : {1, 3}) {
      const Threads guard(threads);
      const auto text = [&](auto&& call) { return message<IndexError>(call); };
      EXPECT_EQ(text([&] { gather(x, 0, index); }), "[gather] index 10 is out of range for axis 0 of size 10");
      EXPECT_EQ(text([&] { index_select(x, 0, index); }),
                "[index_select] index 10 is out of range for axis 0 of size 10");
      EXPECT_EQ(text([&] { Tensor r = x[index]; }), "[getitem] index 10 is out of range for axis 0 of size 10");
      EXPECT_EQ(text([&] {
                  gather(x.view({1, 10}), 1, index.view({1, n}));
                }),
                "[gather] index 10 is out of range for axis 1 of size 10");
    }
  }
}

// A large copy is scattered into in blocks of rows; in place it is one.
TEST(ScatterInBlocks, IsScatterInPlace) {
  for (const DType dtype : {i32, bf16, f64}) {
    SampleMaker make(f32, {});
    const Tensor x = make.tensor({900, 2, 500}, -9, 9).to(dtype), source = make.tensor({900, 2, 500}, -9, 9).to(dtype);
    for (const int dim : {1, 2}) {
      const Tensor all = make.indices({900, 2, 500}, dim == 1 ? 2 : 500), some = all.narrow(0, 0, 555);
      for (const Tensor& index : {all, some, all.narrow(0, 0, 0)}) {
        for (const Tensor& from : {x, flip(x, {0}).transpose(1, 2).contiguous().transpose(1, 2)}) {
          for (const int threads : {1, 3}) {
            const Threads guard(threads);
            const Tensor sum = from.clone(), put = from.clone();
            EXPECT_TRUE(same(scatter_add(from, dim, index, source), scatter_add_(sum, dim, index, source)));
            EXPECT_TRUE(same(scatter(from, dim, index, source), scatter_(put, dim, index, Operand(source))));
          }
        }
      }
      const Tensor bad = all.clone(), before = x.clone();
      bad[{899, 1, 499}] = 500;
      EXPECT_EQ(message<IndexError>([&] { scatter_add(x, dim, bad, source); }),
                dim == 1 ? "[scatter_add] index 500 is out of range for axis 1 of size 2"
                         : "[scatter_add] index 500 is out of range for axis 2 of size 500");
      EXPECT_TRUE(same(x, before));
    }
  }
}

// ---- sums of 16-bit floats ------------------------------------------------------------------------------------------

// A target no larger than its terms is accumulated in wider floats; for a larger one destinations are grouped.
TEST(HalfSums, DoNotDependOnHowFarTheTargetReaches) {
  for (const DType dtype : {f16, bf16}) {
    for (const Dims& row : {Dims{}, Dims{3}}) {
      SampleMaker make(f32, {});
      Dims shape = row, terms = row;
      shape.insert(0, 50);
      terms.insert(0, 900);
      const Tensor index = make.indices({900}, 50), values = make.tensor(terms).to(dtype);
      const Tensor start = make.tensor(shape).to(dtype);
      const Tensor close = start.clone(), far = zeros({50 * 2000}, dtype);
      const Tensor apart = far.view({50, 2000}).narrow(1, 100, row.empty() ? 1 : 3).view(shape);
      apart.copy_(start);
      close.index_put_({index}, values, true);
      apart.index_put_({index}, values, true);
      EXPECT_TRUE(same(close, apart)) << name(dtype) << row.text();
      const Tensor backwards = flip(start, {0});
      backwards[Slice(none, none, -1)].operator Tensor().index_put_({index}, values, true);
      EXPECT_TRUE(same(flip(backwards, {0}), close)) << name(dtype) << row.text();
      const Threads guard(3);
      const Tensor again = start.clone();
      again.index_put_({index}, values, true);
      EXPECT_TRUE(same(again, close));
    }
  }
}

TEST(HalfSums, LeaveOtherElementsUnchanged) {
  const Tensor x = zeros({6}, f16);
  const uint16_t patterns[] = {0x7d01, 0x8000, 0x0001, 0xfc00, 0x7e00, 0x3c00};  // a signaling NaN, -0, the least
  for (int i = 0; i < 6; ++i) x.data<float16>()[i].bits = patterns[i];
  x.index_put_({tensor({5, 5})}, ones({2}, f16), true);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(x.data<float16>()[i].bits, patterns[i]) << i;
  EXPECT_EQ(x[5].item<float>(), 3);
}

// ---- fills ----------------------------------------------------------------------------------------------------------

// A number and a mask of the tensor's own shape go straight to the kernel, a 0-d tensor the general way.
TEST(MaskedFill, ByANumberIsAsByATensor) {
  for (const DType dtype : element_types) {
    for (const Dims& shape : {Dims{}, Dims{7}, Dims{3, 4}}) {
      const Tensor x = numbers(shape, dtype, 1), mask = SampleMaker(f32, {}).mask(shape);
      const Tensor value = tensor(1.75).to(dtype);
      const Tensor general = masked_fill(x, mask, value);
      EXPECT_TRUE(same(masked_fill(x, mask, 1.75), general)) << name(dtype);
      EXPECT_TRUE(same(masked_fill(x.clone(), mask, 1.75), general)) << name(dtype);
      EXPECT_EQ(masked_fill(x, mask, 1.75).dtype(), dtype);
      const Tensor filled = x.clone(), set = x.clone();
      masked_fill_(filled, mask, 1.75);
      EXPECT_TRUE(same(filled, general)) << name(dtype);
      EXPECT_EQ(filled.version(), 1u);
      set[mask] = 1.75;
      EXPECT_TRUE(same(set, general)) << name(dtype);
    }
  }
  const Tensor x = numbers({4, 3}, f32).t(), mask = x > 10.f;
  EXPECT_TRUE(same(masked_fill(x, mask, -1), masked_fill(x, mask, tensor(-1.f))));
  const Tensor own = tensor({1, 0, 1}).to(boolean);
  own.masked_fill_(own, false);
  EXPECT_EQ(own.to_vector<double>(), (std::vector<double>{0, 0, 0}));
}

}  // namespace
}  // namespace weft::testing
