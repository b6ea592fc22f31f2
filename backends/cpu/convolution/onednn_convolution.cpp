// Convolutions by oneDNN's kernels, which take channels in blocks. One image at a time is brought into that form, so
// that its copies stay in the cache.
//
// Images are convolved one at a time: oneDNN uses blocked channels, and converting an image that stays in the cache
// costs little. Its channels-last kernels took as long without the conversion, so networks keep no memory format. A
// small batch is split by output channels.
#include "onednn_convolution.hpp"

#if WEFT_HAS_ONEDNN
#include <array>
#include <new>
#include <limits>
#include <string_view>
#include <memory>
#include <unordered_map>

#include "../onednn.hpp"
#include "../thread_pool.hpp"
#include "../workspace.hpp"

namespace weft::cpu {
namespace {

using dnnl::memory;
using enum Convolution;

constexpr auto f32 = memory::data_type::f32;
/// Images and parts of one that threads may share.
constexpr int64_t most_tasks = 8;

/// The key of a plan: the shape without its batch, and the stride between the weights of two outputs.
struct Key {
  std::array<int64_t, 24> numbers;

  Key(Convolution product, const ConvolutionShape& s, bool bias, int64_t weight_row)
      : numbers{static_cast<int64_t>(product), bias, s.groups, s.channels, s.outputs, weight_row} {
    size_t at = 6;
    for (const auto* sizes : {&s.in, &s.kernel, &s.out, &s.steps.stride, &s.steps.padding, &s.steps.dilation}) {
      for (const int64_t size : *sizes) numbers[at++] = size;
    }
  }
  bool operator==(const Key&) const = default;
  struct Hash {
    size_t operator()(const Key& key) const {
      uint64_t h = 0;
      for (const int64_t x : key.numbers) {
        h = (h ^ static_cast<uint64_t>(x)) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
      }
      return h;
    }
  };
};

/// An operand in a tensor's layout and in the kernel's layout.
struct Operand {
  memory plain, blocked;
  dnnl::reorder change;
  bool same = false;
  size_t bytes = 0;  ///< of the blocked form, where it is another

  /// `to_kernel`: the tensor is read, else written.
  void init(const memory::desc& tensor, const memory::desc& kernel, bool to_kernel) {
    plain = memory(tensor, onednn_engine(), nullptr);
    blocked = memory(kernel, onednn_engine(), nullptr);
    same = tensor == kernel;
    if (same) return;
    bytes = (kernel.get_size() + 63) / 64 * 64;
    change = to_kernel ? dnnl::reorder(plain, blocked) : dnnl::reorder(blocked, plain);
  }
  /// The memory that the kernel takes: the tensor's own, or `scratch`, which then gets a copy.
  void read(const float* tensor, char* scratch) {
    if (same) return blocked.set_data_handle(const_cast<float*>(tensor));
    plain.set_data_handle(const_cast<float*>(tensor));
    blocked.set_data_handle(scratch);
    change.execute(onednn_stream(), plain, blocked);
  }
  void begin_write(float* tensor, char* scratch) {
    plain.set_data_handle(tensor);
    blocked.set_data_handle(same ? static_cast<void*>(tensor) : scratch);
  }
  void end_write() {
    if (!same) change.execute(onednn_stream(), blocked, plain);
  }
};

/// A product of one image; used by one thread. `a`, `b` and `out` are those of KernelTable::convolution.
struct Plan {
  bool usable = false;
  dnnl::primitive primitive;
  Operand a, b, out;
  memory bias, scratchpad;
  size_t scratch_bytes = 0;
  std::unordered_map<int, memory> arguments;

