// torch::data: MNIST's files, errors of workers, wrong options and states.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <c10/util/tempfile.h>
#include <torch/torch.h>

namespace {

using namespace torch::data;
using testing::HasSubstr;

std::string idx(std::initializer_list<int> head, const std::string& data) {
  std::string bytes;
  for (const int byte : head) bytes += static_cast<char>(byte);
  return bytes + data;
}
void write(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

TEST(TorchData, MnistReadsItsFilesAndScalesThem) {
  const c10::TempDir folder = c10::make_tempdir();
  const std::string images("\0\xff\x33\0\0\0\0\xff", 8);
  write(folder.name + "/t10k-images-idx3-ubyte", idx({0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2}, images));
  write(folder.name + "/t10k-labels-idx1-ubyte", idx({0, 0, 8, 1, 0, 0, 0, 2}, "\3\7"));
  datasets::MNIST data(folder.name, datasets::MNIST::Mode::kTest);
  EXPECT_FALSE(data.is_train());
  EXPECT_EQ(*data.size(), 2u);
  EXPECT_EQ(data.images().sizes(), torch::IntArrayRef({2, 1, 2, 2}));
  EXPECT_TRUE(data.get(0).data.allclose(torch::tensor({0.0, 1.0, 0.2, 0.0}).view({1, 2, 2})));
  EXPECT_EQ(data.get(1).target.item<int64_t>(), 7);
  EXPECT_EQ(data.targets().scalar_type(), torch::kLong);
  EXPECT_THROW(datasets::MNIST(folder.name), weft::IoError);
}

TEST(TorchData, WorkersWithoutJobsAreRefused) {
  const auto data = datasets::TensorDataset(torch::eye(4)).map(transforms::Stack<TensorExample>());
  EXPECT_THROW(make_data_loader(data, DataLoaderOptions(2).workers(1).max_jobs(0)), c10::Error);
  auto loader = make_data_loader(data, DataLoaderOptions(2).workers(2).max_jobs(1));
  int64_t rows = 0;
  for (auto& batch : *loader) rows += batch.data.size(0);
  EXPECT_EQ(rows, 4);
}

TEST(TorchData, AnEpochMayBeLeftEarly) {
  auto loader = make_data_loader(datasets::TensorDataset(torch::eye(64)), DataLoaderOptions(1).workers(3));
  auto batch = loader->begin();
  EXPECT_EQ(batch->size(), 1u);
}

struct FailingReader : datasets::ChunkDataReader<int> {
  std::vector<int> read_chunk(size_t index) override {
    if (index == 1) throw std::invalid_argument("chunk 1 is damaged");
    return std::vector<int>(4, static_cast<int>(index));
  }
  size_t chunk_count() override { return 3; }
  void reset() override {}
};

TEST(TorchData, AnUnreadableChunkRaisesAndTheOthersAreReturned) {
  samplers::SequentialSampler sampler(0);
  datasets::ChunkDataset<FailingReader, samplers::SequentialSampler, samplers::SequentialSampler> data(
      FailingReader(), sampler, sampler, datasets::ChunkDatasetOptions(1, 4, 4));
  EXPECT_THROW(data.get_batch(), c10::Error);  // before reset()
  data.reset();
  std::vector<int> firsts;
  std::string error;
  for (int i = 0; i < 4; ++i) {
    try {
      if (const auto batch = data.get_batch()) firsts.push_back(batch->front());
    } catch (const WorkerException& e) {
      error = e.what();
      EXPECT_THROW(std::rethrow_exception(e.original_exception), std::invalid_argument);
    }
  }
  EXPECT_EQ(firsts, (std::vector<int>{0, 2}));
  EXPECT_THAT(error, HasSubstr("chunk 1 is damaged"));
}

TEST(TorchData, DistributedSamplersNeedARankBelowTheReplicas) {
  EXPECT_THROW(samplers::DistributedRandomSampler(10, 2, 2), c10::Error);
  EXPECT_THROW(samplers::DistributedSequentialSampler(10, 0, 0), c10::Error);
  samplers::DistributedRandomSampler empty(0, 2, 1);
  EXPECT_FALSE(empty.next(1));
}

// libtorch shuffles with std::mt19937 of the epoch: the same order on every machine with this standard library.
TEST(TorchData, DistributedOrderDependsOnTheEpochAlone) {
  samplers::DistributedRandomSampler a(8), b(8);
  a.set_epoch(3), b.set_epoch(3);
  a.reset(), b.reset();
  const auto first = *a.next(8);
  EXPECT_EQ(first, *b.next(8));
  a.set_epoch(4);
  a.reset();
  EXPECT_NE(first, *a.next(8));
}

template <class Sampler>
Sampler reloaded(const Sampler& saved, Sampler other) {
  std::stringstream stream;
  torch::save(saved, stream);
  torch::load(other, stream);
  return other;
}

TEST(TorchData, SamplersContinueAfterTheirLastBatch) {
  samplers::StreamSampler stream(10);
  stream.next(7);
  EXPECT_EQ(*reloaded(stream, samplers::StreamSampler(10)).next(7), 3u);
  samplers::DistributedSequentialSampler part(10, 2, 1);
  part.next(2);
  EXPECT_EQ(*reloaded(part, samplers::DistributedSequentialSampler(10, 2, 1)).next(9), (std::vector<size_t>{7, 8, 9}));
  samplers::DistributedRandomSampler shuffled(10, 2, 1);
  shuffled.set_epoch(2);
  shuffled.reset();
  shuffled.next(2);
  const auto rest = reloaded(shuffled, samplers::DistributedRandomSampler(10, 2, 1)).next(9);
  EXPECT_EQ(rest, shuffled.next(9));
}

TEST(TorchData, StatesBeyondTheDataAreRefused) {
  torch::serialize::OutputArchive archive;
  archive.write("index", torch::tensor({5}, torch::kLong), true);
  archive.write("indices", torch::arange(4), true);
  archive.write("examples_retrieved_so_far", torch::tensor({-1}, torch::kLong), true);
  std::stringstream stream;
  archive.save_to(stream);
  const std::string bytes = stream.str();
  samplers::RandomSampler random(4);
  EXPECT_THROW(torch::load(random, bytes.data(), bytes.size()), weft::ValueError);
  samplers::StreamSampler by_size(4);
  EXPECT_THROW(torch::load(by_size, bytes.data(), bytes.size()), weft::ValueError);
}

}  // namespace
