// States sharded over several ranks: written files, rejected states, and loading by other ranks.
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/io/sharded_state.hpp>
#include <weft/weft.hpp>

#include <message_of.hpp>
#include <temporary_folder.hpp>

namespace weft {
namespace {

using io::FlatRange;
using io::ShardedState;
using io::ShardedTensor;
using io::TensorMap;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using Ranks = std::vector<ShardedState>;

Tensor numbered(const Dims& shape, int64_t first = 0) {
  return arange(first, first + shape.product()).reshape(shape).to(f32);
}

Tensor part_of(Tensor x, const Dims& offset, const Dims& shape) {
  for (int d = 0; d < offset.size(); ++d) x = x.narrow(d, offset[d], shape[d]);
  return x;
}

ShardedTensor shard(const Tensor& whole, const Dims& offset, const Dims& shape) {
  return {part_of(whole, offset, shape).clone(), whole.shape(), offset};
}

ShardedTensor flat_shard(const Tensor& whole, const Dims& offset, const Dims& shape, FlatRange range) {
  const Tensor flat = part_of(whole, offset, shape).reshape(-1);
  return {flat.narrow(0, range.begin, range.end - range.begin).clone(), whole.shape(), offset, range, shape};
}

// Of the same place, to be filled.
ShardedTensor blank(const ShardedTensor& t) {
  ShardedTensor out = t;
  out.local = full(t.local.shape(), -1, t.local.dtype());
  return out;
}

Ranks rows_of(const Tensor& w, int64_t count) {
  Ranks out;
  const int64_t rows = w.size(0) / count;
  for (int64_t i = 0; i < count; ++i) out.push_back({{"w", shard(w, {i * rows, 0}, {rows, w.size(1)})}});
  return out;
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

TEST(ShardedState, RanksWriteTheirFilesAndOneTheMetadata) {
  const TemporaryFolder folder;
  const Tensor w = numbered({4, 4});
  Ranks ranks = rows_of(w, 2);
  ranks[1].emplace("b", flat_shard(numbered(3, 50), 0, 3, {0, 3}));
  EXPECT_EQ(io::save_state_dict(ranks, folder.path(), {.nested_names = {{"w", {"model", "w"}}}}), 1);
  EXPECT_THAT(names_in(folder.path()), ElementsAre("0_1.safetensors", "1.metadata.json", "1_1.safetensors"));
  EXPECT_EQ(
      read_bytes(folder / "1.metadata.json"),
      "{\"format_version\": 1,\n\"tensors\": {\n"
      " \"b\": {\"dtype\": \"float32\", \"global_shape\": [3], \"shards\": [\n"
      "  {\"global_offset\": [0], \"local_shape\": [3], \"flattened_range\": [0, 3], \"replica\": 0, \"file\": "
      "\"1_1.safetensors\"}]},\n"
      " \"w\": {\"dtype\": \"float32\", \"global_shape\": [4, 4], \"shards\": [\n"
      "  {\"global_offset\": [0, 0], \"local_shape\": [2, 4], \"replica\": 0, \"file\": \"0_1.safetensors\"},\n"
      "  {\"global_offset\": [2, 0], \"local_shape\": [2, 4], \"replica\": 0, \"file\": \"1_1.safetensors\"}]}},\n"
      "\"nested_names\": {\n \"w\": [\"model\", \"w\"]}}\n");
  EXPECT_TRUE(equal(io::load_file(folder / "1_1.safetensors").at("w"), w.narrow(0, 2, 2)));
  const io::TensorStore store = io::open_state_dict(folder.path());
  EXPECT_TRUE(equal(store.get("w"), w) && equal(store.get("b"), numbered(3, 50)));
}

TEST(ShardedState, TheSpecifiedIntersection) {
  const TemporaryFolder folder;
  const Tensor w = numbered({4, 4});
  io::save_state_dict(rows_of(w, 2), folder.path());
  const ShardedState columns = {{"w", blank(shard(w, {0, 2}, {4, 2}))}};
  io::load_state_dict(columns, folder.path());
  EXPECT_TRUE(equal(columns.at("w").local, w.narrow(1, 2, 2)));
  EXPECT_TRUE(equal(io::open_state_dict(folder.path()).get_slice("w", {2, 2}, {4, 4}), part_of(w, {2, 2}, {2, 2})));
}

TEST(ShardedState, IdsAreMatchedAsAWhole) {
  const TemporaryFolder folder;
  const auto save = [&](double value, std::optional<int64_t> id) {
    return io::save_state_dict(io::unsharded({{"x", full(1, value)}}), folder.path(), {.id = id});
  };
  const auto value = [&](std::optional<int64_t> id) {
    return io::open_state_dict(folder.path(), id).get("x").item<int>();
  };
  EXPECT_EQ(save(1, {}), 1);
  EXPECT_EQ(save(11, 11), 11);
  EXPECT_EQ(save(12, {}), 12);
  EXPECT_THAT(io::state_ids(folder.path()), ElementsAre(1, 11, 12));
  save(100, 1);
  EXPECT_EQ(value(1), 100);
  EXPECT_EQ(value(11), 11);
  EXPECT_EQ(value({}), 12);
  EXPECT_THROW(value(2), IoError);
  for (const char* name : {"013.metadata.json", "-5.metadata.json", "x14.metadata.json", "15.metadata.json.bak",
                           "16.metadata.json.0123456789abcdef.weft-tmp", "99999999999999999999.metadata.json"}) {
    write_bytes(folder / name, "{}");
  }
  EXPECT_THAT(io::state_ids(folder.path()), ElementsAre(1, 11, 12));
  // Files of a save that was killed are no state, and the next save does not mix with them.
  write_bytes(folder / "3_20.safetensors", "");
  EXPECT_EQ(value({}), 12);
  EXPECT_EQ(save(21, {}), 21);
  EXPECT_THROW(save(1, -1), ValueError);
  save(7, INT64_MAX);
  EXPECT_THROW(save(1, {}), ValueError);
  const TemporaryFolder empty;
  EXPECT_THROW(io::open_state_dict(empty.path()), IoError);
  EXPECT_THROW(io::open_state_dict(empty / "none"), IoError);
}

TEST(ShardedState, AnOlderSaveOfTheIdLeavesNothingBehind) {
  const TemporaryFolder folder;
  const Tensor w = numbered({4, 4});
  io::save_state_dict(rows_of(w, 4), folder.path(), {.id = 1});
  io::save_state_dict(rows_of(w, 4), folder.path(), {.id = 11});
  io::save_state_dict(rows_of(w + 1, 2), folder.path(), {.id = 1});
  EXPECT_THAT(names_in(folder.path()),
              ElementsAre("0_1.safetensors", "0_11.safetensors", "1.metadata.json", "11.metadata.json",
                          "1_1.safetensors", "1_11.safetensors", "2_11.safetensors", "3_11.safetensors"));
  EXPECT_TRUE(equal(io::open_state_dict(folder.path(), 1).get("w"), w + 1));
}

TEST(ShardedState, UntilTheMetadataIsThereTheStateIsNot) {
  const TemporaryFolder folder;
  const Tensor w = numbered({4, 4});
  io::save_state_dict(rows_of(w, 2), folder.path(), {.id = 1});
  const Ranks ranks = rows_of(w + 1, 2);
  std::vector<io::RankShards> parts;
  for (const ShardedState& state : ranks) parts.push_back(io::parts_of(state));
  const int64_t id = io::next_state_id(folder.path());
  const io::StateMetadata plan = io::plan_state(parts, {.id = id});
  io::begin_state(folder.path(), id);
  for (int64_t rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(io::state_ids(folder.path()), ElementsAre(1));
    io::write_state_rank(folder.path(), ranks[static_cast<size_t>(rank)], rank, plan);
  }
  EXPECT_TRUE(equal(io::open_state_dict(folder.path()).get("w"), w));
  EXPECT_THROW(io::write_state_rank(folder.path(), {}, 0, plan), KeyError);
  io::finish_state(folder.path(), plan);
  EXPECT_TRUE(equal(io::open_state_dict(folder.path()).get("w"), w + 1));
  io::begin_state(folder.path(), id);
  EXPECT_THAT(io::state_ids(folder.path()), ElementsAre(1));
}

TEST(ShardedState, TheRankWithLeastToWriteWritesAReplica) {
  const Tensor x = numbered(4);
  const ShardedTensor all = shard(x, 0, 4);
  const Ranks ranks = {
      {{"a", all}, {"b", all}, {"c", all}}, {{"a", all}, {"b", all}, {"c", all}}, {{"b", all}, {"c", all}}};
  std::vector<io::RankShards> parts;
  for (const ShardedState& state : ranks) parts.push_back(io::parts_of(state));
  const auto owners = [](const io::StateMetadata& plan, const char* key) {
    std::vector<int64_t> out;
    for (const io::StoredShard& s : plan.tensors.at(key).shards) out.push_back(s.rank);
    return out;
  };
  const io::StateMetadata plan = io::plan_state(parts, {.id = 1});
  EXPECT_THAT(owners(plan, "a"), ElementsAre(0));
  EXPECT_THAT(owners(plan, "b"), ElementsAre(1));
  EXPECT_THAT(owners(plan, "c"), ElementsAre(2));
  EXPECT_THAT(owners(io::plan_state(parts, {.id = 1, .replicas = true}), "c"), ElementsAre(0, 1, 2));
  const TemporaryFolder folder;
  io::save_state_dict(ranks, folder.path(), {.replicas = true});
  EXPECT_EQ(io::load_file(folder / "2_1.safetensors").size(), 2u);
  EXPECT_TRUE(equal(io::open_state_dict(folder.path()).get("c"), x));
}

TEST(ShardedState, IncompleteTensorsRaiseWithTheRanks) {
  const TemporaryFolder folder;
  const Tensor w = numbered({4, 4});
  const auto refusal = [&]<class E>(const Ranks& ranks, E*) {
    const std::string words = message_of<E>([&] { io::save_state_dict(ranks, folder.path()); });
    EXPECT_THAT(names_in(folder.path()), ElementsAre());
    return words;
  };
  const ValueError* value_error = nullptr;
  const ShapeError* shape_error = nullptr;
  Ranks ranks = rows_of(w, 4);
  ranks.erase(ranks.begin() + 2);
  EXPECT_THAT(refusal(ranks, value_error),
              AllOf(HasSubstr("\"w\": no rank has [2, 0] to [3, 4]"), HasSubstr("ranks 0, 1, 2 have")));
  ranks = rows_of(w, 2);
  ranks.push_back({{"w", shard(w, {1, 1}, {1, 2})}});
  EXPECT_THAT(refusal(ranks, value_error), HasSubstr("\"w\": rank 0 and rank 2 both have [1, 1] to [2, 3]"));
  ranks = rows_of(w, 2);
  ranks.push_back({{"w", shard(w.to(f64), {0, 0}, {2, 4})}});
  EXPECT_THAT(refusal(ranks, value_error), HasSubstr("float32 of [4, 4] on rank 0, float64 of [4, 4] on rank 2"));
  EXPECT_THAT(refusal({{{"w", {w, {4, 4}, {1, 0}}}}}, shape_error), HasSubstr("[4, 4] at [1, 0] is no part of [4, 4]"));
  EXPECT_THAT(refusal({{{"w", {w, {4, 4}, {INT64_MAX, 0}}}}}, shape_error), HasSubstr("no part"));
  EXPECT_THAT(refusal({{{"w", {w, {4, 4}, {-1, 0}}}}}, shape_error), HasSubstr("no part"));
  EXPECT_THAT(refusal({{{"w", {w, {4, 4, 1}, {0, 0}}}}}, shape_error), HasSubstr("no part"));
  EXPECT_THAT(refusal({{{"w", {w, {INT64_MAX, INT64_MAX}, {0, 0}}}}}, shape_error), HasSubstr("global shape"));
  EXPECT_THAT(refusal({{{"w", {w, {4, 4}, {0, 0}, FlatRange{0, 16}, {4, 4}}}}}, shape_error),
              HasSubstr("has the shape [4, 4]"));
  EXPECT_THAT(refusal({{{"w", {w.reshape(-1), {4, 4}, {0, 0}, FlatRange{1, 17}, {4, 4}}}}}, shape_error),
              HasSubstr("no elements"));
  EXPECT_THAT(refusal({{{"w", {w.reshape(-1), {4, 4}, {0, 0}, FlatRange{0, 16}}}}}, shape_error), HasSubstr("no part"));
  EXPECT_THAT(refusal({{{"w", flat_shard(w, {0, 0}, {4, 4}, {0, 9})}}, {{"w", flat_shard(w, {0, 0}, {4, 4}, {8, 16})}}},
                      value_error),
              HasSubstr("rank 0 and rank 1 both have [2, 0] to [3, 1]"));
  EXPECT_THAT(refusal({{{"\xff", shard(w, {0, 0}, {4, 4})}}}, value_error), HasSubstr("UTF-8"));
  EXPECT_THAT(refusal({{{"__metadata__", shard(w, {0, 0}, {4, 4})}}}, value_error), HasSubstr("keeps for itself"));
  EXPECT_THAT(refusal({{{"w", {Tensor(), {4, 4}, {0, 0}}}}}, value_error), HasSubstr("undefined"));
  EXPECT_THAT(refusal({{{"w", {zeros({4, 4}, Device(DeviceType::meta)), {4, 4}, {0, 0}}}}}, value_error),
              HasSubstr("meta"));
  EXPECT_THROW(io::save_state_dict(io::unsharded({{"w", w}}), folder.path(), {.nested_names = {{"v", {"v"}}}}),
               ValueError);
}

TEST(ShardedState, LoadingChecksBeforeItWrites) {
  const TemporaryFolder folder;
  const Tensor w = numbered({4, 4});
  io::save_state_dict(rows_of(w, 2), folder.path());
  const auto refuse = [&]<class E>(const char* key, const ShardedTensor& t, E*) {
    const ShardedState state = {{"w", blank(shard(w, {0, 0}, {4, 4}))}, {key, t}};
    EXPECT_THROW(io::load_state_dict(state, folder.path()), E);
    EXPECT_EQ(state.at("w").local.sum().item<int>(), -16);
  };
  refuse("v", shard(w, {0, 0}, {4, 4}), static_cast<KeyError*>(nullptr));
  io::load_state_dict({{"v", shard(w, {0, 0}, {4, 4})}}, folder.path(), {.strict = false});
  const ShardedState other = {{"w", shard(numbered({4, 5}), {0, 0}, {4, 5})}};
  EXPECT_THROW(io::load_state_dict(other, folder.path()), ShapeError);
  EXPECT_THROW(io::load_state_dict({{"w", {zeros({4, 4}), {4, 4}, {0, 1}}}}, folder.path()), ShapeError);
  // They keep their dtype and the unmapped tensors.
  const ShardedState half = {{"u", {zeros({2, 4}, f16), {4, 4}, {2, 0}}}, {"new", {full(1, 5), 1, 0}}};
  io::load_state_dict(half, folder.path(), {.mapping = io::Mapping::parse("w -> u, permute=[]\n_ -> new")});
  EXPECT_TRUE(equal(half.at("u").local, w.t().narrow(0, 2, 2).to(f16)));
  EXPECT_EQ(half.at("new").local.item<int>(), 5);
}

TEST(ShardedState, ScalarsAndTensorsWithoutElements) {
  const TemporaryFolder folder;
  const Tensor s = tensor(2.5);
  const Ranks ranks = {{{"s", shard(s, {}, {})}, {"none", shard(zeros({0, 3}), {0, 0}, {0, 3})}},
                       {{"s", shard(s, {}, {})}, {"t", {tensor({4.5}), {}, {}, FlatRange{0, 1}, {}}}}};
  io::save_state_dict(ranks, folder.path());
  const TensorMap loaded = io::open_state_dict(folder.path()).tensors();
  EXPECT_EQ(loaded.at("s").item<double>(), 2.5);
  EXPECT_EQ(loaded.at("t").item<double>(), 4.5);
  EXPECT_EQ(loaded.at("none").shape(), (Dims{0, 3}));
  const ShardedState into = {{"t", {zeros({}), {}, {}}},
                             {"s", {zeros(1), {}, {}, FlatRange{0, 1}, {}}},
                             {"none", {zeros({0, 3}), {0, 3}, {0, 0}}}};
  io::load_state_dict(into, folder.path());
  EXPECT_EQ(into.at("t").local.item<double>(), 4.5);
  EXPECT_EQ(into.at("s").local.item<double>(), 2.5);
  const Ranks twice = {{{"s", shard(s, {}, {})}}, {{"s", {tensor({1.0}), {}, {}, FlatRange{0, 1}, {}}}}};
  EXPECT_THROW(io::save_state_dict(twice, folder.path()), ValueError);
  EXPECT_EQ(io::save_state_dict(ShardedState{}, folder.path()), 2);
  EXPECT_TRUE(io::open_state_dict(folder.path()).entries().empty());
}

TEST(ShardedState, DamagedStatesAreRefused) {
  const TemporaryFolder folder;
  io::save_state_dict(rows_of(numbered({4, 4}), 2), folder.path());
  const std::string good = read_bytes(folder / "1.metadata.json");
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    return text.replace(at, from.size(), to);
  };
  const auto refusal = [&]<class E>(const std::string& text, E*) {
    write_bytes(folder / "1.metadata.json", text);
    return message_of<E>([&] { io::open_state_dict(folder.path()); });
  };
  const FormatError* format_error = nullptr;
  const auto says = [&](const std::string& text, const char* words) {
    EXPECT_THAT(refusal(text, format_error), HasSubstr(words)) << text;
  };
  says("", "no JSON at byte 0");
  says("[]", "expected an object, got an array");
  says("{}", "format_version is missing");
  says(good + "x", "no JSON");
  says(std::string(good).insert(20, 1, '\0'), "no JSON at byte 20");
  says("{\"format_version\": 1}", "tensors is missing");
  says(changed("\"tensors\": {", "\"tensors\": [{"), "tensors is an array");
  says(changed("\"float32\"", "\"float31\""), "no dtype is named \"float31\"");
  says(changed("\"float32\"", "7"), "tensors.w.dtype is a number");
  says(changed("[4, 4]", "[4, -4]"), "tensors.w.global_shape is a negative number");
  says(changed("[4, 4]", "[4, 4, 4, 4, 4, 4, 4, 4, 4]"), "tensors.w.global_shape has more than 8");
  says(changed("[4, 4]", "[4, 18446744073709551615]"), "beyond 2^63 - 1");
  says(changed("[4, 4]", "[4, 9223372036854775807]"), "global shape");
  says(changed("[2, 4]", "[3, 4]"), ": expected float32 [3, 4], got float32 [2, 4]");
  says(changed("[2, 4]", "[9223372036854775807, 4]"), "tensors.w.shards[0]: ");
  says(changed("[2, 0]", "[1, 0]"), "two shards of \"w\" have [1, 0] to [2, 4]");
  says(changed("\"0_1.", "\"../0_1."), "no file of state 1");
  says(changed("\"0_1.", "\"0_11."), "no file of state 1");
  says(changed("\"0_1.", "\"00_1."), "no file of state 1");
  says(changed("\"0_1.", "\"7_1."), "the file 7_1.safetensors is missing");
  says(changed("\"w\"", "\"v\""), "0_1.safetensors has no \"v\"");
  says(changed("\"replica\": 0, \"file\": \"0_1.safetensors\"", "\"replica\": 0"),
       "tensors.w.shards[0].file is missing");
  says(changed("\"replica\": 0", "\"replica\": 0, \"replica\": 0"), "replica occurs twice");
  says(changed("\"replica\"", "\"flattened_range\": [0, 9], \"replica\""), "[0, 9) are no elements of [2, 4]");
  says(changed("\"replica\"", "\"flattened_range\": [0], \"replica\""), "flattened_range is no pair");
  says(changed("\"nested_names\": {", "\"nested_names\": {\"w\": {}"), "nested_names.w is an object");
  says(changed("\"replica\"", "\"new\": [[[[[[[[[[]]]]]]]]]], \"replica\""), "nested too deeply");
  EXPECT_THAT(refusal(changed("\"replica\": 0", "\"replica\": 1"), static_cast<KeyError*>(nullptr)),
              HasSubstr("no shard of \"w\" has [0, 0] to [2, 4]"));
  EXPECT_THAT(refusal(changed("\"format_version\": 1", "\"format_version\": 3"), static_cast<VersionError*>(nullptr)),
              HasSubstr("of version 3"));
  write_bytes(folder / "1.metadata.json", changed("\"replica\"", "\"new\": [{}, null, 1.5], \"replica\""));
  EXPECT_EQ(io::open_state_dict(folder.path()).entries().size(), 1u);
  std::filesystem::remove(folder / "1_1.safetensors");
  says(good, "the file 1_1.safetensors is missing");
}

// ---- at random ------------------------------------------------------------------------------------------------------

class RandomMesh {
 public:
  explicit RandomMesh(uint64_t seed) : random_(seed) {}
  int64_t below(int64_t bound) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(bound)); }

