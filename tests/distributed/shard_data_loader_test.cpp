// Batches in parts beside those of one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <weft/distributed/shard_data_loader.hpp>

#include <message_of.hpp>

#include "ranks.hpp"

namespace weft::distributed {
namespace {

using data::DataLoader;
using data::LoaderOptions;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using LastBatch = ShardDataLoaderOptions::LastBatch;
using Integers = std::vector<int64_t>;

const std::vector<Dims> meshes = {{1}, {2}, {3}, {4}, {2, 2}};

/// The first dimension of each mesh is "dp", the second one "tp".
void on_meshes(const std::function<void(const Mesh&)>& body) {
  for (const Dims& shape : meshes) {
    SCOPED_TRACE(shape.text());
    const auto on_this = [&](const Group&) {
      body(Mesh(shape, shape.size() == 1 ? std::vector<std::string>{"dp"} : std::vector<std::string>{"dp", "tp"}));
    };
    if (!under_mpirun()) LocalWorld(static_cast<int>(shape.product()), {.timeout_seconds = 60}).run(on_this);
    else if (shape.product() == world().size()) on_this(world());
  }
}
/// Two ranks, or those of mpirun.
void on_line(const std::function<void(const Mesh&)>& body) {
  if (under_mpirun()) return body(Mesh(Dims{world().size()}, {"dp"}));
  LocalWorld(2, {.timeout_seconds = 60}).run([&](const Group&) { body(Mesh(Dims{2}, {"dp"})); });
}

struct Numbers {
  int64_t count;
  int64_t size() const { return count; }
  int64_t get(int64_t i) const { return i; }
};
/// Rows with labels.
auto rows(int64_t count) { return data::TensorDataset(arange(count * 3).view({count, 3}), arange(count) * 10); }

Integers integers(const Tensor& t) { return t.to_vector<int64_t>(); }
/// The whole batches of an epoch.
template <class L>
std::vector<Integers> epoch_of(L& loader) {
  std::vector<Integers> batches;
  for (const DTensor& batch : loader) batches.push_back(integers(batch.full_tensor()));
  return batches;
}
template <class L>
std::vector<Integers> epoch_alone(L& loader) {
  std::vector<Integers> batches;
  for (const Tensor& batch : loader) batches.push_back(integers(batch));
  return batches;
}
/// This rank's place among those that cut, and how many they are.
std::pair<int, int> place(const Mesh& mesh) {
  return {static_cast<int>(mesh.coordinate()[0]), static_cast<int>(mesh.shape()[0])};
}
/// This rank's part of n in parts.
Slice part(const Mesh& mesh, int64_t n) {
  const auto [rank, ranks] = place(mesh);
  const int64_t begin = shard_begin(n, ranks, rank);
  return {begin, begin + shard_size(n, ranks, rank)};
}

TEST(ShardDataLoader, PartsEqualTheBatchesOfOneProcess) {
  on_meshes([](const Mesh& mesh) {
    const LoaderOptions options{.batch_size = 12, .shuffle = true, .seed = 5};
    DataLoader alone(rows(29), options);
    ShardDataLoader loader(DataLoader(rows(29), options), mesh, {.shard_dims = {"dp"}});
    EXPECT_EQ(loader.size(), 3);
    for (int epoch = 0; epoch < 2; ++epoch) {
      auto whole = alone.begin();
      for (const auto& [x, y] : loader) {
        ASSERT_FALSE(whole == alone.end());
        const auto& [rows_of_all, labels_of_all] = *whole;
        const int64_t n = rows_of_all.size(0);
        EXPECT_EQ(x.shape(), Dims({n, 3}));
        EXPECT_TRUE(equal(x.local(), rows_of_all[part(mesh, n)]));
        EXPECT_TRUE(equal(y.local(), labels_of_all[part(mesh, n)]));
        EXPECT_TRUE(equal(y.full_tensor(), labels_of_all));
        ++whole;
      }
      EXPECT_TRUE(whole == alone.end());
    }
  });
}

TEST(ShardDataLoader, RanksAlongOtherDimensionsReadTheSameSamplesWithTheSameNoise) {
  on_meshes([](const Mesh& mesh) {
    auto noisy = data::map(Numbers{24}, [](int64_t i) { return rand({2}, f64) + static_cast<double>(i); });
    ShardDataLoader loader(DataLoader(noisy, {.batch_size = 12, .shuffle = true, .seed = 3, .workers = 1}), mesh,
                           {.shard_dims = {"dp"}});
    for (const DTensor& x : loader) {
      EXPECT_EQ(x.local().size(0), 12 / mesh.shape()[0]);
      if (mesh.shape().size() == 2) {
        const Tensor twins = all_gather(x.local().unsqueeze(0), mesh.group("tp"));
        EXPECT_TRUE(equal(twins[0], twins[1]));
      }
      const Integers samples = integers(x.full_tensor().floor().to(i64)[{Slice(), 0}]);
      EXPECT_EQ(std::set<int64_t>(samples.begin(), samples.end()).size(), 12U);
    }
  });
}

TEST(ShardDataLoader, WithoutShardDimsEveryRankHasTheWhole) {
  on_line([](const Mesh& mesh) {
    ShardDataLoader loader(DataLoader(Numbers{5}, {.batch_size = 5}), mesh);
    for (const DTensor& x : loader) {
      EXPECT_THAT(integers(x.local()), ElementsAre(0, 1, 2, 3, 4));
      EXPECT_EQ(x.placements(), Placements{Replicate()});
    }
  });
}

TEST(ShardDataLoader, EachInputIsCutAlongItsOwnAxis) {
  on_meshes([](const Mesh& mesh) {
    ShardDataLoader loader(DataLoader(Numbers{4}, {.batch_size = 4},
                                      [](const std::vector<int64_t>&) {
                                        return std::tuple(arange(28).view({4, 7}), arange(28).view({4, 7}), arange(4));
                                      }),
                           mesh, {.shard_dims = {"dp", {"dp", 1}, none}});
    for (const auto& [a, b, c] : loader) {
      const Tensor whole = arange(28).view({4, 7});
      EXPECT_TRUE(equal(a.local(), whole[part(mesh, 4)]));
      EXPECT_TRUE(equal(b.local(), whole[{Slice(), part(mesh, 7)}]));
      EXPECT_TRUE(b.placements()[0].is_shard(1));
      EXPECT_TRUE(equal(c.local(), arange(4)));
      EXPECT_EQ(loader.masks().size(), 3U);
    }
  });
}

/// Rows of words with labels: 5 by 7, of all of "dp" and "sp".
auto texts() {
  return [](const std::vector<int64_t>& samples) {
    std::vector<Tensor> rows;
    for (const int64_t i : samples) rows.push_back(arange(7) + 100 * i);
    return std::pair(stack(rows), tensor(samples));
  };
}
void on_squares(const std::function<void(const Mesh&)>& body) {
  for (const Dims& shape : {Dims{2, 2}, Dims{2, 3}, Dims{3, 2}, Dims{1, 4}}) {
    SCOPED_TRACE(shape.text());
    if (under_mpirun() && shape.product() != world().size()) continue;
    const auto on_this = [&](const Group& group) { body(Mesh(shape, {"dp", "sp"}, group)); };
    if (under_mpirun()) on_this(world());
    else LocalWorld(static_cast<int>(shape.product()), {.timeout_seconds = 60}).run(on_this);
  }
}
/// Of n elements along dimension d of the mesh.
Slice part_along(const Mesh& mesh, int d, int64_t n) {
  const auto rank = static_cast<int>(mesh.coordinate()[d]), ranks = static_cast<int>(mesh.shape()[d]);
  const int64_t begin = shard_begin(n, ranks, rank);
  return {begin, begin + shard_size(n, ranks, rank)};
}

TEST(ShardDataLoader, RowsAndWordsAreCutAtOnce) {
  on_squares([](const Mesh& mesh) {
    const LoaderOptions options{.batch_size = 5, .shuffle = true, .seed = 3};
    DataLoader alone(Numbers{13}, options, texts());
    ShardDataLoader loader(DataLoader(Numbers{13}, options, texts()), mesh,
                           {.shard_dims = {ShardDims({{"sp", 1}, {"dp"}}), "dp"}});
    for (int epoch = 0; epoch < 2; ++epoch) {
      auto whole = alone.begin();
      for (const auto& [words, labels] : loader) {
        const auto& [all, all_labels] = *whole;
        const int64_t n = all.size(0);
        EXPECT_EQ(text(words.placements()), "[Shard(0), Shard(1)]");
        EXPECT_EQ(words.shape(), all.shape());
        EXPECT_TRUE(equal(words.local(), all[{part_along(mesh, 0, n), part_along(mesh, 1, 7)}]));
        EXPECT_TRUE(equal(words.full_tensor(), all));
        EXPECT_TRUE(equal(labels.local(), all_labels[part_along(mesh, 0, n)]));
        EXPECT_EQ(loader.masks()[0].shape(), Dims({n, 7}));
        EXPECT_TRUE(loader.masks()[0].full_tensor().all().item<bool>());
        ++whole;
      }
      EXPECT_TRUE(whole == alone.end());
    }
  });
}

TEST(ShardDataLoader, AnAxisIsCutByTwoDimensionsOfTheMesh) {
  on_squares([](const Mesh& mesh) {
    ShardDataLoader loader(DataLoader(Numbers{13}, {.batch_size = 13}), mesh,
                           {.shard_dims = {ShardDims({{"sp"}, {"dp"}})}});
    for (const DTensor& x : loader) {
      const Slice rows = part_along(mesh, 0, 13);
      const int64_t outer = rows.stop.value() - rows.start.value();
      EXPECT_TRUE(equal(x.local(), arange(13)[rows][part_along(mesh, 1, outer)]));
      EXPECT_TRUE(equal(x.full_tensor(), arange(13)));
    }
  });
}

TEST(ShardDataLoader, PaddingIsAlongEveryAxisThatIsCut) {
  on_squares([](const Mesh& mesh) {
    ShardDataLoader loader(DataLoader(Numbers{5}, {.batch_size = 5}, texts()), mesh,
                           {.shard_dims = {ShardDims({{"dp"}, {"sp", 1}}), "dp"}, .last_batch = LastBatch::pad});
    const auto padded = [](int64_t n, int64_t ranks) { return (n + ranks - 1) / ranks * ranks; };
    for (const auto& [words, labels] : loader) {
      const int64_t rows = padded(5, mesh.shape()[0]), columns = padded(7, mesh.shape()[1]);
      EXPECT_EQ(words.local().shape(), Dims({rows / mesh.shape()[0], columns / mesh.shape()[1]}));
      const Tensor whole = words.full_tensor(), mask = loader.masks()[0].full_tensor();
      EXPECT_EQ(loader.masks()[0].local().shape(), words.local().shape());
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
          EXPECT_EQ(whole[i][j].item<int64_t>(), 100 * (i % 5) + j % 7);
          EXPECT_EQ(mask[i][j].item<bool>(), i < 5 && j < 7);
        }
      }
      EXPECT_EQ(loader.masks()[1].full_tensor().sum().item<int64_t>(), 5);
    }
  });
}