  void make(Convolution product, const ConvolutionShape& s, bool has_bias, int64_t weight_row);
  size_t image_bytes() const { return a.bytes + out.bytes + scratch_bytes; }
};

/// Sizes of a tensor with the spatial dimensions that a plan keeps: two, or three.
memory::dims sizes_of(memory::dims first, const int64_t (&spatial)[3], bool flat) {
  first.insert(first.end(), spatial + (flat ? 1 : 0), spatial + 3);
  return first;
}

/// oneDNN's padding at the high end; negative where there is none that gives these sizes.
int64_t high_padding(const ConvolutionShape& s, int d) {
  const int64_t exact = s.reach(d) - s.in[d] - s.steps.padding[d];
  return exact >= 0 ? exact : std::min<int64_t>(exact + s.steps.stride[d] - 1, 0);
}

template <class Description>
Description description_of(const ConvolutionShape& s, bool flat, const auto&... leading) {
  memory::dims stride, dilation, low, high;
  for (int d = flat ? 1 : 0; d < 3; ++d) {
    stride.push_back(s.steps.stride[d]);
    dilation.push_back(s.steps.dilation[d] - 1);
    low.push_back(s.steps.padding[d]);
    high.push_back(high_padding(s, d));
  }
  return Description(leading..., stride, dilation, low, high);
}

/// Whether the kernel is made for this shape and processor, and does not go by columns as the own one does.
bool is_direct(const auto& chosen) {
  const std::string_view name = chosen.impl_info_str();
  return name.find("jit") != name.npos && name.find("gemm") == name.npos;
}

void Plan::make(Convolution product, const ConvolutionShape& s, bool has_bias, int64_t weight_row) {
  const bool flat = s.in[0] == 1 && s.kernel[0] == 1 && s.out[0] == 1 && s.steps.padding[0] == 0;
  for (int d = 0; d < 3; ++d) {
    if (high_padding(s, d) < 0) return;
  }
  const memory::dims x = sizes_of({1, s.groups * s.channels}, s.in, flat);
  const memory::dims y = sizes_of({1, s.groups * s.outputs}, s.out, flat);
  const memory::dims w =
      sizes_of(s.groups > 1 ? memory::dims{s.groups, s.outputs, s.channels} : memory::dims{s.outputs, s.channels},
               s.kernel, flat);
  memory::dims strides(w.size(), 1);
  for (size_t i = w.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * w[i];
  strides[s.groups > 1 ? 1 : 0] = weight_row;
  const auto tag = flat ? memory::format_tag::nchw : memory::format_tag::ncdhw, any = memory::format_tag::any;
  const memory::desc x_plain(x, f32, tag), y_plain(y, f32, tag), w_plain(w, f32, strides);
  const memory::desc x_any(x, f32, any), y_any(y, f32, any), w_any(w, f32, any);
  const memory::desc row({s.groups * s.outputs}, f32, memory::format_tag::a);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);

  const auto algorithm = dnnl::algorithm::convolution_direct;
  const auto kind = dnnl::prop_kind::forward_training;
  using Forward = dnnl::convolution_forward;
  const auto description = has_bias ? description_of<Forward::desc>(s, flat, kind, algorithm, x_any, w_any, row, y_any)
                                    : description_of<Forward::desc>(s, flat, kind, algorithm, x_any, w_any, y_any);
  const Forward::primitive_desc forward_chosen(description, attributes, onednn_engine());
  memory::desc scratch;
  const auto take = [&](const auto& chosen) {
    usable = is_direct(chosen);
    scratch = chosen.scratchpad_desc();
  };
  if (product == forward) {
    take(forward_chosen);
    if (!usable) return;
    primitive = dnnl::convolution_forward(forward_chosen);
    a.init(x_plain, forward_chosen.src_desc(), true);
    b.init(w_plain, forward_chosen.weights_desc(), true);
    out.init(y_plain, forward_chosen.dst_desc(), false);
    bias = memory(row, onednn_engine(), nullptr);
    arguments = {{DNNL_ARG_SRC, a.blocked}, {DNNL_ARG_WEIGHTS, b.blocked}, {DNNL_ARG_DST, out.blocked}};
    if (has_bias) arguments.emplace(DNNL_ARG_BIAS, bias);
  } else if (product == by_data) {
    using Backward = dnnl::convolution_backward_data;
    const Backward::primitive_desc chosen(description_of<Backward::desc>(s, flat, algorithm, x_any, w_any, y_any),
                                          attributes, onednn_engine(), forward_chosen);
    take(chosen);
    if (!usable) return;
    primitive = Backward(chosen);
    a.init(y_plain, chosen.diff_dst_desc(), true);
    b.init(w_plain, chosen.weights_desc(), true);
    out.init(x_plain, chosen.diff_src_desc(), false);
    arguments = {{DNNL_ARG_DIFF_DST, a.blocked}, {DNNL_ARG_WEIGHTS, b.blocked}, {DNNL_ARG_DIFF_SRC, out.blocked}};
  } else {
    using Backward = dnnl::convolution_backward_weights;
    const Backward::primitive_desc chosen(description_of<Backward::desc>(s, flat, algorithm, x_any, w_any, y_any),
                                          attributes, onednn_engine(), forward_chosen);
    take(chosen);
    if (!usable) return;
    primitive = Backward(chosen);
    a.init(x_plain, chosen.src_desc(), true);
    b.init(y_plain, chosen.diff_dst_desc(), true);
    out.init(w_plain, chosen.diff_weights_desc(), false);
    arguments = {{DNNL_ARG_SRC, a.blocked}, {DNNL_ARG_DIFF_DST, b.blocked}, {DNNL_ARG_DIFF_WEIGHTS, out.blocked}};
  }
  scratch_bytes = scratch.get_size();
  scratchpad = memory(scratch, onednn_engine(), nullptr);
  arguments.emplace(DNNL_ARG_SCRATCHPAD, scratchpad);
}

/// Making a plan takes a millisecond: each thread keeps those it met. Null where oneDNN has no kernel of its own.
Plan* plan_of(Convolution product, const ConvolutionShape& s, bool bias, int64_t weight_row) {
  constexpr size_t most = 128;
  // A pointer, because late-loaded modules have little static thread-local storage.
  static thread_local const auto own = std::make_unique<std::unordered_map<Key, Plan, Key::Hash>>();
  auto& plans = *own;
  const Key key(product, s, bias, weight_row);
  auto found = plans.find(key);
  if (found == plans.end()) {
    if (plans.size() >= most) plans.clear();
    Plan plan;
    try {
      plan.make(product, s, bias, weight_row);
    } catch (const dnnl::error& error) {
      if (error.status == dnnl_out_of_memory) throw std::bad_alloc();
      plan.usable = false;
    }
    found = plans.emplace(key, std::move(plan)).first;
  }
  return found->second.usable ? &found->second : nullptr;
}

/// Parts of an image's outputs, or of its inputs' gradients, so that a small batch is enough for some threads.
int64_t parts_of(const ConvolutionShape& s, int64_t channels) {
  int64_t parts = 1;
  while (s.groups == 1 && s.batch * parts < most_tasks && channels % (parts * 64) == 0) parts *= 2;
  return parts;
}

bool by_images(Convolution product, const ConvolutionShape& s, float* out, const float* a, const float* b,
               const float* bias) {
  const bool is_forward = product == forward;
  const int64_t parts = parts_of(s, is_forward ? s.outputs : s.channels);
  ConvolutionShape part = s;
  (is_forward ? part.outputs : part.channels) /= parts;
  const int64_t inputs = s.groups * (is_forward ? s.channels * s.in_size() : s.outputs * s.out_size());
  const int64_t results = s.groups * (is_forward ? part.outputs * s.out_size() : part.channels * s.in_size());
  const OneOpenmpThread one;
  Plan* const mine = plan_of(product, part, bias != nullptr, s.depth());
  if (mine == nullptr) return false;
  const size_t weight_bytes = mine->b.bytes;
  const bool dense_weights = mine->b.same;
  const Workspace weights(weight_bytes * static_cast<size_t>(parts));
  // A part's weights are rows for forward, and columns of every row for the gradient.
  const auto weight_at = [&](int64_t p) { return b + p * (is_forward ? part.outputs * s.depth() : part.depth()); };
  const auto blocked_at = [&](int64_t p) { return weights.as<char>() + static_cast<size_t>(p) * weight_bytes; };
  {
    const HeldSignals held;
    for (int64_t p = 0; p < parts && !dense_weights; ++p) mine->b.read(weight_at(p), blocked_at(p));
  }
  parallel_for(s.batch * parts, 1, [&](int64_t first, int64_t last) {
    const OneOpenmpThread here;
    Plan* const plan = plan_of(product, part, bias != nullptr, s.depth());
    if (plan == nullptr) throw std::bad_alloc();
    const Workspace memory(plan->image_bytes());
    char* const scratch = memory.as<char>();
    const HeldSignals held;
    for (int64_t task = first; task < last; ++task) {
      const int64_t image = task / parts, p = task % parts;
      plan->a.read(a + image * inputs, scratch);
      plan->b.blocked.set_data_handle(dense_weights ? const_cast<float*>(weight_at(p))
                                                    : static_cast<void*>(blocked_at(p)));
      plan->out.begin_write(out + task * results, scratch + plan->a.bytes);
      if (bias != nullptr) plan->bias.set_data_handle(const_cast<float*>(bias + p * part.outputs));
      plan->scratchpad.set_data_handle(scratch + plan->a.bytes + plan->out.bytes);
      plan->primitive.execute(onednn_stream(), plan->arguments);
      plan->out.end_write();
    }
  });
  return true;
}

/// Each share of the batch has its own sum, in double; the sums are added in a fixed order.
bool by_weight_of_images(const ConvolutionShape& s, float* dw, const float* x, const float* g) {
  const int64_t size = s.groups * s.outputs * s.depth(), shares = std::min(s.batch, most_tasks);
  const int64_t inputs = s.groups * s.channels * s.in_size(), results = s.groups * s.outputs * s.out_size();
  const OneOpenmpThread one;
  if (plan_of(by_weight, s, false, s.depth()) == nullptr) return false;
  const Workspace sums(static_cast<size_t>(shares * size) * sizeof(double));
  parallel_for(shares, 1, [&](int64_t first, int64_t last) {
    const OneOpenmpThread here;
    Plan* const plan = plan_of(by_weight, s, false, s.depth());
    if (plan == nullptr) throw std::bad_alloc();
    const size_t images = plan->image_bytes() + plan->b.bytes;
    const Workspace memory(images + static_cast<size_t>(size) * sizeof(float));
    char* const scratch = memory.as<char>();
    float* const of_image = reinterpret_cast<float*>(scratch + images);
    const HeldSignals held;
    for (int64_t share = first; share < last; ++share) {
      double* const sum = sums.as<double>() + share * size;
      std::fill_n(sum, size, 0.0);
      for (int64_t i = s.batch * share / shares; i < s.batch * (share + 1) / shares; ++i) {
        plan->a.read(x + i * inputs, scratch);
        plan->b.read(g + i * results, scratch + plan->a.bytes);
        plan->out.begin_write(of_image, scratch + plan->a.bytes + plan->b.bytes);
        plan->scratchpad.set_data_handle(scratch + plan->a.bytes + plan->b.bytes + plan->out.bytes);
        plan->primitive.execute(onednn_stream(), plan->arguments);
        plan->out.end_write();
        for (int64_t k = 0; k < size; ++k) sum[k] += static_cast<double>(of_image[k]);
      }
    }
  });
  for (int64_t k = 0; k < size; ++k) {
    double total = 0;
    for (int64_t share = 0; share < shares; ++share) total += sums.as<double>()[share * size + k];
    dw[k] = static_cast<float>(total);
  }
  return true;
}

/// oneDNN's kernels count in 32 bits, and do not say so.
bool fits_32_bits(const ConvolutionShape& s) {
  constexpr int64_t most = std::numeric_limits<int32_t>::max(), most_steps = 1 << 20;
  for (int d = 0; d < 3; ++d) {
    for (const int64_t n :
         {s.in[d], s.out[d], s.kernel[d], s.steps.stride[d], s.steps.padding[d], s.steps.dilation[d]}) {
      if (n > most_steps) return false;
    }
    if (s.reach(d) > most_steps) return false;
  }
  for (const int64_t size :
       {s.groups * s.channels * s.in_size(), s.groups * s.outputs * s.out_size(), s.groups * s.outputs * s.depth()}) {
    if (size > most) return false;
  }
  return true;
}

}  // namespace

bool onednn_convolution(Convolution product, const ConvolutionShape& s, float* out, const float* a, const float* b,
                        const float* bias) {
  if (!fits_32_bits(s)) return false;
  if (is_depthwise(s)) {
    if (s.outputs != 1) return false;
    if (product == by_weight) return by_weight_of_images(s, out, a, b);
    return by_images(product, s, out, a, b, bias);
  }
  // Sums over the places of many channels are faster from columns.
  if (product == by_weight) return s.groups == 1 && s.channels < 8 && by_weight_of_images(s, out, a, b);
  // Fewer channels leave their block empty.
  if (s.outputs < 8 || s.channels < (product == forward ? 3 : 6)) return false;
  return by_images(product, s, out, a, b, bias);
}

}  // namespace weft::cpu
#else
namespace weft::cpu {

bool onednn_convolution(Convolution, const ConvolutionShape&, float*, const float*, const float*, const float*) {
  return false;
}

}  // namespace weft::cpu
#endif
