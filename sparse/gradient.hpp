// Gradients of embeddings as rows.
//
// With `sparse`, embedding and embedding_bag give the leaf that is their weight the rows of its gradient that were
// used, in the backward passes where nobody else sees it: not one that is recorded (create_graph), captured, or
// watched, and not grad(); nor where the leaf has gradient hooks. Otherwise the gradient is dense as always, so nothing
// depends on it but time and memory.
//
// Who asks the leaf for grad() makes it dense, once. optim::SparseAdam, SGD without momentum and Adagrad step the rows
// alone; clip_grad_norm_, clip_grad_value_ and GradScaler leave them rows.
#pragma once

#include <optional>

#include "matrix.hpp"

namespace weft::sparse {

/// The gradient of a leaf where it has come in rows alone, coalesced, with one sparse dimension: its values are the
/// gradient's memory, and may be written. None where there is no gradient, or a dense one. ValueError unless x is a
/// leaf that requires a gradient.
WEFT_API std::optional<Coo> sparse_grad(const Tensor& x, Location where = {});

}  // namespace weft::sparse