TEST(ShardDataLoader, APositionOfRowsAndWordsResumesOnAnotherMesh) {
  const auto loader_on = [](const Mesh& mesh) {
    return ShardDataLoader(DataLoader(Numbers{23}, {.batch_size = 4, .shuffle = true, .seed = 8}, texts()), mesh,
                           {.shard_dims = {ShardDims({{"dp"}, {"sp", 1}}), "dp"}});
  };
  const auto rest_of = [](auto& loader) {
    std::vector<Integers> rest;
    for (const auto& [words, labels] : loader) rest.push_back(integers(words.full_tensor().flatten()));
    return rest;
  };
  std::string state;
  std::vector<Integers> straight, resumed;
  LocalWorld(4, {.timeout_seconds = 60}).run([&](const Group& group) {
    auto loader = loader_on(Mesh({2, 2}, {"dp", "sp"}, group));
    auto at = loader.begin();
    ++at;
    const std::string here = loader.state();
    std::vector<Integers> rest;
    for (++at; !(at == loader.end()); ++at) rest.push_back(integers(std::get<0>(*at).full_tensor().flatten()));
    if (group.rank() == 0) state = here, straight = rest;
  });
  LocalWorld(6, {.timeout_seconds = 60}).run([&](const Group& group) {
    auto loader = loader_on(Mesh({3, 2}, {"dp", "sp"}, group));
    loader.restore(state);
    const std::vector<Integers> rest = rest_of(loader);
    if (group.rank() == 0) resumed = rest;
  });
  EXPECT_EQ(straight.size(), 4U);
  EXPECT_EQ(resumed, straight);
}

