#include <set>

#include <gtest/gtest.h>

#include <weft/data/token_windows.hpp>
#include <weft/weft.hpp>

namespace weft {
namespace {

TEST(TextLoader, TargetsAreOneFurther) {
  const data::TextLoader loader(arange(50), 4, 8, 3);
  const data::TokenSample batch = loader.batch(7);
  EXPECT_EQ(batch.inputs.shape(), Dims({4, 8}));
  const auto in = batch.inputs.to_vector<int>(), out = batch.targets.to_vector<int>();
  for (size_t i = 0; i < in.size(); ++i) {
    EXPECT_EQ(out[i], in[i] + 1);
    if (i % 8 != 0) {
      EXPECT_EQ(in[i], in[i - 1] + 1);
    }
  }
}

TEST(TextLoader, BatchesDependOnSeedAndNumberAlone) {
  const data::TextLoader a(arange(1000), 4, 8, 3), b(arange(1000), 4, 8, 3), c(arange(1000), 4, 8, 4);
  a.batch(0);
  EXPECT_EQ(a.batch(5).inputs.to_vector<int>(), b.batch(5).inputs.to_vector<int>());
  EXPECT_NE(a.batch(5).inputs.to_vector<int>(), a.batch(6).inputs.to_vector<int>());
  EXPECT_NE(a.batch(5).inputs.to_vector<int>(), c.batch(5).inputs.to_vector<int>());
}

TEST(TextLoader, EveryWindowIsReached) {
  const data::TextLoader loader(arange(4), 64, 2, 0);
  const auto first = loader.batch(0).inputs.select(1, 0).to_vector<int>();
  EXPECT_EQ(std::set<int>(first.begin(), first.end()), (std::set<int>{0, 1}));
  const data::TextLoader smallest(arange(3), 2, 2, 0);
  EXPECT_EQ(smallest.batch(0).targets.to_vector<int>(), (std::vector<int>{1, 2, 1, 2}));
}

TEST(TextLoader, TooLittleTextIsRefused) {
  EXPECT_THROW(data::TextLoader(arange(8), 1, 8), ValueError);
  EXPECT_THROW(data::TextLoader(arange(0), 1, 8), ValueError);
  EXPECT_THROW(data::TextLoader(arange(80), 0, 8), ValueError);
  EXPECT_THROW(data::TextLoader(ones(80), 1, 8), DTypeError);
}

// States of released versions contain only the step count, so the data of a step must never change.
TEST(TextLoader, DrawsEqualReleasedVersions) {
  const data::TextLoader loader(arange(1000), 4, 8, 3);
  const auto starts = [&](int64_t number) { return loader.batch(number).inputs.select(1, 0).to_vector<int>(); };
  EXPECT_EQ(starts(0), (std::vector<int>{503, 122, 801, 777}));
  EXPECT_EQ(starts(5), (std::vector<int>{755, 308, 964, 413}));
  EXPECT_EQ(starts(1000000), (std::vector<int>{395, 462, 985, 270}));
}

}  // namespace
}  // namespace weft
