// The CPU's kernels, one function for each pointer of KernelTable, with its contract (backends/dispatch.hpp).
#pragma once

#include <weft/backends/dispatch.hpp>

namespace weft::cpu {

// pointwise.cpp
void unary(UnaryOp, const View& out, const View& a);
void unary_gradient(UnaryOp, const View& out, const View& g, const View& saved);
void binary(BinaryOp, const View& out, const View& a, const View& b);
void compare(CompareOp, const View& out, const View& a, const View& b);
void ternary(TernaryOp, const View& out, const View& a, const View& b, const View& c);
void where(const View& out, const View& condition, const View& a, const View& b);
// copy.cpp
void copy(const View& out, const View& in);
void fill(const View& out, Scalar value);

// reduce.cpp, scan.cpp
void reduce(Reduction, const View& out, const View& in);
void arg_reduce(ArgReduction, const View& out, const View& in, int dim);
void variance(const View& out, const View& in, double correction);
void cumsum(const View& out, const View& in, int dim, bool exclusive, bool reverse);

// softmax.cpp, norm.cpp, cross_entropy.cpp
void softmax(const View& out, const View& in, int dim, bool logarithm);
void softmax_gradient(const View& out, const View& g, const View& y, int dim, bool logarithm);
void layer_norm(const View& out, const View& mean, const View& rstd, const View& x, const View& weight,
                const View& bias, double epsilon);
void layer_norm_gradient(const View& dx, const View& dweight, const View& dbias, const View& g, const View& x,
                         const View& mean, const View& rstd, const View& weight);
void rms_norm(const View& out, const View& rstd, const View& x, const View& weight, double epsilon);
void rms_norm_gradient(const View& dx, const View& dweight, const View& g, const View& x, const View& rstd,
                       const View& weight);
void cross_entropy(const View& losses, const View& log_sum_exp, const View& logits, const View& targets,
                   int64_t ignore_index, double label_smoothing);
void cross_entropy_gradient(const View& dlogits, const View& g, const View& logits, const View& log_sum_exp,
                            const View& targets, int64_t ignore_index, double label_smoothing);

// index.cpp, scatter.cpp
void index_select(const View& out, const View& x, int dim, const View& index);
void gather(const View& out, const View& x, int dim, const View& index);
void scatter(Scatter, const View& out, int dim, const View& index, const View& source);
// index_elements.cpp, index_put.cpp
void index_get(const View& out, const View& base, const IndexPlan&);
void index_put(const View& base, const View& values, const IndexPlan&, bool accumulate);
void index_add(const View& out, int dim, const View& index, const View& source);
// mask.cpp
int64_t count_nonzero(const View& x);
void nonzero(const View& out, const View& x);
void masked_select(const View& out, const View& x, const View& mask);
void masked_scatter(const View& out, const View& mask, const View& source);
// sort.cpp
void sort(const View& out, const View& order, const View& x, int dim, bool descending);
void searchsorted(const View& out, const View& sorted, const View& values, bool right);

// random.cpp
void arange(const View& out, Scalar start, Scalar step);
void random(const View& out, Distribution, PhiloxSeed, double a, double b);

// matmul.cpp, attention.cpp, optimizer.cpp
void matmul(const View& out, const View& a, const View& b, const View& bias);
void attention(const View& out, const View& log_sum_exp, const View& q, const View& k, const View& v, const View& mask,
               AttentionSettings);
void attention_gradient(const View& dq, const View& dk, const View& dv, const View& g, const View& out,
                        const View& log_sum_exp, const View& q, const View& k, const View& v, const View& mask,
                        AttentionSettings);
void adam(std::span<const AdamSlot>, const AdamSettings&);
void sgd(std::span<const SgdSlot>, const SgdSettings&);

}  // namespace weft::cpu
