#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "ranks.hpp"

namespace weft::distributed {
namespace {

using ::testing::ElementsAre;

const std::vector<Dims> shapes = {{}, {0}, {1}, {7}, {3, 5}, {4, 0, 2}, {9000}};
constexpr ReduceOp all_ops[] = {ReduceOp::sum,  ReduceOp::avg, ReduceOp::max, ReduceOp::min,
                                ReduceOp::prod, ReduceOp::any, ReduceOp::all};

bool takes(ReduceOp op, DType dtype) {
  if (op == ReduceOp::avg) return is_floating(dtype);
  return dtype != boolean || (op != ReduceOp::sum && op != ReduceOp::prod);
}

// One rank after the other by ordinary ops, rounded once.
Tensor reduced(ReduceOp op, int ranks, const std::function<Tensor(int)>& input) {
  const DType dtype = input(0).dtype();
  if (op == ReduceOp::any || op == ReduceOp::all) {
    Tensor out = input(0) != 0;
    for (int r = 1; r < ranks; ++r) {
      const Tensor x = input(r) != 0;
      out = op == ReduceOp::any ? logical_or(out, x) : logical_and(out, x);
    }
    return out;
  }
  const DType wide = is_floating(dtype) ? compute_type(dtype) : dtype;
  Tensor out = input(0).to(wide);
  for (int r = 1; r < ranks; ++r) {
    const Tensor x = input(r).to(wide);
    if (op == ReduceOp::sum || op == ReduceOp::avg) out = out + x;
    else if (op == ReduceOp::prod) out = out * x;
    else out = op == ReduceOp::max ? maximum(out, x) : minimum(out, x);
  }
  if (op == ReduceOp::avg) out = out / ranks;
  return out.to(dtype);
}

TEST(Collectives, AllReduceTakesRanksInOrderAndRoundsOnce) {
  on_all_ranks([](const Group& group) {
    for (const DType dtype : all_dtypes) {
      for (const ReduceOp op : all_ops) {
        if (!takes(op, dtype)) continue;
        for (const Dims& shape : shapes) {
          const auto input = [&](int r) { return input_of(r, shape, dtype); };
          const Tensor expected = reduced(op, group.size(), input), got = all_reduce(input(group.rank()), group, op);
          EXPECT_TRUE(same_bits(got, expected)) << name(op) << ' ' << dtype << ' ' << shape << got << expected;
        }
      }
    }
  });
}

TEST(Collectives, BytesSentToOthersAreCounted) {
  on_all_ranks([](const Group& group) {
    const int64_t others = group.size() - 1, n = 840 * 16;
    const auto sent_by = [&](auto call) {
      const int64_t before = group.sent_bytes();
      call();
      return group.sent_bytes() - before;
    };
    const Tensor x = zeros({n});
    EXPECT_EQ(sent_by([&] { all_reduce(x, group); }), 2 * others * (n / group.size()) * 4);
    EXPECT_EQ(sent_by([&] { all_reduce(zeros({10}), group); }), others * 40);
    EXPECT_EQ(sent_by([&] { all_gather(zeros({10}), group); }), others * 40);
    EXPECT_EQ(sent_by([&] { reduce_scatter(x, group); }), others * (n / group.size()) * 4);
    EXPECT_EQ(sent_by([&] { all_reduce_async(x, group).wait(); }), 2 * others * (n / group.size()) * 4);
    EXPECT_EQ(sent_by([&] { barrier(group); }), 0);
    const Group own = group.split(group.rank());
    EXPECT_EQ(sent_by([&] { all_reduce(x, own); }), 0);
    if (others == 0) return;
    EXPECT_EQ(sent_by([&] {
                if (group.rank() == 0) send(zeros({3}), 1, group);
                if (group.rank() == 1) receive(0, group);
              }),
              group.rank() == 0 ? 12 : 0);
  });
}

TEST(Collectives, AllReduceGivesTheSameBitsInOneRoundAndInTwo) {
  on_all_ranks([](const Group& group) {
    const Tensor x = input_of(group.rank(), {20000});
    const Tensor whole = all_reduce(x, group);
    const Tensor parts = cat({all_reduce(x.narrow(0, 0, 1000), group), all_reduce(x.narrow(0, 1000, 19000), group)});
    EXPECT_TRUE(same_bits(whole, parts));
  });
}

TEST(Collectives, AllReduceReadsAnyStrides) {
  on_all_ranks([](const Group& group) {
    const auto input = [&](int r) {
      const Tensor x = input_of(r, {60, 80}).t();
      return Tensor(x[{Slice(none, none, 2)}]);
    };
    EXPECT_TRUE(same_bits(all_reduce(input(group.rank()), group), reduced(ReduceOp::sum, group.size(), input)));
    const auto repeated = [&](int r) { return input_of(r, {1, 4}).expand({3, 4}); };
    EXPECT_TRUE(same_bits(all_reduce(repeated(group.rank()), group), reduced(ReduceOp::sum, group.size(), repeated)));
  });
}

TEST(Collectives, AllReduceInPlaceWritesTheViewAlone) {
  on_all_ranks([](const Group& group) {
    for (const int64_t n : {3, 5000}) {
      const auto input = [&](int r) { return input_of(r, {n, 4}, f64); };
      const Tensor expected = reduced(ReduceOp::sum, group.size(), input);
      const Tensor dense = input(group.rank()), strided = dense.clone();
      const uint32_t version = dense.version();
      EXPECT_EQ(all_reduce_(dense, group).data_ptr(), dense.data_ptr());
      EXPECT_GT(dense.version(), version);
      EXPECT_TRUE(same_bits(dense, expected));
      all_reduce_(strided.narrow(1, 1, 2), group);
      EXPECT_TRUE(same_bits(strided.narrow(1, 1, 2), expected.narrow(1, 1, 2)));
      EXPECT_TRUE(same_bits(strided.narrow(1, 0, 1), input(group.rank()).narrow(1, 0, 1)));
    }
  });
}

TEST(Collectives, NaNWinsInExtremesAndPoisonsSums) {
  on_all_ranks([](const Group& group) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const Tensor x = group.rank() == group.size() / 2 ? full({2}, nan) : ones({2});
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max, ReduceOp::min, ReduceOp::prod}) {
      EXPECT_TRUE(std::isnan(all_reduce(x, group, op).to_vector<float>()[0])) << name(op);
    }
    EXPECT_TRUE(all_reduce(x, group, ReduceOp::all).to_vector<int>()[1] == 1);
  });
}

