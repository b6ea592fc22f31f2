// The host side of the portable kernels: one function for each pointer of KernelTable that they serve.
#pragma once

#include <weft/backends/dispatch.hpp>

namespace weft::portable::host {

void fill_kernels(KernelTable& table);

// host_pointwise.cpp
void unary(UnaryOp, const View& out, const View& a);
void unary_gradient(UnaryOp, const View& out, const View& g, const View& saved);
void binary(BinaryOp, const View& out, const View& a, const View& b);
void compare(CompareOp, const View& out, const View& a, const View& b);
void ternary(TernaryOp, const View& out, const View& a, const View& b, const View& c);
// host_copy.cpp
void where(const View& out, const View& condition, const View& a, const View& b);
void copy(const View& out, const View& in);
void fill(const View& out, Scalar value);
void arange(const View& out, Scalar start, Scalar step);

// host_reduce.cpp
void reduce(Reduction, const View& out, const View& in);
void arg_reduce(ArgReduction, const View& out, const View& in, int dim);
void variance(const View& out, const View& in, double correction);
void cumsum(const View& out, const View& in, int dim, bool exclusive, bool reverse);

// host_rows.cpp
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

// host_matmul.cpp
void matmul(const View& out, const View& a, const View& b, const View& bias);

// host_index.cpp
void index_select(const View& out, const View& x, int dim, const View& index);
void index_add(const View& out, int dim, const View& index, const View& source);
void gather(const View& out, const View& x, int dim, const View& index);
void scatter(Scatter, const View& out, int dim, const View& index, const View& source);

// host_random.cpp, host_optimizer.cpp
void random(const View& out, Distribution, PhiloxSeed, double a, double b);
void adam(std::span<const AdamSlot>, const AdamSettings&);
void sgd(std::span<const SgdSlot>, const SgdSettings&);

}  // namespace weft::portable::host