TEST(ShardDataLoader, SplitRowsAndWordsMakeTheWhole) {
  LocalWorld(4, {.timeout_seconds = 60}).run([](const Group& group) {
    const Mesh mesh({2, 2}, {"dp", "sp"}, group);
    const int64_t row = mesh.coordinate()[0], column = mesh.coordinate()[1];
    const auto own = [=](const std::vector<int64_t>& samples) {
      return stack({arange(3) + 3 * column + 100 * samples[0], arange(3) + 3 * column + 100 * samples[1]});
    };
    ShardDataLoader loader(DataLoader(Numbers{4}, {.batch_size = 2, .rank = row, .world = 2}, own), mesh,
                           {.shard_dims = {ShardDims({{"dp"}, {"sp", 1}})}, .already_split = true});
    for (const DTensor& x : loader) {
      EXPECT_EQ(x.shape(), Dims({4, 6}));
      const Tensor samples = tensor({0, 2, 1, 3}).to(i64);
      EXPECT_TRUE(equal(x.full_tensor(), samples.unsqueeze(1) * 100 + arange(6)));
    }
    EXPECT_THAT(message_of<ValueError>([&] {
                  ShardDataLoader(DataLoader(Numbers{4}, {.rank = 1 - row, .world = 2}, own), mesh,
                                  {.shard_dims = {ShardDims({{"dp"}, {"sp", 1}})}, .already_split = true});
                }),
                HasSubstr("along 'dp' of the mesh"));
  });
}

