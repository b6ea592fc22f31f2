// Gradients of embeddings as rows.
//
// With `sparse`, embedding and embedding_bag give their leaf weight only the used rows of its gradient. This applies to
// backward passes in which nothing else reads the gradient: passes that are not recorded (create_graph), captured or
// observed, calls of backward() and not grad(), and leaves without gradient hooks. Otherwise the gradient is dense, so
// only time and memory depend on it.
//
// Calling grad() on the leaf makes it dense. optim::SparseAdam, SGD without momentum and Adagrad update only the rows;
// clip_grad_norm_, clip_grad_value_ and GradScaler preserve them.
#pragma once

#include <optional>

#include "matrix.hpp"

namespace weft::sparse {

/// The gradient of a leaf where it has come in rows alone, coalesced, with one sparse dimension: its values are the
/// gradient's memory, and may be written. None where there is no gradient, or a dense one. ValueError unless x is a
/// leaf that requires a gradient.
WEFT_API std::optional<Coo> sparse_grad(const Tensor& x, Location where = {});

}  // namespace weft::sparse