  Tensor tensor() {
    Dims shape;
    for (int64_t d = below(5); d > 0; --d) shape.push_back(below(10) == 0 ? 0 : 1 + below(6));
    return numbered(shape);
  }
  // Adds a tensor's shards to random ranks, each to one or several.
  void share_out(const std::string& key, const Tensor& whole, Ranks& ranks) {
    std::vector<ShardedTensor> shards;
    divide(whole, Dims::filled(whole.dim(), 0), whole.shape(), shards);
    std::vector<size_t> order;
    for (size_t i = 0; i < ranks.size(); ++i) order.push_back(i);
    std::ranges::shuffle(order, random_);
    while (shards.size() > ranks.size()) ranks.emplace_back(), order.push_back(ranks.size() - 1);
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (i < shards.size()) ranks[order[i]].emplace(key, shards[i]);
      else if (below(2) == 0) ranks[order[i]].emplace(key, shards[static_cast<size_t>(below(std::ssize(shards)))]);
    }
  }

 private:
  void divide(const Tensor& whole, const Dims& offset, const Dims& shape, std::vector<ShardedTensor>& out) {
    const int64_t way = below(4);
    if (way < 2 && whole.dim() > 0) {
      const int d = static_cast<int>(below(whole.dim()));
      const int64_t cut = below(shape[d] + 1);
      Dims first = shape, rest = shape, behind = offset;
      first[d] = cut, rest[d] -= cut, behind[d] += cut;
      if (cut != 0 && cut != shape[d]) {
        divide(whole, offset, first, out);
        return divide(whole, behind, rest, out);
      }
    }
    if (way == 3) return out.push_back(shard(whole, offset, shape));
    const int64_t count = shape.product();
    int64_t begin = 0;
    do {
      const int64_t end = below(3) == 0 ? count : std::min(count, begin + 1 + below(count + 1));
      out.push_back(flat_shard(whole, offset, shape, {begin, end}));
      begin = end;
    } while (begin < count);
  }

  std::mt19937_64 random_;
};

