// Partition rules of families of ops, and their building blocks. Not public.
#pragma once

#include <initializer_list>

#include "../partition.hpp"

namespace weft::parts {

// ---- whole families ----
/// Tensors are made whole first.
Partition whole(const WholeCall& call);
/// Element by element, of operands that broadcast.
Partition pointwise(const WholeCall& call);
/// The same where the op is linear: a copy, a sign, a conversion between floating dtypes.
Partition copy(const WholeCall& call);
/// add and sub; mul; div.
Partition sum_of_operands(const WholeCall& call);
Partition product(const WholeCall& call);
Partition quotient(const WholeCall& call);
/// Each of a list, with those of the same number in other lists.
Partition each_of_lists(const WholeCall& call);

/// Reductions over `dim` that parts can be combined of.
template <ReduceOp op>
Partition reduced(const WholeCall& call);
/// The arithmetic mean over `dim`.
Partition averaged(const WholeCall& call);
/// Dimensions `dim`, `dims`, `axis` or `axes` are never cut, or none is where they are not given; others are alike in
/// every tensor of that rank and in results, which may lack those dimensions.
Partition along(const WholeCall& call);
/// Likewise with the first dimension; with the second.
Partition along_first(const WholeCall& call);
Partition along_second(const WholeCall& call);
/// The first `n` dimensions are cut alike in every tensor, others never.
template <int n>
Partition leading(const WholeCall& call);
/// Likewise all dimensions but the last `n` of the first tensor.
template <int n>
Partition all_but_last(const WholeCall& call);

/// Views that put dimensions in another order, add or drop some.
Partition reordered(const WholeCall& call);
/// Views of a size that the second argument says.
Partition expanded(const WholeCall& call);
Partition reshaped(const WholeCall& call);
/// Elementwise losses of broadcast operands, with a `reduction`.
Partition pointwise_loss(const WholeCall& call);
/// Losses of rows: the first dimension is that of the rows in every tensor that has as many, others are never cut.
Partition row_loss(const WholeCall& call);

// ---- building blocks of rules ----
/// n letters from `first` on.
std::string letters(int n, char first = 'a');
/// '1' for every axis.
std::string uncut(const Tensor& t);
/// "ab,bc->ac" from words.
std::string notation(std::span<const std::string> inputs, std::span<const std::string> results);
std::string notation(std::initializer_list<std::string> inputs, std::initializer_list<std::string> results);
/// Words for all inputs and results of the same letters and ranks as x = inputs()[0]: '1' at `fixed` dimensions, and at
/// those where sizes differ. Results may lack the fixed dimensions. Other ranks are never cut.
Partition aligned(const WholeCall& call, const Dims& fixed);
/// Of a tensor of this rank '1' at the dimensions dim1 and dim2 of a call, and letters at the others.
std::string beside_diagonal(const WholeCall& call, int rank);
/// Dimensions that an argument names, in [0, rank); all where it is not given.
Dims dims_of(const Value& v, int rank);
/// A result of a mean, from the sum of this rank's elements: their share of `count`.
Tensor share_of_mean(const Tensor& sum, int64_t count);
/// A term added once to a partial sum: x itself on the rank whose shard of input number `i` begins at 0 along `axis`.
Tensor added_once(const PartCall& call, const Tensor& x, size_t i, int axis);

}  // namespace weft::parts