TEST(ShardDataLoader, ADimensionOfTheMeshCutsAnInputOnce) {
  on_line([](const Mesh& mesh) {
    EXPECT_THAT(message_of<ValueError>([&] {
                  ShardDataLoader(DataLoader(Numbers{4}), mesh, {.shard_dims = {ShardDims({{"dp"}, {"dp", 1}})}});
                }),
                HasSubstr("along 'dp' are to cut two axes"));
  });
}

struct Scene {
  Tensor picture;
  std::string name;
  std::vector<Tensor> boxes;
};
auto scenes() {
  return [](const std::vector<int64_t>&) {
    return Scene{arange(10).view({5, 2}), "five", {arange(3), arange(8), tensor(7)}};
  };
}

TEST(ShardDataLoader, NestedListsStructsAndNumbersOfNoDimension) {
  on_meshes([](const Mesh& mesh) {
    ShardDataLoader loader(DataLoader(Numbers{5}, {.batch_size = 5}, scenes()), mesh, {.shard_dims = {"dp"}});
    int batches = 0;
    for (const auto& [picture, name, boxes] : loader) {
      EXPECT_TRUE(equal(picture.local(), arange(10).view({5, 2})[part(mesh, 5)]));
      EXPECT_EQ(name, "five");
      ASSERT_EQ(boxes.size(), 3U);
      EXPECT_TRUE(equal(boxes[0].local(), arange(3)[part(mesh, 3)]));
      EXPECT_TRUE(equal(boxes[1].local(), arange(8)[part(mesh, 8)]));
      EXPECT_EQ(boxes[2].local().item<int64_t>(), 7);
      EXPECT_TRUE(boxes[2].placements()[0].is_replicate());
      ++batches;
    }
    EXPECT_EQ(batches, 1);
  });
}

TEST(ShardDataLoader, InputsInListsAreCutByTheirPlace) {
  on_line([](const Mesh& mesh) {
    const auto lists = [](const std::vector<int64_t>&) {
      return std::vector<std::vector<Tensor>>{{arange(4), arange(6)}, {arange(8)}};
    };
    ShardDataLoader loader(DataLoader(Numbers{1}, {}, lists), mesh, {.shard_dims = {none, "dp"}});
    for (const std::vector<std::vector<DTensor>>& batch : loader) {
      EXPECT_TRUE(equal(batch[0][0].local(), arange(4)));
      EXPECT_TRUE(equal(batch[0][1].local(), arange(6)));
      EXPECT_TRUE(equal(batch[1][0].local(), arange(8)[part(mesh, 8)]));
    }
    ShardDataLoader three(DataLoader(Numbers{1}, {}, lists), mesh, {.shard_dims = {none, "dp", none}});
    EXPECT_THAT(message_of<ValueError>([&] { three.begin(); }), HasSubstr("3 inputs are described, and a batch has 2"));
  });
}

using Named = std::map<std::string, Tensor>;
auto named() {
  return [](const std::vector<int64_t>&) {
    return Named{{"ids", arange(8).view({4, 2})}, {"labels", arange(4)}, {"weight", tensor(3)}};
  };
}

TEST(ShardDataLoader, OfMapsTheNamedInputsAreTaken) {
  on_meshes([](const Mesh& mesh) {
    ShardDataLoader loader(DataLoader(Numbers{4}, {.batch_size = 4}, named()), mesh,
                           {.input_keys = {"labels", "ids"}, .shard_dims = {none, "dp"}});
    for (const std::map<std::string, DTensor>& batch : loader) {
      EXPECT_EQ(batch.size(), 2U);
      EXPECT_TRUE(equal(batch.at("labels").local(), arange(4)));
      EXPECT_TRUE(equal(batch.at("ids").local(), arange(8).view({4, 2})[part(mesh, 4)]));
    }
    ShardDataLoader all(DataLoader(Numbers{4}, {.batch_size = 4}, named()), mesh, {.shard_dims = {"dp"}});
    EXPECT_EQ((*all.begin()).size(), 3U);
  });
}

TEST(ShardDataLoader, MapsOfAnyValuesInsideOfInputs) {
  on_line([](const Mesh& mesh) {
    const auto collate = [](const std::vector<int64_t>&) {
      return std::pair(arange(4), std::unordered_map<int, std::pair<std::string, Tensor>>{{7, {"seven", arange(6)}}});
    };
    ShardDataLoader loader(DataLoader(Numbers{1}, {}, collate), mesh, {.shard_dims = {none, "dp"}});
    for (const auto& [x, more] : loader) {
      EXPECT_TRUE(equal(x.local(), arange(4)));
      EXPECT_EQ(more.at(7).first, "seven");
      EXPECT_TRUE(equal(more.at(7).second.local(), arange(6)[part(mesh, 6)]));
    }
  });
}