TEST(ShardedState, AnyMeshIsLoadedByAnyOther) {
  const TemporaryFolder folder;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    RandomMesh mesh(seed);
    TensorMap tensors;
    Ranks saved(1 + seed % 4), loading(1 + seed % 3);
    for (const char* key : {"a", "b.c"}) {
      tensors.emplace(key, mesh.tensor());
      mesh.share_out(key, tensors.at(key), saved);
      mesh.share_out(key, tensors.at(key), loading);
    }
    io::save_state_dict(saved, folder.path(), {.id = 1, .replicas = seed % 2 == 0});
    const io::TensorStore store = io::open_state_dict(folder.path(), 1);
    for (const auto& [key, whole] : tensors) {
      ASSERT_TRUE(equal(store.get(key), whole)) << seed;
      Dims starts, ends;
      Tensor part = whole;
      for (int d = 0; d < whole.dim(); ++d) {
        starts.push_back(mesh.below(whole.size(d) + 1));
        ends.push_back(starts[d] + mesh.below(whole.size(d) - starts[d] + 1));
        part = part.narrow(d, starts[d], ends[d] - starts[d]);
      }
      ASSERT_TRUE(equal(store.get_slice(key, starts, ends), part)) << seed << starts << ends;
    }
    for (const ShardedState& wanted : loading) {
      ShardedState into;
      for (const auto& [key, t] : wanted) into.emplace(key, blank(t));
      io::load_state_dict(into, folder.path());
      for (const auto& [key, t] : wanted) ASSERT_TRUE(equal(into.at(key).local, t.local)) << seed << key;
    }
  }
}

