#include "gradient_rows.hpp"

#include <algorithm>

#include "autocast.hpp"
#include "engine.hpp"
#include "from_ops.hpp"
#include "mode.hpp"
#include "../backends/dispatch.hpp"
#include "../tensor/layout.hpp"
#include "../tensor/capture_recorder.hpp"

namespace weft::detail {

constinit thread_local RowPass* row_pass = nullptr;

namespace {

using Rows = AccumulationNode::Rows;

/// Sooner than this many backward passes rows are added up, however few they are.
constexpr size_t most_pieces = 64;

bool fits(const Tensor& dense, const Tensor& values) {
  return values.dim() == dense.dim() &&
         std::equal(dense.sizes().begin() + 1, dense.sizes().end(), values.sizes().begin() + 1);
}

void add_to(const Tensor& dense, const GradientRows& rows) {
  if (WEFT_UNLIKELY(!fits(dense, rows.values))) {
    raise<AutogradError>({.op = "accumulate_grad",
                          .problem = "a leaf has another shape than when its rows were used",
                          .details = dense.shape().text() + ", rows " + rows.values.shape().text()},
                         Location::none());
  }
  if (rows.values.numel() == 0) return;
  const View& view = dense.raw_view();
  kernels(view).index_add(view, 0, rows.ids.raw_view(), rows.values.raw_view());
}

// Takes the rows out and puts the remaining ones back. The node keeps an empty list, so that concurrent readers of the
// gradient wait.
class TakenRows {
 public:
  explicit TakenRows(AccumulationNode& node) : node_(node) {
    AccumulationNode::Lock lock(node);
    if (node.rows != nullptr) pieces.swap(node.rows->pieces);
  }
  ~TakenRows() {
    std::unique_ptr<Rows> empty;
    AccumulationNode::Lock lock(node_);
    if (node_.rows == nullptr) return;  // the gradient was set
    Rows& now = *node_.rows;
    now.pieces.splice(now.pieces.begin(), pieces);
    if (now.pieces.empty()) empty.swap(node_.rows);
  }
  TakenRows(const TakenRows&) = delete;

  std::list<GradientRows> pieces;

