#include "accumulation.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>

#include "engine.hpp"
#include "from_ops.hpp"
#include "gradient_rows.hpp"
#include "hooks.hpp"
#include "../backends/dispatch.hpp"
#include "../backends/functors/lists.hpp"
#include "../tensor/capture_recorder.hpp"
#include "../tensor/layout.hpp"
#include "../tensor/warning.hpp"

namespace weft {

namespace {
constexpr Node::Functions accumulation_functions = {[](Node& self, Tensor* incoming, Tensor*) {
                                                      accumulate(static_cast<AccumulationNode&>(self),
                                                                 std::move(incoming[0]), false);
                                                    },
                                                    [](Node&) {},
                                                    [](Node* self) {
                                                      static_cast<AccumulationNode*>(self)->~AccumulationNode();
                                                      detail::free_block(self, sizeof(AccumulationNode));
                                                    }};

AccumulationNode* new_accumulation_node(TensorImpl* leaf) {
  return new (detail::allocate_block(sizeof(AccumulationNode))) AccumulationNode(leaf);
}

}  // namespace

NodeHooks::RetainedGradient* retained_slot(NodeHooks& hooks, uint16_t output) {
  for (auto& kept : hooks.retained) {
    if (kept.output == output) return &kept;
  }
  return nullptr;
}

AccumulationNode::AccumulationNode(TensorImpl* leaf_)
    : Node(&accumulation_functions, "accumulate_grad", Location::none()), leaf(leaf_) {
  accumulates = true;
}

Tensor living_leaf(Node& node) {
  auto& leaf_node = static_cast<AccumulationNode&>(node);
  AccumulationNode::Lock lock(leaf_node);
  if (leaf_node.leaf == nullptr || !leaf_node.leaf->refs.try_increment()) return {};
  return Tensor::adopt(leaf_node.leaf);
}

constinit thread_local Location PassScope::where_ = Location::none();

AccumulationNode* accumulation_node(const TensorImpl* leaf) {
  return leaf->accumulates ? static_cast<AccumulationNode*>(leaf->node) : nullptr;
}

constinit thread_local const AccumulationNode::AddingScope* AccumulationNode::AddingScope::innermost = nullptr;

AccumulationNode::AddingScope::AddingScope(AccumulationNode& node) : node_(&node), outer_(innermost) {
  if (WEFT_UNLIKELY(is_open(node))) {
    raise<AutogradError>({.op = "accumulate_grad",
                          .problem = "a backward into a leaf from within the sum of that leaf's gradient",
                          .remedy = "an observer of kernels may read the leaf, not run a backward into it"},
                         Location::none());
  }
  innermost = this;
  lock_.emplace(node.adding);
}
AccumulationNode::AddingScope::~AddingScope() { innermost = outer_; }
bool AccumulationNode::AddingScope::is_open(const AccumulationNode& node) {
  for (const AddingScope* a = innermost; a != nullptr; a = a->outer_) {
    if (a->node_ == &node) return true;
  }
  return false;
}

namespace {

[[noreturn, gnu::cold]] void raise_moved(const Layout& leaf, const Tensor& gradient) {
  std::string details =
      fmt::format("leaf {} on {}, gradient {} on {}", name(leaf.dtype),
                  Device(leaf.device_type, leaf.device_index).name(), name(gradient.dtype()), gradient.device().name());
  if (!same_sizes(leaf, gradient.raw_view().layout)) {
    details += fmt::format("; shapes {} and {}", Dims(sizes_of(leaf)).text(), gradient.shape().text());
  }
  raise<AutogradError>({.op = "accumulate_grad",
                        .problem = "a leaf was moved since its use was recorded",
                        .details = std::move(details),
                        .remedy = "run backward before Module::to and set_data, or forward again after them"},
                       Location::none());
}

bool is_elsewhere(const Layout& a, const Layout& b) {
  return ((a.dtype != b.dtype) | (a.device_type != b.device_type) | (a.device_index != b.device_index)) != 0;
}

// The bytes of dtype, rank and device in a layout's first word.
constexpr uint64_t type_bytes = [] {
  std::array<unsigned char, 8> bytes{};
  for (const size_t at : {offsetof(Layout, dtype), offsetof(Layout, rank), offsetof(Layout, device_type),
                          offsetof(Layout, device_index)}) {
    bytes[at] = 0xff;
  }
  return std::bit_cast<uint64_t>(bytes);
}();

inline uint64_t type_of(const Layout& layout) {
  uint64_t word;
  std::memcpy(&word, &layout, sizeof word);
  return word & type_bytes;
}

inline bool differ(const Layout& a, const Layout& b) {
  if (type_of(a) != type_of(b)) return true;
  for (int i = 0; i < a.rank; ++i) {
    if (a.sizes[i] != b.sizes[i]) return true;
  }
  return false;
}

}  // namespace

void check_not_moved(const Layout& leaf, const Tensor& gradient) {
  if (WEFT_UNLIKELY(is_elsewhere(leaf, gradient.raw_view().layout))) raise_moved(leaf, gradient);
}

namespace {

// As check_not_moved, of the shape too.
inline void check_not_changed(const Layout& leaf, const Tensor& gradient) {
  if (WEFT_UNLIKELY(differ(leaf, gradient.raw_view().layout))) raise_moved(leaf, gradient);
}

bool may_be_taken(const Tensor& gradient) {
  return detail::share_gradients && gradient.is_contiguous() && exclusively_owned(gradient.impl()) &&
         (gradient.impl()->node == nullptr || recording());
}

// The first gradient becomes the leaf's where its memory can; true where nothing is left to do.
bool take_over(AccumulationNode& node, Tensor& gradient) {
  const bool ours = may_be_taken(gradient);
  AccumulationNode::Lock lock(node);
  if (WEFT_UNLIKELY(node.leaf == nullptr)) return true;
  check_not_changed(node.leaf->view.layout, gradient);
  if (!ours || node.grad.defined() || node.rows != nullptr) return false;
  ++detail::grad_counts.shared;
  detail::grad_counts.bytes_saved += static_cast<int64_t>(gradient.impl()->storage->bytes);
  node.grad = std::move(gradient);
  return true;
}

void put_sum(AccumulationNode& node, Tensor&& sum) {
  Tensor other = std::move(sum);  // then the one so far, which dies after the lock
  AccumulationNode::Lock lock(node);
  if (node.leaf != nullptr) std::swap(node.grad, other);
}

// Code may have given the stored gradient itself another shape, or other memory.
void check_stored(const Tensor& sum, const Tensor& gradient) {
  const Layout &stored = sum.raw_view().layout, &given = gradient.raw_view().layout;
  if (WEFT_LIKELY(!differ(stored, given))) return;
  raise<AutogradError>({.op = "accumulate_grad",
                        .problem = "the stored gradient has another shape, dtype or device than its leaf",
                        .details = fmt::format("leaf {} {} on {}, stored gradient {} {} on {}", name(given.dtype),
                                               gradient.shape().text(), gradient.device().name(), name(stored.dtype),
                                               sum.shape().text(), sum.device().name()),
                        .remedy = "clear it before backward"},
                       Location::none());
}

[[gnu::noinline]] void add_up(AccumulationNode& node, const Tensor& gradient, bool create_graph) {
  const CallScope call(PassScope::sums(node.op));
  const AccumulationNode::AddingScope adding(node);
  detail::settle_rows_adding(node);
  Tensor sum;
  {
    AccumulationNode::Lock lock(node);
    sum = node.grad;
  }
  if (!sum.defined()) {
    ++detail::grad_counts.allocated;
    put_sum(node, detail::fresh_copy(gradient));
    return;
  }
  check_stored(sum, gradient);
  if (create_graph) {
    ++detail::grad_counts.allocated;
    put_sum(node, detail::recorded_add(sum, gradient));
  } else {
    ++detail::grad_counts.accumulated_in_place;
    detail::grad_counts.bytes_saved += sum.nbytes();
    const View& view = sum.raw_view();
    sum.impl()->storage->note_write("accumulate_grad", Location::none());
    kernels(view).binary(BinaryOp::add, view, view, gradient.raw_view());
  }
}

void take_or_add(AccumulationNode& node, Tensor&& gradient, bool create_graph) {
  if (take_over(node, gradient)) return;
  add_up(node, gradient, create_graph);
}

[[gnu::cold]] void accumulate_recorded(AccumulationNode& node, Tensor&& gradient, bool create_graph) {
  detail::settle_rows(node);
  const auto current = [&] {
    AccumulationNode::Lock lock(node);
    return std::pair(node.leaf, node.grad);
  };
  const auto [leaf, before] = current();
  if (leaf != nullptr) detail::capture_recorder->adds_gradient(leaf, before);
  take_or_add(node, std::move(gradient), create_graph);
  if (leaf != nullptr) detail::capture_recorder->put_gradient(leaf, current().second);
}

}  // namespace

void accumulate(AccumulationNode& node, Tensor&& gradient, bool create_graph) {
  if (!gradient.defined()) return;
  if (WEFT_UNLIKELY(detail::capture_recorder != nullptr)) {
    return accumulate_recorded(node, std::move(gradient), create_graph);
  }
  take_or_add(node, std::move(gradient), create_graph);
}

bool Tensor::requires_grad(Location where) const { return needs_gradient(held("requires_grad", where)); }

const Tensor& Tensor::requires_grad_(bool on, Location where) const {
  const CallScope call("requires_grad_", where);
  if (on == requires_grad(where)) return *this;
  detail::HeldMemory* const held = detail::held_memory.load(MemoryOrder::acquire);
  if (!on) {
    if (!impl_->accumulates) {
      raise<AutogradError>(
          {.problem = "the result of a recorded op always requires a gradient", .remedy = "use detach()"});
    }
    detail::release_node(impl_);
    impl_->node = nullptr;
    impl_->accumulates = false;
    impl_->requires_grad = false;
    if (WEFT_UNLIKELY(held != nullptr)) held->turned(impl_);
    return *this;
  }
  if (!is_inexact(dtype()) || is_storage_only(dtype())) {
    raise<ValueError>({.problem = fmt::format("{} tensors have no gradient", name(dtype())),
                       .remedy = "convert to float16, bfloat16, float32 or float64"});
  }
  if (impl_->inference) {
    raise<AutogradError>({.problem = "a tensor made under InferenceGuard cannot require a gradient",
                          .remedy = "clone() it outside the guard"});
  }
  NodeHandle node(new_accumulation_node(impl_));
  if (impl_->base != nullptr) {  // no view any more: it counts for itself in the storage
    if (std::exchange(impl_->mobility, Mobility::loose) == Mobility::fixed) impl_->storage->refs.increment();
    detail::release(std::exchange(impl_->base, nullptr));
  }
  set_history(impl_, node.take());
  impl_->accumulates = true;
  if (WEFT_UNLIKELY(held != nullptr)) held->turned(impl_);
  return *this;
}

bool Tensor::is_leaf(Location where) const { return held("is_leaf", where)->accumulates || !requires_grad(); }

static void warn_of_no_leaf(const TensorImpl& result, Location where) {
  warn({.op = "grad",
        .problem = "this tensor is no leaf, so backward keeps no gradient for it",
        .details = fmt::format("the result of {} at {}", result.node->op, result.node->where.text()),
        .remedy =
            "call retain_grad() on it before backward, read the leaf's, or update a leaf in place under NoGradGuard"},
       where);
}

Tensor Tensor::grad(Location where) const {
  held("grad", where);
  if (AccumulationNode* node = accumulation_node(impl_)) {
    detail::settle_rows(*node);
    AccumulationNode::Lock lock(*node);
    return node->grad;
  }
  if (impl_->node == nullptr) return {};
  if (NodeHooks* hooks = impl_->node->hooks.load(MemoryOrder::acquire)) {
    detail::WordLock lock(hooks->word);
    const auto* kept = retained_slot(*hooks, impl_->output_number);
    if (kept != nullptr) return kept->gradient;
  }
  warn_of_no_leaf(*impl_, where);
  return {};
}

static void check_grad(const Tensor& t, const Tensor& grad, Location where) {
  if (grad.shape() == t.shape() && grad.dtype() == t.dtype() && grad.device() == t.device()) return;
  raise<ShapeError>({.op = "set_grad",
                     .problem = "a gradient has the shape, dtype and device of its tensor",
                     .details = fmt::format("tensor {} {}, gradient {} {}", name(t.dtype()), t.shape().text(),
                                            name(grad.dtype()), grad.shape().text())},
                    where);
}

// Of a result: where its gradient is retained.
[[gnu::noinline]] static void set_retained_grad(const Tensor& result, const Tensor& grad, Location where) {
  const TensorImpl& impl = *result.impl();
  Tensor other = grad;  // then the one so far, which dies after the lock
  if (NodeHooks* hooks = impl.node != nullptr ? impl.node->hooks.load(MemoryOrder::acquire) : nullptr) {
    detail::WordLock lock(hooks->word);
    if (NodeHooks::RetainedGradient* kept = retained_slot(*hooks, impl.output_number))
      return std::swap(kept->gradient, other);
  }
  if (!grad.defined()) return;
  raise<AutogradError>({.op = "set_grad",
                        .problem = "only a leaf that requires a gradient has one",
                        .remedy = "call requires_grad_(), or retain_grad() on a result"},
                       where);
}

void Tensor::set_grad(const Tensor& grad, Location where) const {
  AccumulationNode* node = accumulation_node(held("set_grad", where));
  if (grad.defined()) check_grad(*this, grad, where);
  if (WEFT_UNLIKELY(node == nullptr)) return set_retained_grad(*this, grad, where);
  if (WEFT_UNLIKELY(detail::capture_recorder != nullptr)) detail::capture_recorder->put_gradient(impl_, grad);
  Tensor other = grad;  // then the one so far, which dies after the lock
  std::unique_ptr<AccumulationNode::Rows> rows;
  AccumulationNode::Lock lock(*node);
  std::swap(node->grad, other);
  std::swap(node->rows, rows);
}

void Tensor::retain_grad(Location where) const {
  const CallScope call("retain_grad", where);
  if (!requires_grad(where)) {
    raise<ValueError>({.problem = "no gradient flows to this tensor"});
  }
  if (impl_->accumulates) return;
  NodeHooks& hooks = detail::hooks_of(*impl_->node);
  detail::WordLock lock(hooks.word);
  if (retained_slot(hooks, impl_->output_number) == nullptr)
    hooks.retained.push_back({impl_->output_number, {}, impl_});
  hooks.retains = true;
}

}  // namespace weft