TEST(ShardedState, AShardMoreOrLessIsRefused) {
  const TemporaryFolder folder;
  int refused = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    RandomMesh mesh(seed);
    const Tensor whole = numbered({3, 4, 2});
    Ranks ranks;
    mesh.share_out("w", whole, ranks);
    const ShardedTensor last = ranks.back().at("w");
    if (ranks.size() > 1) {
      ranks.pop_back();
      EXPECT_THROW(io::save_state_dict(ranks, folder.path()), ValueError) << seed;
      ranks.push_back({{"w", last}});
      ++refused;
    }
    const ShardedTensor one = shard(whole, {mesh.below(3), mesh.below(4), mesh.below(2)}, {1, 1, 1});
    ranks.push_back({{"w", one}});
    const bool is_there = std::ranges::any_of(ranks.begin(), ranks.end() - 1, [&](const ShardedState& r) {
      const ShardedTensor& t = r.at("w");
      return !t.flattened_range && t.global_offset == one.global_offset && t.local.shape() == one.local.shape();
    });
    if (is_there) continue;
    EXPECT_THROW(io::save_state_dict(ranks, folder.path()), ValueError) << seed;
    ++refused;
  }
  EXPECT_GT(refused, 200);
  EXPECT_THAT(names_in(folder.path()), ElementsAre());
}

