// Writes files with torch::save, or reads them again and compares: one library reads the files of the other.
//
// usage: files write DIR | files read DIR
#include "common.h"

#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

using torch::Tensor;

namespace {

int failures = 0;

void expect(bool right, const std::string& what) {
  if (right) return;
  ++failures;
  std::printf("wrong: %s\n", what.c_str());
}
void expect_equal(const Tensor& read, const Tensor& expected, const std::string& name) {
  const bool same = read.defined() && read.sizes() == expected.sizes() && read.scalar_type() == expected.scalar_type();
  expect(same && read.equal(expected) && read.requires_grad() == expected.requires_grad(), name);
}

// ---- tensors ----
std::vector<Tensor> tensors() {
  const Tensor base = pattern({4, 6}, 100, 1);
  std::vector<Tensor> all;
  for (const auto type : {torch::kFloat64, torch::kFloat32, torch::kFloat16, torch::kBFloat16, torch::kInt64,
                          torch::kInt32, torch::kInt16, torch::kInt8, torch::kUInt8, torch::kBool}) {
    all.push_back(base.abs().to(type));
  }
  all.push_back(torch::complex(base, base + 1));
  all.push_back(base.t());
  all.push_back(base.slice(1, 1, 5));
  all.push_back(base[2]);
  all.push_back(base.clone().set_requires_grad(true));
  all.push_back(torch::tensor(2.5));
  all.push_back(torch::zeros({0, 3}));
  all.push_back(base.expand({2, 4, 6}));
  return all;
}

// ---- modules and optimizers ----
struct BranchImpl : torch::nn::Module {
  BranchImpl() {
    fc = register_module("fc", torch::nn::Linear(6, 5));
    norm = register_module("norm", torch::nn::BatchNorm1d(5));
    scale = register_parameter("scale", torch::ones({5}));
    count = register_buffer("count", torch::tensor({3}, torch::kLong));
  }
  Tensor forward(const Tensor& x) { return norm(fc(x)) * scale; }
  torch::nn::Linear fc{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  Tensor scale, count;
};
TORCH_MODULE(Branch);

torch::nn::Sequential new_model() {
  return torch::nn::Sequential(Branch(), torch::nn::ReLU(),
                               torch::nn::Linear(torch::nn::LinearOptions(5, 3).bias(false)),
                               torch::nn::Functional(torch::tanh));
}
void train(torch::nn::Sequential& model, torch::optim::Optimizer& optimizer, int from, int count) {
  for (int step = from; step < from + count; ++step) {
    const Tensor x = pattern({7, 6}, 1, 20 + static_cast<uint64_t>(step));
    optimizer.zero_grad();
    model->forward(x).pow(2).sum().backward();
    optimizer.step();
  }
}

using Maker = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<Tensor>)>;
struct Kind {
  const char* name;
  Maker make;
};
template <class O, class Options>
Kind kind(const char* name, Options options) {
  return {name,
          [options](std::vector<Tensor> parameters) { return std::make_unique<O>(std::move(parameters), options); }};
}
// libtorch fails to write states of LBFGS, which hold undefined tensors.
std::vector<Kind> kinds() {
  using namespace torch::optim;
  return {kind<SGD>("sgd", SGDOptions(0.1).momentum(0.9)),
          kind<Adam>("adam", AdamOptions(0.01).amsgrad(true).betas(std::make_tuple(0.8, 0.99))),
          kind<AdamW>("adamw", AdamWOptions(0.01)), kind<Adagrad>("adagrad", AdagradOptions(0.05)),
          kind<RMSprop>("rmsprop", RMSpropOptions(0.01).momentum(0.9).centered(true))};
}

// ---- values ----
torch::serialize::OutputArchive values() {
  torch::serialize::OutputArchive archive, inner;
  archive.write("int", torch::IValue(static_cast<int64_t>(-7)));
  archive.write("large", torch::IValue(static_cast<int64_t>(1) << 40));
  archive.write("float", torch::IValue(0.1));
  archive.write("bool", torch::IValue(true));
  archive.write("text/with a slash", torch::IValue(std::string("caf\xc3\xa9")));
  archive.write("none", torch::IValue());
  archive.write("tensor", pattern({2}, 1, 3), /*is_buffer=*/true);
  inner.write("deep", torch::IValue(2.0));
  archive.write("inner", inner);
  return archive;
}
void check_values(torch::serialize::InputArchive& archive) {
  const auto get = [&](const char* key) {
    torch::IValue value;
    archive.read(key, value);
    return value;
  };
  expect(get("int").toInt() == -7 && get("large").toInt() == static_cast<int64_t>(1) << 40, "integers");
  expect(get("float").toDouble() == 0.1 && get("bool").toBool(), "numbers");
  expect(get("text/with a slash").toStringRef() == "caf\xc3\xa9" && get("none").isNone(), "text");
  Tensor tensor;
  archive.read("tensor", tensor, true);
  expect_equal(tensor, pattern({2}, 1, 3), "tensor of the archive");
  torch::serialize::InputArchive inner;
  archive.read("inner", inner);
  torch::IValue deep;
  expect(inner.try_read("deep", deep) && deep.toDouble() == 2 && !inner.try_read("int", deep), "nested archive");
  expect(archive.keys().size() == 8, "keys");
}

void write_bytes(const std::string& path, const std::vector<char>& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}
std::vector<char> read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// ---- the two ways ----
void write(const std::string& folder) {
  torch::save(tensors(), folder + "/tensors.pt");
  torch::save(pattern({3}, 1, 9), folder + "/tensor.pt");
  values().save_to(folder + "/values.pt");
  write_bytes(folder + "/pickle.pt", torch::pickle_save(torch::IValue(tensors())));
  for (const Kind& each : kinds()) {
    torch::nn::Sequential model = new_model();
    set_weights(*model);
    auto optimizer = each.make(model->parameters());
    train(model, *optimizer, 0, 3);
    torch::save(model, folder + "/model_" + each.name + ".pt");
    torch::save(*optimizer, folder + "/" + each.name + ".pt");
    train(model, *optimizer, 3, 2);
    torch::save(model, folder + "/later_" + each.name + ".pt");
  }
}

// Training goes on from the files, to the weights that the writer had later.
void check_training(const std::string& folder, const Kind& each) {
  torch::nn::Sequential model = new_model(), later = new_model();
  torch::load(model, folder + "/model_" + each.name + ".pt");
  auto optimizer = each.make(model->parameters());
  torch::load(*optimizer, folder + "/" + each.name + ".pt");
  train(model, *optimizer, 3, 2);
  torch::load(later, folder + "/later_" + each.name + ".pt");
  // The bias in front of BatchNorm has gradients of rounding errors alone, so weights are compared by their effect.
  const Tensor x = pattern({9, 6}, 1, 50);
  expect(model->forward(x).allclose(later->forward(x), 1e-4, 1e-5), std::string("training goes on, ") + each.name);
  expect(model[2]->as<torch::nn::Linear>()->weight.allclose(later[2]->as<torch::nn::Linear>()->weight, 1e-4, 1e-5),
         std::string("weights, ") + each.name);
}
void read(const std::string& folder) {
  const std::vector<Tensor> expected = tensors();
  std::vector<Tensor> loaded;
  torch::load(loaded, folder + "/tensors.pt");
  expect(loaded.size() == expected.size(), "number of tensors");
  for (size_t i = 0; i < loaded.size(); ++i) expect_equal(loaded[i], expected[i], "tensor " + std::to_string(i));
  const std::vector<Tensor> pickled = torch::pickle_load(read_bytes(folder + "/pickle.pt")).toTensorVector();
  expect(pickled.size() == expected.size(), "number of pickled tensors");
  for (size_t i = 0; i < pickled.size(); ++i) expect_equal(pickled[i], expected[i], "pickled " + std::to_string(i));
  Tensor one;
  torch::load(one, folder + "/tensor.pt");
  expect_equal(one, pattern({3}, 1, 9), "a tensor");
  torch::serialize::InputArchive archive;
  archive.load_from(folder + "/values.pt");
  check_values(archive);
  for (const Kind& each : kinds()) check_training(folder, each);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  if (std::strcmp(arguments[1], "write") == 0) write(arguments[2]);
  else read(arguments[2]);
  std::printf("%d wrong\n", failures);
  return failures == 0 ? 0 : 1;
}