 private:
  AccumulationNode& node_;
};

struct LeafWithRows {
  Tensor grad;
  Layout layout;
};
// None where there are no rows, or the leaf has died.
std::optional<LeafWithRows> leaf_with_rows(AccumulationNode& node) {
  AccumulationNode::Lock lock(node);
  if (WEFT_LIKELY(node.rows == nullptr) || node.leaf == nullptr) return {};
  return LeafWithRows{node.grad, node.leaf->view.layout};
}

// The rows become few and distinct. Under the AddingScope.
void merge(AccumulationNode& node, int64_t rows_of_leaf) {
  const NoGradGuard unrecorded;
  const AutocastModeGuard as_given({});
  const CallScope call(PassScope::sums(node.op));
  TakenRows taken(node);
  if (taken.pieces.empty() || (taken.pieces.size() == 1 && taken.pieces.front().are_distinct)) return;
  const std::vector<GradientRows> pieces(taken.pieces.begin(), taken.pieces.end());
  std::list<GradientRows> all{added_up(pieces, rows_of_leaf)};
  taken.pieces.swap(all);
  AccumulationNode::Lock lock(node);
  if (node.rows == nullptr) return;
  node.rows->merged = taken.pieces.front().ids.numel();
  node.rows->count = node.rows->merged;
  for (const GradientRows& newer : node.rows->pieces) node.rows->count += newer.ids.numel();
}

// Copies tensors that share their memory or are not contiguous.
Tensor owned(Tensor&& values) {
  if (values.is_contiguous() && exclusively_owned(values.impl())) return std::move(values);
  return fresh_copy(values);
}

void add_rows(AccumulationNode& node, GradientRows&& rows) {
  auto fresh = std::make_unique<Rows>();
  std::list<GradientRows> piece{rows};
  bool is_dense = false, is_crowded = false;
  int64_t rows_of_leaf = 0;
  {
    AccumulationNode::Lock lock(node);
    if (node.leaf == nullptr) return;
    const Layout& leaf = node.leaf->view.layout;
    check_not_moved(leaf, rows.values);
    is_dense = node.grad.defined();
    rows_of_leaf = leaf.rank == 0 ? 1 : leaf.sizes[0];
    if (!is_dense) {
      if (node.rows == nullptr) std::swap(node.rows, fresh);
      Rows& all = *node.rows;
      all.count += rows.ids.numel();
      all.pieces.splice(all.pieces.end(), piece);
      is_crowded = all.pieces.size() > most_pieces || all.count > std::max(rows_of_leaf, 2 * all.merged);
    }
  }
  if (WEFT_LIKELY(!is_dense && !is_crowded)) return;
  const CallScope call(PassScope::sums(node.op));
  const AccumulationNode::AddingScope adding(node);
  if (!is_dense) return merge(node, rows_of_leaf);
  Tensor dense;
  {
    AccumulationNode::Lock lock(node);
    dense = node.grad;
  }
  if (!dense.defined()) return;  // it was dropped meanwhile, and this pass with it
  ++grad_counts.accumulated_in_place;
  grad_counts.bytes_saved += dense.nbytes();
  dense.impl()->storage->note_write("accumulate_grad", Location::none());
  add_to(dense, rows);
}

}  // namespace

bool takes_rows(const Node& self, int edge, std::span<const int64_t> shape) {
  if (row_pass == nullptr || capture_recorder != nullptr) return false;
  Node* const node = self.edges[edge].node();
  if (node == nullptr || !node->accumulates) return false;
  auto& leaf = static_cast<AccumulationNode&>(*node);
  {
    AccumulationNode::Lock lock(leaf);
    if (leaf.leaf != nullptr && !std::ranges::equal(sizes_of(leaf.leaf->view.layout), shape)) return false;
  }
  const NodeHooks* const hooks = leaf.hooks.load(MemoryOrder::acquire);
  return hooks == nullptr || !hooks->may_have(GradPhase::gradient);
}

void give_rows(Node& self, int edge, const Tensor& ids, Tensor&& values) {
  auto& leaf = static_cast<AccumulationNode&>(*self.edges[edge].node());
  if (std::ranges::find(row_pass->leaves, &leaf) == row_pass->leaves.end()) row_pass->leaves.push_back(&leaf);
  add_rows(leaf, {ids, owned(std::move(values))});
}

bool has_rows(const Tensor& x) {
  AccumulationNode* const node = accumulation_node(x.impl());
  if (node == nullptr) return false;
  AccumulationNode::Lock lock(*node);
  return node->rows != nullptr;
}

std::optional<GradientRows> gradient_rows(AccumulationNode& node) {
  const AccumulationNode::AddingScope adding(node);
  const auto leaf = leaf_with_rows(node);
  if (!leaf || leaf->grad.defined()) return {};
  merge(node, leaf->layout.sizes[0]);
  AccumulationNode::Lock lock(node);
  if (node.rows == nullptr || node.rows->pieces.size() != 1 || node.grad.defined()) return {};
  return node.rows->pieces.front();
}

Tensor gradient_values(const Tensor& leaf) {
  if (WEFT_UNLIKELY(has_rows(leaf))) {
    AccumulationNode& node = *accumulation_node(leaf.impl());
    const auto rows = AccumulationNode::AddingScope::is_open(node) ? std::nullopt : gradient_rows(node);
    if (rows) return rows->values;
  }
  return leaf.grad();
}

void settle_rows(AccumulationNode& node) {
  {
    AccumulationNode::Lock lock(node);
    if (WEFT_LIKELY(node.rows == nullptr)) return;
  }
  if (AccumulationNode::AddingScope::is_open(node)) return;
  const CallScope call(PassScope::sums(node.op));
  const AccumulationNode::AddingScope adding(node);
  settle_rows_adding(node);
}

void settle_rows_adding(AccumulationNode& node) {
  const auto leaf = leaf_with_rows(node);
  if (WEFT_LIKELY(!leaf)) return;
  refuse_recording("rows of a gradient become dense");
  Tensor sum = leaf->grad;
  if (sum.defined()) {
    sum.impl()->storage->note_write("accumulate_grad", Location::none());
  } else {
    const Layout& l = leaf->layout;
    sum = zeros_unrecorded(Dims(sizes_of(l)), l.dtype, Device(l.device_type, l.device_index));
    ++grad_counts.allocated;
    AccumulationNode::Lock lock(node);
    if (node.leaf == nullptr || node.rows == nullptr || node.grad.defined()) return;  // it was set meanwhile
    node.grad = sum;
  }
  TakenRows taken(node);
  while (!taken.pieces.empty()) {
    add_to(sum, taken.pieces.front());
    taken.pieces.pop_front();
  }
}

}  // namespace weft::detail