// ---- merging --------------------------------------------------------------------------------------------------------

TEST(MergeSharded, EveryCombinationEqualsGatheringInMemory) {
  const TensorMap tensors = {{"model.q", numbered({4, 6})},      {"model.k", numbered({2, 6}, 100)},
                             {"model.v", numbered({2, 6}, 200)}, {"model.norm", numbered(6, 300)},
                             {"extra.x", numbered(5, 400)},      {"model.q.exp_avg", numbered({4, 6}, 500)}};
  const io::Mapping mapping = io::Mapping::parse(
      "model.q, model.k, model.v -> model.qkv, axis=0, permute=[1,0], dtype=\"float64\"\nmodel.norm -> n");
  const TemporaryFolder states, merged, gathered;
  Ranks ranks(3);
  RandomMesh mesh(5);
  for (const auto& [key, whole] : tensors) mesh.share_out(key, whole, ranks);
  io::save_state_dict(ranks, states.path());
  for (const bool filtered : {false, true}) {
    for (const bool is_mapped : {false, true}) {
      for (const bool offload : {false, true}) {
        TensorMap kept;
        for (const auto& [key, whole] : tensors) {
          if (!filtered || (key.starts_with("model.") && !key.ends_with(".exp_avg"))) kept.emplace(key, whole);
        }
        if (is_mapped) {
          kept.emplace("model.qkv", cat({kept.at("model.q"), kept.at("model.k"), kept.at("model.v")}, 0).t().to(f64));
          kept.emplace("n", kept.at("model.norm"));
          for (const char* key : {"model.q", "model.k", "model.v", "model.norm"}) kept.erase(key);
        }
        io::MergeOptions options = {.offload = offload, .shards = {.max_shard_size = 150}};
        if (filtered) options.prefix = "model", options.skip_suffixes = {".exp_avg"};
        if (is_mapped) options.mapping = mapping;
        const auto files = io::merge_sharded(states.path(), merged.path(), options);
        EXPECT_GT(files.size(), 1u);
        EXPECT_EQ(io::save_sharded(kept, gathered.path(), options.shards), files);
        EXPECT_EQ(names_in(merged.path()), names_in(gathered.path()));
        for (const std::string& name : names_in(merged.path())) {
          EXPECT_EQ(read_bytes(merged / name), read_bytes(gathered / name)) << name << filtered << is_mapped << offload;
        }
        EXPECT_EQ(io::load_sharded(merged.path()).size(), kept.size());
      }
    }
  }
}