TEST(Collectives, ReduceGivesTheRootTheResultAndOthersZeros) {
  on_all_ranks([](const Group& group) {
    for (const DType dtype : {f32, bf16, i32, boolean}) {
      for (const Dims& shape : shapes) {
        for (int root = 0; root < group.size(); root += 2) {
          const ReduceOp op = dtype == boolean ? ReduceOp::any : ReduceOp::sum;
          const auto input = [&](int r) { return input_of(r, shape, dtype); };
          const Tensor got = reduce(input(group.rank()), root, group, op);
          const Tensor expected = reduced(op, group.size(), input);
          EXPECT_TRUE(same_bits(got, group.rank() == root ? expected : zeros_like(expected))) << dtype << shape;
        }
      }
    }
  });
}

TEST(Collectives, BroadcastGivesAllTheRootsElements) {
  on_all_ranks([](const Group& group) {
    for (const DType dtype : all_dtypes) {
      for (const Dims& shape : {Dims{}, Dims{0}, Dims{5}, Dims{3, 7}, Dims{40000}}) {
        const int root = group.size() - 1;
        const Tensor mine = input_of(group.rank(), shape, dtype), expected = input_of(root, shape, dtype);
        EXPECT_TRUE(same_bits(broadcast(mine, root, group), expected)) << dtype << shape;
        EXPECT_TRUE(same_bits(mine, input_of(group.rank(), shape, dtype))) << "the operand is left as it is";
        EXPECT_TRUE(same_bits(broadcast_(mine, root, group), expected)) << dtype << shape;
      }
    }
  });
}

