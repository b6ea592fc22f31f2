#include <weft/backends/portable/host.hpp>

#include <weft/backends/portable/launch.hpp>

namespace weft::portable::host {

void require(Accelerator& device, Compute compute, const char* kernel, const View& view) {
  if (compute == Compute::f64 && !device.has_double()) unsupported(kernel, view);
}

void fill_kernels(KernelTable& table) {
  table = {.unary = unary,
           .unary_gradient = unary_gradient,
           .binary = binary,
           .compare = compare,
           .ternary = ternary,
           .where = where,
           .copy = copy,
           .fill = fill,
           .reduce = reduce,
           .arg_reduce = arg_reduce,
           .variance = variance,
           .cumsum = cumsum,
           .softmax = softmax,
           .softmax_gradient = softmax_gradient,
           .matmul = matmul,
           .layer_norm = layer_norm,
           .layer_norm_gradient = layer_norm_gradient,
           .rms_norm = rms_norm,
           .rms_norm_gradient = rms_norm_gradient,
           .cross_entropy = cross_entropy,
           .cross_entropy_gradient = cross_entropy_gradient,
           .index_select = index_select,
           .index_add = index_add,
           .gather = gather,
           .scatter = scatter,
           .index_get = nullptr,
           .index_put = nullptr,
           .count_nonzero = nullptr,
           .nonzero = nullptr,
           .masked_select = nullptr,
           .masked_scatter = nullptr,
           .sort = nullptr,
           .searchsorted = nullptr,
           .arange = arange,
           .random = random,
           .attention = nullptr,
           .attention_gradient = nullptr,
           .adam = adam,
           .sgd = sgd};
}

}  // namespace weft::portable::host
