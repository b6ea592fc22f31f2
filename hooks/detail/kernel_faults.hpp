// Finds the kernel that produces NaN or infinity, and saves a reproduction. Not public.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../../autograd/accumulation.hpp"
#include "../../backends/watch/nan_check.hpp"
#include "non_finite_gradient.hpp"
#include "reproduction.hpp"

namespace weft::detail {

/// Called by an observer around each kernel.
class KernelFaults {
 public:
  /// Folder of the reproduction; none if empty.
  explicit KernelFaults(std::string folder) : repro_(std::move(folder)) {}

  struct Fault {
    MadeNonFinite made;
    std::string left;  ///< describes where the reproduction is saved
  };
  void before(const KernelCall& call) {
    note_overwritten(call);
    repro_.before(call);
  }
  /// Returns the NaN or infinity that this kernel produced from inputs without it.
  std::optional<Fault> after(const KernelCall& call) {
    const auto made = made_non_finite(call);
    if (WEFT_LIKELY(!made)) return {};
    return Fault{*made, repro_.leave(call, *made)};
  }

  /// Result of running a node's formula again: the first kernel that produced the fault, or, if the fault was in an
  /// incoming gradient, the kernel that wrote it.
  struct InFormula {
    std::vector<std::string> read;  ///< the values of the kernel's operands
    std::string left;
  };
  InFormula in_formula(Node& node, std::span<const Tensor> incoming) {
    struct Again final : KernelObserver {
      Again(Reproduction& repro_, std::span<const Tensor> arrived_, std::vector<Tensor> known_)
          : repro(repro_), arrived(arrived_), known(std::move(known_)) {
        for (const Tensor& g : arrived) arrived_bad |= g.defined() && find_non_finite(g.raw_view()).any();
      }
      void before(const KernelCall& call) override {
        if (found) return;
        note_overwritten(call);
        repro.before(call);
      }
      void after(const KernelCall& call) override {
        if (found) return;
        std::optional<MadeNonFinite> made = made_non_finite(call);
        for (size_t i = 0; !made && arrived_bad && i < call.outputs.size(); ++i) {
          const cpu::NonFinite bad = find_non_finite(*call.outputs[i]);
          if (bad.any()) made = MadeNonFinite{call.outputs[i], bad};
        }
        if (!made) return;
        found = true;
        for (const View* in : call.inputs) {
          if (!is_input_too(*in, call.outputs)) out.read.push_back("its kernel read " + values_text(*in));
        }
        out.left = repro.leave(call, *made, arrived, known);
      }
      Reproduction& repro;
      const std::span<const Tensor> arrived;
      const std::vector<Tensor> known;
      bool arrived_bad = false, found = false;
      InFormula out;
    } again(repro_, incoming, known_of(node));
    try {
      run_observed_again(node, incoming, again);
    } catch (const std::exception&) {  // report the original fault instead
    }
    return std::move(again.out);
  }

 private:
  /// The leaves and saved tensors of a node.
  static std::vector<Tensor> known_of(const Node& node) {
    std::vector<Tensor> known;
    const auto add = [&](const Tensor& t) {
      const auto same = [&](const Tensor& k) { return k.shares_storage(t) && k.shape() == t.shape(); };
      if (t.defined() && std::ranges::none_of(known, same)) known.push_back(t.detach());
    };
    for (int e = 0; e < node.edge_count; ++e) {
      if (node.wants(e) && node.edges[e].node()->accumulates) add(living_leaf(*node.edges[e].node()));
    }
    visit_saved(node, add);
    return known;
  }

  Reproduction repro_;
};

}  // namespace weft::detail