TEST(Collectives, AllGatherJoinsAlongAnyDimension) {
  on_all_ranks([](const Group& group) {
    for (const DType dtype : all_dtypes) {
      for (const int dim : {0, 1, -1}) {
        std::vector<Tensor> all;
        for (int r = 0; r < group.size(); ++r) all.push_back(input_of(r, {2, 3, 4}, dtype));
        EXPECT_TRUE(same_bits(all_gather(all[static_cast<size_t>(group.rank())], group, dim), cat(all, dim))) << dtype;
      }
    }
    const Tensor scalars = all_gather(tensor(static_cast<double>(group.rank())), group);
    EXPECT_TRUE(same_bits(scalars, arange(group.size(), f32)));
    EXPECT_EQ(all_gather(zeros({0, 3}), group).shape(), (Dims{0, 3}));
  });
}

TEST(Collectives, AllGatherTakesPartsOfDifferentSizesAndNone) {
  on_all_ranks([](const Group& group) {
    for (const int dim : {0, 1}) {
      std::vector<Tensor> all;
      std::vector<int64_t> sizes;
      for (int r = 0; r < group.size(); ++r) {
        sizes.push_back((r * 3) % 4);
        all.push_back(input_of(r, dim == 0 ? Dims{sizes.back(), 2} : Dims{2, sizes.back()}));
      }
      const Tensor mine = all[static_cast<size_t>(group.rank())];
      EXPECT_TRUE(same_bits(all_gather(mine, sizes, group, dim), cat(all, dim)));
      EXPECT_TRUE(same_bits(all_gather_ragged(mine, group, dim), cat(all, dim)));
    }
  });
}

TEST(Collectives, ReduceScatterGivesEachRankItsShare) {
  on_all_ranks([](const Group& group) {
    for (const DType dtype : {f32, f16, i64, f8_e5m2}) {
      for (const int64_t n : {0, 2, 9, 10, 4096}) {
        for (const int dim : {0, 1}) {
          const Dims shape = dim == 0 ? Dims{n, 3} : Dims{3, n};
          const auto input = [&](int r) { return input_of(r, shape, dtype); };
          const Tensor whole = reduced(ReduceOp::sum, group.size(), input);
          const std::vector<int64_t> sizes = shard_sizes(n, group.size());
          const int64_t first = std::accumulate(sizes.begin(), sizes.begin() + group.rank(), int64_t{0});
          const Tensor expected = whole.narrow(dim, first, sizes[static_cast<size_t>(group.rank())]);
          EXPECT_TRUE(same_bits(reduce_scatter(input(group.rank()), group, ReduceOp::sum, dim), expected)) << shape;
        }
      }
    }
    std::vector<int64_t> sizes(static_cast<size_t>(group.size()), 0);
    sizes.back() = 6;
    const Tensor got = reduce_scatter(ones({6}), sizes, group, ReduceOp::avg);
    EXPECT_EQ(got.numel(), group.rank() + 1 == group.size() ? 6 : 0);
  });
}