TEST(MergeSharded, APrefixIsOfNestedNames) {
  const TemporaryFolder states, merged;
  const TensorMap tensors = {{"w", numbered(2)}, {"o", numbered(3)}, {"modelled", numbered(4)}};
  io::save_state_dict(io::unsharded(tensors), states.path(),
                      {.id = 3, .nested_names = {{"w", {"model", "w"}}, {"o", {"optimizer", "o"}}}});
  io::save_state_dict(io::unsharded({{"later", ones(1)}}), states.path());
  EXPECT_THAT(io::merge_sharded(states.path(), merged.path(), {.id = 3, .prefix = "model"}),
              ElementsAre("model.safetensors"));
  EXPECT_THAT(io::SafeFile::open(merged / "model.safetensors").keys(), ElementsAre("w"));
  io::merge_sharded(states.path(), merged.path());
  EXPECT_THAT(io::SafeFile::open(merged / "model.safetensors").keys(), ElementsAre("later"));
  EXPECT_THROW(io::merge_sharded(states.path(), merged.path(), {.id = 9}), IoError);
}

TEST(MergeSharded, TiedNamesAreWrittenTwiceWithAnyOffload) {
  const TemporaryFolder states, merged;
  io::save_state_dict(io::unsharded({{"w", numbered(4)}}), states.path());
  for (const bool offload : {false, true}) {
    io::merge_sharded(states.path(), merged.path(),
                      {.mapping = io::Mapping::parse("w -> a\nw -> b"), .offload = offload});
    const TensorMap loaded = io::load_sharded(merged.path());
    EXPECT_EQ(loaded.size(), 2u);
    EXPECT_TRUE(equal(loaded.at("a"), loaded.at("b")));
  }
}

}  // namespace
}  // namespace weft