TEST(ShardDataLoader, AKeyThatABatchOrAMeshLacksIsAKeyError) {
  on_line([](const Mesh& mesh) {
    ShardDataLoader loader(DataLoader(Numbers{4}, {.batch_size = 4}, named()), mesh, {.input_keys = {"ids", "mask"}});
    EXPECT_THAT(message_of<KeyError>([&] { loader.begin(); }), HasSubstr("the batch has no 'mask'"));
    EXPECT_THAT(message_of<KeyError>([&] { ShardDataLoader(DataLoader(Numbers{4}), mesh, {.shard_dims = {"tp"}}); }),
                HasSubstr("'tp'"));
  });
}

TEST(ShardDataLoader, StagesGetOnlyTheirInputs) {
  LocalWorld(4, {.timeout_seconds = 60}).run([](const Group& all) {
    const Mesh first(Dims{2}, {"dp"}, all, {0, 1}), last(Dims{2}, {"dp"}, all, {2, 3});
    ShardDataLoader loader(DataLoader(rows(12), {.batch_size = 6, .shuffle = true, .seed = 1}), {first, last},
                           {.shard_dims = {"dp"}});
    DataLoader alone(rows(12), {.batch_size = 6, .shuffle = true, .seed = 1});
    auto whole = alone.begin();
    for (const auto& [x, y] : loader) {
      const bool begins = all.rank() < 2;
      EXPECT_EQ(x.local().defined(), begins);
      EXPECT_EQ(y.local().defined(), !begins);
      EXPECT_EQ(y.shape(), Dims(6));
      const Slice own(all.rank() % 2 * 3, all.rank() % 2 * 3 + 3);
      EXPECT_TRUE(begins ? equal(x.local(), (*whole)[0][own]) : equal(y.local(), (*whole)[1][own]));
      ++whole;
    }
  });
}

TEST(ShardDataLoader, ARaggedLastBatchHasEverySampleOnce) {
  on_meshes([](const Mesh& mesh) {
    ShardDataLoader loader(DataLoader(Numbers{13}, {.batch_size = 12}), mesh, {.shard_dims = {"dp"}});
    EXPECT_EQ(loader.size(), 2);
    const auto batches = epoch_of(loader);
    ASSERT_EQ(batches.size(), 2U);
    EXPECT_THAT(batches[1], ElementsAre(12));
    auto at = loader.begin();
    ++at;
    EXPECT_EQ(at->local().size(0), place(mesh).first == 0 ? 1 : 0);
    EXPECT_TRUE(loader.masks()[0].full_tensor().all().item<bool>());
  });
}

TEST(ShardDataLoader, PaddingWrapsAndIsMasked) {
  on_meshes([](const Mesh& mesh) {
    for (const int64_t count : {12, 13, 14, 17}) {
      ShardDataLoader loader(DataLoader(Numbers{count}, {.batch_size = 12}), mesh,
                             {.shard_dims = {"dp"}, .last_batch = LastBatch::pad});
      const int64_t ranks = mesh.shape()[0];
      int64_t seen = 0;
      for (const DTensor& batch : loader) {
        const int64_t own = std::min<int64_t>(12, count - seen), n = (own + ranks - 1) / ranks * ranks;
        const Tensor whole = batch.full_tensor();
        const std::vector<DTensor> masks = loader.masks();
        ASSERT_EQ(masks.size(), 1U);
        EXPECT_EQ(batch.local().size(0), n / ranks);
        EXPECT_EQ(masks[0].local().shape(), batch.local().shape());
        for (int64_t i = 0; i < n; ++i) {
          EXPECT_EQ(whole[i].item<int64_t>(), seen + i % own);
          EXPECT_EQ(masks[0].full_tensor()[i].item<bool>(), i < own);
        }
        seen += own;
      }
      EXPECT_EQ(seen, count);
    }
  });
}

TEST(ShardDataLoader, ALastBatchThatIsDroppedIsNotCounted) {
  on_meshes([](const Mesh& mesh) {
    for (const int64_t count : {24, 25, 26, 27, 28, 36}) {
      ShardDataLoader loader(DataLoader(Numbers{count}, {.batch_size = 12}), mesh,
                             {.shard_dims = {"dp"}, .last_batch = LastBatch::drop});
      const int64_t ranks = mesh.shape()[0], batches = 2 + (count > 24 && count % ranks == 0 ? 1 : 0);
      EXPECT_EQ(loader.size(), batches) << count;
      for (int epoch = 0; epoch < 2; ++epoch) {
        EXPECT_EQ(static_cast<int64_t>(epoch_of(loader).size()), batches) << count;
      }
    }
  });
  on_line([](const Mesh& mesh) {
    const auto size_of = [&](const LoaderOptions& options) {
      ShardDataLoader loader(DataLoader(Numbers{100}, options), mesh,
                             {.shard_dims = {"dp"}, .last_batch = LastBatch::drop});
      EXPECT_EQ(static_cast<int64_t>(epoch_of(loader).size()), loader.size());
      return loader.size();
    };
    EXPECT_EQ(size_of({.batch_size = 12, .sampler = data::sequential_sampler(25)}), 2);
    EXPECT_EQ(size_of({.batch_size = 12, .sampler = data::sequential_sampler(25), .drop_last = true}), 2);
    EXPECT_EQ(size_of({.batch_size = 12, .sampler = data::sequential_sampler(24)}), 2);
  });
  on_line([](const Mesh& mesh) {
    const int64_t odd = 2 * mesh.size() + 1;
    ShardDataLoader loader(DataLoader(Numbers{3 * odd}, {.batch_size = odd}), mesh,
                           {.shard_dims = {"dp"}, .last_batch = LastBatch::drop});
    EXPECT_THAT(message_of<ValueError>([&] { loader.begin(); }), HasSubstr("not the last one"));
    const data::BatchSampler pairs("pairs", [](uint64_t, int64_t) { return std::vector<Integers>{{0, 1}, {2, 3}}; });
    ShardDataLoader own(DataLoader(Numbers{4}, {.batch_sampler = pairs}), mesh,
                        {.shard_dims = {"dp"}, .last_batch = LastBatch::drop});
    EXPECT_THROW(own.size(), ValueError);
  });
}

