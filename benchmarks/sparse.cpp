// Embeddings with gradients as rows, and products of sparse matrices; benchmarks/peers/sparse.py has the same cases in
// PyTorch and SciPy.
#include <memory>
#include <optional>

#include <weft/sparse/sparse.hpp>

#include "case.hpp"

namespace weft::bench {

namespace {

constexpr int64_t rows = 1000000, width = 64, batch = 4096;

/// Forward, backward and optimizer step of an embedding with a batch of indices.
template <class Optimizer>
struct Training {
  bool sparse;
  nn::Embedding table{rows, width, EmbeddingOptions{.sparse = sparse}};
  Optimizer optimizer{table.parameters(), {.lr = 0.01}};
  Tensor ids = randint(0, rows, {batch}), seed = randn({batch, width});

  void step() {
    optimizer.zero_grad();
    table(ids).backward(seed);
    optimizer.step();
  }
};

template <class Optimizer>
void add_training(const std::string& name, bool sparse) {
  const auto training = std::make_shared<std::optional<Training<Optimizer>>>();
  add_case("sparse." + name + ".1000000x64", [=] {
    if (!*training) training->emplace(sparse);
    (*training)->step();
  });
}

struct Product {
  sparse::Csr matrix;
  Tensor x, seed;

  Product(int64_t size, int64_t columns) {
    matrix = sparse::to_csr(where(rand({size, size}) < 0.01, randn({size, size}), 0));
    x = randn({size, columns});
    seed = randn({size, columns});
  }
};

void add_products(int64_t size, int64_t columns) {
  const auto p = std::make_shared<std::optional<Product>>();
  const auto made = [=]() -> Product& { return *p ? **p : p->emplace(size, columns); };
  const std::string shape = std::to_string(size) + "x" + std::to_string(columns);
  const double flops = 2 * 0.01 * static_cast<double>(size * size * columns);
  add_case(
      "sparse.csr_matmul." + shape, [=] { sparse::matmul(made().matrix, made().x); }, Mode::no_grad, flops,
      Rate::flops);
  add_case(
      "sparse.csr_matmul_grad." + shape,
      [=] {
        Product& product = made();
        const Tensor x = product.x.detach().requires_grad_();
        sparse::Csr matrix = product.matrix;
        matrix.values = matrix.values.detach().requires_grad_();
        sparse::matmul(matrix, x).backward(product.seed);
      },
      Mode::recording, 3 * flops, Rate::flops);
}

}  // namespace

void add_sparse_cases() {
  add_training<optim::SGD>("sgd.rows", true);
  add_training<optim::SGD>("sgd.dense", false);
  add_training<optim::SparseAdam>("adam.rows", true);
  add_training<optim::Adam>("adam.dense", false);
  for (const int64_t columns : {1, 64}) add_products(4096, columns);
}

}  // namespace weft::bench