TEST(Collectives, ShardsFollowTheRuleOfChunks) {
  EXPECT_THAT(shard_sizes(10, 4), ElementsAre(3, 3, 3, 1));
  EXPECT_THAT(shard_sizes(2, 4), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(shard_sizes(9, 4), ElementsAre(3, 3, 3, 0));
  EXPECT_THAT(shard_sizes(0, 2), ElementsAre(0, 0));
}

TEST(Collectives, AllToAllTransposesRanksAndParts) {
  on_all_ranks([](const Group& group) {
    const int k = group.size(), me = group.rank();
    for (const DType dtype : all_dtypes) {
      std::vector<Tensor> expected;
      for (int r = 0; r < k; ++r) expected.push_back(input_of(r, {2 * k, 3}, dtype).narrow(0, 2 * me, 2));
      EXPECT_TRUE(same_bits(all_to_all(input_of(me, {2 * k, 3}, dtype), group), cat(expected)));
    }
  });
}

TEST(Collectives, AllToAllMovesAShardFromOneDimensionToAnother) {
  on_all_ranks([](const Group& group) {
    // [10, 7], sharded along the first dimension, becomes sharded along the second.
    const int k = group.size(), me = group.rank();
    const Tensor whole = input_of(0, {10, 7});
    const std::vector<int64_t> rows = shard_sizes(10, k), columns = shard_sizes(7, k);
    const auto first = [&](const std::vector<int64_t>& sizes) {
      return std::accumulate(sizes.begin(), sizes.begin() + me, int64_t{0});
    };
    const size_t i = static_cast<size_t>(me);
    const Tensor mine = whole.narrow(0, first(rows), rows[i]), expected = whole.narrow(1, first(columns), columns[i]);
    const Tensor got = all_to_all(mine, group, {.split_dim = 1, .join_dim = 0, .receive_sizes = rows});
    EXPECT_TRUE(same_bits(got, expected));
    const Tensor back = all_to_all(got, group, {.split_dim = 0, .join_dim = 1, .receive_sizes = columns});
    EXPECT_TRUE(same_bits(back, mine));
  });
}

TEST(Collectives, AllToAllTakesPartsOfAnySizes) {
  on_all_ranks([](const Group& group) {
    const int k = group.size(), me = group.rank();
    const auto rows = [&](int from, int to) { return (from + 2 * to) % 3; };
    std::vector<int64_t> sends;
    for (int r = 0; r < k; ++r) sends.push_back(rows(me, r));
    std::vector<Tensor> expected;
    for (int r = 0; r < k; ++r) {
      int64_t first = 0, total = 0;
      for (int to = 0; to < k; ++to) {
        if (to < me) first += rows(r, to);
        total += rows(r, to);
      }
      expected.push_back(input_of(r, {total, 2}).narrow(0, first, rows(r, me)));
    }
    const int64_t total = std::accumulate(sends.begin(), sends.end(), int64_t{0});
    const auto [values, sizes] = all_to_all_ragged(input_of(me, {total, 2}), sends, group);
    EXPECT_TRUE(same_bits(values, cat(expected)));
    for (int r = 0; r < k; ++r) EXPECT_EQ(sizes[static_cast<size_t>(r)], rows(r, me));
  });
}

TEST(Collectives, MessagesGoAroundARing) {
  on_all_ranks([](const Group& group) {
    const int k = group.size(), me = group.rank();
    if (k == 1) return;
    for (const Dims& shape : {Dims{}, Dims{0}, Dims{3, 2}, Dims{50000}}) {
      const Tensor got = zeros(shape);
      const Work receiving = receive_async_(got, (me + k - 1) % k, group);
      const Work sending = send_async(input_of(me, shape), (me + 1) % k, group);
      sending.wait();  // the receivers need not wait for it
      EXPECT_EQ(receiving.wait().data_ptr(), got.data_ptr());
      EXPECT_TRUE(sending.is_done() && receiving.is_done());
      EXPECT_TRUE(same_bits(got, input_of((me + k - 1) % k, shape)));
    }
  });
}

TEST(Collectives, MessagesCarryTheirShapeAndKeepTheirOrderByTag) {
  on_all_ranks([](const Group& group) {
    if (group.rank() == 0 && group.size() > 1) {
      const Tensor a = input_of(0, {2, 3}, bf16).t(), b = input_of(1, {}, i64), c = input_of(2, {4}, f64);
      const Work first = send_async(a, 1, group, 7), second = send_async(b, 1, group, 7);
      send(c, 1, group, 8);
      first.wait();
      second.wait();
    } else if (group.rank() == 1) {
      EXPECT_TRUE(same_bits(receive(0, group, 8), input_of(2, {4}, f64)));
      EXPECT_TRUE(same_bits(receive(0, group, 7), input_of(0, {2, 3}, bf16).t().contiguous()));
      EXPECT_TRUE(same_bits(receive(0, group, 7), input_of(1, {}, i64)));
    }
    barrier(group);
  });
}

TEST(Collectives, AsynchronousOnesRunInOrderWhoeverWaits) {
  on_all_ranks([](const Group& group) {
    const Tensor x = input_of(group.rank(), {3000});
    const Tensor a = x.clone(), b = x.clone();
    std::vector<Work> works = {all_reduce_async_(a, group), all_reduce_async_(a, group, ReduceOp::avg),
                               broadcast_async_(b, 0, group), barrier_async(group)};
    const Work gathered = all_gather_async(x, group), scattered = reduce_scatter_async(x, group);
    const Work exchanged = all_to_all_async(x, group);
    const Tensor sum = all_reduce(x, group);  // behind them
    for (size_t i = works.size(); i-- > 0;) works[i].wait();
    EXPECT_TRUE(same_bits(a, all_reduce(sum, group, ReduceOp::avg)));
    EXPECT_TRUE(same_bits(b, input_of(0, {3000})));
    EXPECT_TRUE(same_bits(gathered.wait(), all_gather(x, group)));
    EXPECT_TRUE(same_bits(gathered.wait(), gathered.wait()));
    EXPECT_TRUE(same_bits(scattered.wait(), reduce_scatter(x, group)));
    EXPECT_TRUE(same_bits(exchanged.wait(), all_to_all(x, group)));
  });
}

TEST(Collectives, WorkIsDoneThoughNobodyKeepsItOrItsGroup) {
  on_all_ranks([](const Group& group) {
    const Tensor x = ones({4}), other = ones({4});
    std::vector<int> all(static_cast<size_t>(group.size()));
    std::iota(all.begin(), all.end(), 0);
    const Work work = all_reduce_async_(x, group.subgroup(all));
    all_reduce_async(other, group.subgroup(all));
    EXPECT_EQ(work.wait().to_vector<float>()[0], static_cast<float>(group.size()));
  });
}

TEST(Collectives, GroupsDoNotDisturbEachOther) {
  on_all_ranks([](const Group& group) {
    const int k = group.size(), me = group.rank();
    const Group parity = group.split(me % 2);
    EXPECT_EQ(parity.size(), me % 2 == 0 ? (k + 1) / 2 : k / 2);
    EXPECT_EQ(parity.rank(), me / 2);
    EXPECT_EQ(parity.ranks()[static_cast<size_t>(parity.rank())], me);
    // Under way at once, and begun in another order on each rank.
    const Tensor x = full({5000}, me), y = full({5000}, me);
    std::vector<Work> works;
    for (int i = 0; i < 2; ++i) {
      if ((i + me) % 2 == 0) works.push_back(all_reduce_async_(x, parity));
      else works.push_back(all_reduce_async_(y, group, ReduceOp::max));
    }
    for (const Work& work : works) work.wait();
    int sum = 0;
    for (int r = me % 2; r < k; r += 2) sum += r;
    EXPECT_EQ(x.to_vector<int>()[4999], sum);
    EXPECT_EQ(y.to_vector<int>()[0], k - 1);
  });
}

TEST(Collectives, SubgroupsHaveAnOrderOfTheirOwnAndSubgroups) {
  on_all_ranks([](const Group& group) {
    const int k = group.size(), me = group.rank();
    std::vector<int> reversed;
    for (int r = k - 1; r >= 0; --r) reversed.push_back(r);
    const Group backwards = group.subgroup(reversed);
    EXPECT_EQ(backwards.rank(), k - 1 - me);
    EXPECT_TRUE(same_bits(all_gather(tensor(me), backwards), tensor(reversed, i64)));
    const Group last = backwards.subgroup({0});
    EXPECT_EQ(last.contains_me(), me == k - 1);
    EXPECT_EQ(last.size(), 1);
    if (last.contains_me()) EXPECT_EQ(all_reduce(ones({}), last).item<float>(), 1);
    else EXPECT_THROW(all_reduce(ones({}), last), ValueError);
  });
}

TEST(Collectives, GroupsOfTheSameRanksAreDifferentGroups) {
  on_all_ranks([](const Group& group) {
    std::vector<int> all(static_cast<size_t>(group.size()));
    std::iota(all.begin(), all.end(), 0);
    const Group first = group.subgroup(all), second = group.subgroup(all), inner = first.subgroup(all);
    // Every rank begins with another one, and all are under way at once.
    const Group* const groups[] = {&group, &first, &second, &inner};
    std::vector<Tensor> sums;
    std::vector<Work> works;
    for (int i = 0; i < 4; ++i) sums.push_back(full({3000}, i + 1.f));
    for (int i = 0; i < 4; ++i) {
      const size_t g = static_cast<size_t>((i + group.rank()) % 4);
      works.push_back(all_reduce_async_(sums[g], *groups[g]));
    }
    for (const Work& work : works) work.wait();
    for (size_t g = 0; g < 4; ++g) {
      EXPECT_EQ(sums[g].to_vector<float>()[2999], static_cast<float>(g + 1) * static_cast<float>(group.size()));
    }
  });
}

TEST(Collectives, TensorsOnDevicesPassThroughTheHost) {
  if (device_count(DeviceType::hpu) == 0) GTEST_SKIP() << "there is no HPU";
  on_all_ranks([](const Group& group) {
    const Device hpu("hpu");
    const Tensor x = input_of(group.rank(), {300}), leaf = x.to(hpu).requires_grad_();
    const Tensor sum = all_reduce(leaf, group);
    EXPECT_EQ(sum.device(), hpu);
    EXPECT_TRUE(same_bits(sum.detach().to("cpu"), all_reduce(x, group)));
    sum.sum().backward();
    EXPECT_EQ(leaf.grad().to("cpu").to_vector<float>()[0], static_cast<float>(group.size()));
    const Tensor y = x.to(hpu), z = x.to(hpu);
    const Work work = all_reduce_async_(y, group, ReduceOp::max);
    broadcast_(z, 0, group);
    EXPECT_TRUE(same_bits(work.wait().to("cpu"), all_reduce(x, group, ReduceOp::max)));
    EXPECT_TRUE(same_bits(z.to("cpu"), input_of(0, {300})));
    EXPECT_TRUE(same_bits(all_gather(y, group).to("cpu"), all_gather(y.to("cpu"), group)));
  });
}

TEST(Mesh, LinesAreGroups) {
  on_all_ranks([](const Group& group) {
    const int k = group.size(), me = group.rank();
    if (k % 2 != 0) return;
    const Mesh mesh({2, k / 2}, {"dp", "tp"}, group);
    EXPECT_EQ(mesh.coordinate(), (Dims{me / (k / 2), me % (k / 2)}));
    EXPECT_EQ(mesh.group("dp").size(), 2);
    EXPECT_EQ(mesh.group("tp").size(), k / 2);
    EXPECT_EQ(mesh.group(-1), mesh.group("tp"));
    const Tensor row = all_gather(tensor(me), mesh.group("tp")), column = all_gather(tensor(me), mesh.group(0));
    EXPECT_TRUE(same_bits(row, arange(k / 2) + me / (k / 2) * (k / 2)));
    EXPECT_TRUE(same_bits(column, tensor({me % (k / 2), me % (k / 2) + k / 2})));
    EXPECT_THROW(mesh.group("pp"), KeyError);
    EXPECT_THROW(mesh.group(2), IndexError);
  });
}

}  // namespace
}  // namespace weft::distributed