TEST(ShardDataLoader, InputsOfDifferentLeadingSizesAreEachCutByTheirOwn) {
  on_meshes([](const Mesh& mesh) {
    const auto collate = [](const std::vector<int64_t>&) { return std::pair(arange(8).view({4, 2}), arange(7)); };
    ShardDataLoader ragged(DataLoader(Numbers{4}, {.batch_size = 4}, collate), mesh, {.shard_dims = {"dp"}});
    for (const auto& [x, y] : ragged) {
      EXPECT_TRUE(equal(x.local(), arange(8).view({4, 2})[part(mesh, 4)]));
      EXPECT_TRUE(equal(y.local(), arange(7)[part(mesh, 7)]));
    }
    ShardDataLoader padded(DataLoader(Numbers{4}, {.batch_size = 4}, collate), mesh,
                           {.shard_dims = {"dp"}, .last_batch = LastBatch::pad});
    for (const auto& [x, y] : padded) {
      const auto masks = padded.masks();
      EXPECT_EQ(masks[0].full_tensor().sum().item<int64_t>(), 4);
      EXPECT_EQ(masks[1].full_tensor().sum().item<int64_t>(), 7);
      EXPECT_EQ(masks[1].shape(), y.shape());
      EXPECT_EQ(x.local().size(0) * mesh.shape()[0], masks[0].shape()[0]);
    }
  });
}

TEST(ShardDataLoader, EveryLoopIsAnEpochAlsoAfterABreak) {
  on_meshes([](const Mesh& mesh) {
    const LoaderOptions options{.batch_size = 4, .shuffle = true, .seed = 2, .workers = 2};
    ShardDataLoader loader(DataLoader(Numbers{20}, options), mesh, {.shard_dims = {"dp"}});
    DataLoader alone(Numbers{20}, options);
    std::vector<std::vector<Integers>> epochs;
    for (int epoch = 0; epoch < 4; ++epoch) epochs.push_back(epoch_alone(alone));
    EXPECT_NE(epochs[0], epochs[1]);
    EXPECT_EQ(epoch_of(loader), epochs[0]);
    for (const DTensor& batch : loader) {
      EXPECT_EQ(integers(batch.full_tensor()), epochs[1][0]);
      break;
    }
    EXPECT_EQ(epoch_of(loader), epochs[2]);
    EXPECT_EQ(epoch_of(loader), epochs[3]);
    EXPECT_EQ(loader.epoch(), 3);
    loader.set_epoch(1);
    EXPECT_EQ(epoch_of(loader), epochs[1]);
    EXPECT_EQ(loader.size(), 5);
  });
}

TEST(ShardDataLoader, AnOlderLoopIsRefusedAndAnEmptyDatasetGivesNothing) {
  on_line([](const Mesh& mesh) {
    ShardDataLoader loader(DataLoader(Numbers{8}, {.batch_size = 2}), mesh, {.shard_dims = {"dp"}});
    auto older = loader.begin(), newer = loader.begin();
    EXPECT_THROW(++older, ValueError);
    EXPECT_NO_THROW(++newer);
    ShardDataLoader nothing(DataLoader(Numbers{0}), mesh, {.shard_dims = {"dp"}, .last_batch = LastBatch::drop});
    EXPECT_EQ(nothing.size(), 0);
    EXPECT_TRUE(nothing.begin() == nothing.end());
  });
}

