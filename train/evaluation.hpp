// Metrics of one evaluation, collected by name in a loop over validation data.
//
//   [&](train::Evaluation& e) {
//     for (auto& [x, y] : validation) {
//       const Tensor scores = model(x);
//       e.mean("val_loss").update(cross_entropy(scores, y).item<double>(), x.size(0));
//       e.metric<train::Accuracy>("val_accuracy").update(scores, y);
//     }
//   }
#pragma once

#include <concepts>
#include <string>
#include <utility>
#include <vector>

#include "metrics.hpp"
#include "../io/run_log.hpp"
#include "../tensor/callback.hpp"
#include "../tensor/type_id.hpp"
#include "../tensor/shared.hpp"

namespace weft::train {

/// A name with the location of the call.
struct FigureName {
  template <std::convertible_to<std::string> T>
  FigureName(T&& name, Location here = {}) : text(std::forward<T>(name)), where(here) {}
  std::string text;
  Location where;
};

class WEFT_API Evaluation {
 public:
  /// The metric of this name, constructed from the arguments at its first use. Raises ValueError if the name belongs to
  /// a metric of another class.
  template <class Metric, class... A>
  Metric& metric(const FigureName& name, A&&... arguments) {
    if (void* const found = find(name, TypeId::of<Metric>())) return *static_cast<Metric*>(found);
    const auto made = Shared<Metric>::make(std::forward<A>(arguments)...);
    Entry entry{name.text, TypeId::of<Metric>(), made, {}, {}};
    if constexpr (requires {
                    { made->svg() } -> std::same_as<std::string>;
                  }) {
      entry.picture = [made] { return made->svg(); };
    } else {
      entry.value = [made] { return made->value(); };
    }
    entries_.push_back(std::move(entry));
    return *made;
  }
  MeanStd& mean(const FigureName& name) { return metric<MeanStd>(name); }
  /// Sets a value directly.
  void set(const FigureName& name, double value) { mean(name).update(value); }
  /// As above for a tensor of one element, without waiting for its device.
  void set(const FigureName& name, const Tensor& value) { mean(name).update(value, 1, name.where); }

  /// The values of all metrics without a picture, in order of first use.
  io::Figures figures() const;
  /// Names and SVG of the metrics with a picture, such as a confusion matrix.
  std::vector<std::pair<std::string, std::string>> pictures() const;

 private:
  struct Entry {
    std::string name;
    TypeId type;
    Shared<void> held;
    Callback<double()> value;
    Callback<std::string()> picture;
  };
  void* find(const FigureName& name, TypeId type) const;

  std::vector<Entry> entries_;
};

}  // namespace weft::train