TEST(ShardDataLoader, RanksWithOtherSeedsOrPositionsAreRefused) {
  on_line([](const Mesh& mesh) {
    const auto own = static_cast<uint64_t>(mesh.coordinate()[0]);
    ShardDataLoader loader(DataLoader(Numbers{8}, {.batch_size = 2, .shuffle = true, .seed = own}), mesh);
    EXPECT_THAT(message_of<ValueError>([&] { loader.begin(); }),
                testing::AllOf(HasSubstr("ranks 0 and 1 differ"), HasSubstr("\"seed\": \"1\"")));
    ShardDataLoader alike(DataLoader(Numbers{8}, {.batch_size = 2, .shuffle = true, .seed = 1}), mesh);
    alike.set_epoch(static_cast<int64_t>(own));
    EXPECT_THROW(alike.begin(), ValueError);
    alike.set_epoch(4);
    EXPECT_EQ(epoch_of(alike).size(), 4U);
  });
}

TEST(ShardDataLoader, ASavedPositionResumesOnAnotherNumberOfRanks) {
  const auto loader_on = [](const Mesh& mesh) {
    auto noisy = data::map(Numbers{50}, [](int64_t i) { return randint(0, 1000, {2}) + 1000 * i; });
    return ShardDataLoader(DataLoader(noisy, {.batch_size = 7, .shuffle = true, .seed = 9, .workers = 1}), mesh,
                           {.shard_dims = {"dp"}, .last_batch = LastBatch::ragged});
  };
  for (const auto& [saving, going_on] : {std::pair(4, 2), std::pair(2, 3), std::pair(3, 1)}) {
    std::string state;
    std::vector<Integers> straight, resumed;
    LocalWorld(saving, {.timeout_seconds = 60}).run([&](const Group& group) {
      auto loader = loader_on(Mesh(Dims{group.size()}, {"dp"}));
      std::vector<Integers> rest;
      for (int epoch = 0; epoch < 2; ++epoch) {
        for (const DTensor& batch : loader) {
          const Tensor whole = batch.full_tensor();
          if (epoch == 0 && loader.batch() == 3 && group.rank() == 0) state = loader.state();
          if (epoch == 1 || loader.batch() > 3) rest.push_back(integers(whole));
        }
      }
      if (group.rank() == 0) straight = rest;
    });
    LocalWorld(going_on, {.timeout_seconds = 60}).run([&](const Group& group) {
      auto loader = loader_on(Mesh(Dims{group.size()}, {"dp"}));
      loader.restore(state);
      std::vector<Integers> rest = epoch_of(loader);
      for (const Integers& batch : epoch_of(loader)) rest.push_back(batch);
      if (group.rank() == 0) resumed = rest;
    });
    EXPECT_EQ(straight.size(), 5U + 8U);
    EXPECT_EQ(resumed, straight);
  }
}

TEST(ShardDataLoader, ARestoredLoaderDropsTheSameBatch) {
  on_meshes([](const Mesh& mesh) {
    const auto make = [&] {
      return ShardDataLoader(DataLoader(Numbers{25}, {.batch_size = 12, .shuffle = true, .seed = 1}), mesh,
                             {.shard_dims = {"dp"}, .last_batch = LastBatch::drop});
    };
    auto straight = make(), other = make();
    auto at = straight.begin();
    other.restore(straight.state());
    EXPECT_EQ(static_cast<int64_t>(epoch_of(other).size()), straight.size() - 1);
    (void)at;
    other.restore(other.state());
    EXPECT_EQ(epoch_of(straight), epoch_of(other)) << "behind an epoch is the next one";
    EXPECT_EQ(other.epoch(), 1);
  });
}

/// Notes which samples are read.
struct Watched {
  std::vector<int64_t>* read;
  int64_t size() const { return 24; }
  int64_t get(int64_t i) const {
    read->push_back(i);
    return i;
  }
};

TEST(ShardDataLoader, OfSplitLoadersEachRankReadsItsOwnSamplesAlone) {
  on_meshes([](const Mesh& mesh) {
    const auto [rank, ranks] = place(mesh);
    Integers read;
    ShardDataLoader loader(
        DataLoader(Watched{&read},
                   {.batch_size = 12 / ranks, .shuffle = true, .seed = 4, .rank = rank, .world = ranks}),
        mesh, {.shard_dims = {"dp"}, .already_split = true});
    EXPECT_EQ(loader.size(), 2);
    DataLoader alone(Numbers{24}, {.batch_size = 12, .shuffle = true, .seed = 4});
    std::vector<Integers> of_one = epoch_alone(alone), of_all = epoch_of(loader);
    ASSERT_EQ(of_all.size(), 2U);
    EXPECT_EQ(static_cast<int>(read.size()) * ranks, 24);
    for (size_t i = 0; i < 2; ++i) {
      std::ranges::sort(of_one[i]);
      std::ranges::sort(of_all[i]);
      EXPECT_EQ(of_all[i], of_one[i]);
    }
    EXPECT_EQ(loader.begin()->shape(), Dims(12));
    EXPECT_TRUE(loader.masks()[0].full_tensor().all().item<bool>());
  });
}

TEST(ShardDataLoader, SplitLoadersMustMatchTheirRank) {
  on_line([](const Mesh& mesh) {
    const int64_t rank = mesh.coordinate()[0], ranks = mesh.size();
    const LoaderOptions own{.rank = rank, .world = ranks}, wrong{.rank = (rank + 1) % ranks, .world = ranks};
    const auto refused = [&](const LoaderOptions& loader, const ShardDataLoaderOptions& options) {
      return message_of<ValueError>([&] { ShardDataLoader(DataLoader(Numbers{8}, loader), mesh, options); });
    };
    EXPECT_EQ(refused(own, {.shard_dims = {"dp"}, .already_split = true}), "nothing was thrown");
    EXPECT_THAT(refused(wrong, {.shard_dims = {"dp"}, .already_split = true}), HasSubstr("along 'dp' of the mesh"));
    EXPECT_THAT(refused(own, {.shard_dims = {"dp"}}), HasSubstr("say already_split"));
    ShardDataLoader unequal(DataLoader(Numbers{8 + rank}), mesh, {.shard_dims = {"dp"}, .already_split = true});
    EXPECT_THAT(message_of<ValueError>([&] { unequal.begin(); }), HasSubstr("batch 1 of 9"));
  });
}

TEST(ShardDataLoader, StreamsAreCutToo) {
  on_meshes([](const Mesh& mesh) {
    const auto counted = data::stream([](int64_t epoch) {
      return [i = int64_t{0}, epoch]() mutable -> std::optional<int64_t> {
        if (i == 10) return {};
        return 100 * epoch + i++;
      };
    });
    ShardDataLoader loader(DataLoader(counted, {.batch_size = 6}), mesh, {.shard_dims = {"dp"}});
    EXPECT_THROW(loader.size(), ValueError);
    EXPECT_THAT(epoch_of(loader), ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5), ElementsAre(6, 7, 8, 9)));
    EXPECT_THAT(epoch_of(loader)[1], ElementsAre(106, 107, 108, 109));
  });
}

TEST(ShardDataLoader, PartsMayBeOnADevice) {
  if (device_count(DeviceType::hpu) == 0) GTEST_SKIP() << "there is no HPU";
  LocalWorld(2, {.timeout_seconds = 60}).run([](const Group& group) {
    const Mesh mesh(Dims{2}, {"dp"}, group);
    ShardDataLoader loader(DataLoader(Numbers{3}, {.batch_size = 3, .device = Device("hpu")}), mesh,
                           {.shard_dims = {"dp"}, .last_batch = LastBatch::pad});
    for (const DTensor& x : loader) {
      const Tensor mask = loader.masks()[0].local();
      EXPECT_EQ(x.local().device(), Device("hpu"));
      EXPECT_EQ(mask.device(), Device("hpu"));
      EXPECT_EQ(integers(x.local().to(Device())), group.rank() == 0 ? Integers({0, 1}) : Integers({2, 0}));
      EXPECT_EQ(mask.sum().item<int64_t>(), 2 - group.rank());
    }
  });
}

TEST(ShardDataLoader, RejectsInvalidArguments) {
  on_line([](const Mesh& mesh) {
    const auto refused = [&](const std::vector<Mesh>& on, const ShardDataLoaderOptions& options) {
      return message_of<ValueError>([&] { ShardDataLoader(DataLoader(rows(4)), on, options); });
    };
    EXPECT_THAT(refused({}, {}), HasSubstr("0 meshes"));
    EXPECT_THAT(refused({mesh, mesh}, {.shard_dims = {"dp", "dp", "dp"}}), HasSubstr("2 meshes, 3 shard_dims"));
    EXPECT_THAT(refused({mesh}, {.shard_dims = {"dp", "dp", "dp"}}),
                HasSubstr("3 inputs are described, and a batch has 2"));
    EXPECT_THAT(refused({mesh}, {.input_keys = {"x", "y"}}), HasSubstr("a batch is no map"));
    EXPECT_THAT(message_of<ValueError>([&] {
                  ShardDataLoader(DataLoader(Numbers{4}, {}, named()), mesh, {.shard_dims = {"dp", none}});
                }),
                HasSubstr("none is named"));
    EXPECT_THROW(ShardDataLoader(DataLoader(rows(4)), mesh, {.shard_dims = {{"dp", -1}}}), IndexError);
    ShardDataLoader flat(DataLoader(Numbers{4}), mesh, {.shard_dims = {{"dp", 1}}});
    EXPECT_THAT(message_of<IndexError>([&] { flat.begin(); }), HasSubstr("axis 1 of a tensor [1]"));
    ShardDataLoader undefined(DataLoader(Numbers{4}, {}, [](const Integers&) { return Tensor(); }), mesh);
    EXPECT_THROW(undefined.begin(), ValueError);
  });
}

}  // namespace
}  // namespace weft::distributed
