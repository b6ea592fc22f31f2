// Layered drawing after Sugiyama: edges over several layers get a dummy node on each, layers are ordered by
// barycentres, and coordinates are least squares with minimum distances.
#include "../detail/graph_layout.hpp"

#include <algorithm>
#include <numeric>

namespace weft::detail {

namespace {

constexpr double gap = 22, layer_gap = 34, bend_width = 8;

struct Place {
  double width, x = 0;
  int layer, position = 0;
  std::vector<size_t> above, below;
};

class Layers {
 public:
  Layers(const std::vector<Box>& boxes, const std::vector<std::pair<size_t, size_t>>& edges) : boxes_(boxes.size()) {
    for (const Box& b : boxes) add(b.width, b.layer);
    for (const auto& [from, to] : edges) {
      std::vector<size_t> way = {from};
      for (int layer = boxes[from].layer - 1; layer > boxes[to].layer; --layer) {
        way.push_back(add(bend_width, layer));
      }
      way.push_back(to);
      for (size_t i = 1; i < way.size(); ++i) {
        places[way[i - 1]].below.push_back(way[i]);
        places[way[i]].above.push_back(way[i - 1]);
      }
      ways.push_back(std::move(way));
    }
    find_columns();
  }

  void order() {
    auto best = layers;
    size_t fewest = crossings();
    for (int round = 0; round < 16 && fewest > 0; ++round) {
      sweep(round % 2 == 0);
      const size_t now = crossings();
      if (now < fewest) fewest = now, best = layers;
    }
    layers = best;
    for (const auto& layer : layers) number(layer);
  }

  void place() {
    for (const auto& layer : layers) {
      double x = 0;
      for (size_t p : layer) places[p].x = x + places[p].width / 2, x += places[p].width + gap;
    }
    for (int round = 0; round < 300; ++round) {
      find_middles();
      for (size_t i = 0; i < layers.size(); ++i) settle(layers[round % 2 == 0 ? i : layers.size() - 1 - i]);
    }
    double left = 0;
    for (const Place& p : places) left = std::min(left, p.x - p.width / 2);
    for (Place& p : places) p.x -= left;
  }

  std::vector<Place> places;
  std::vector<std::vector<size_t>> layers, ways;

 private:
  size_t add(double width, int layer) {
    if (static_cast<size_t>(layer) >= layers.size()) layers.resize(static_cast<size_t>(layer) + 1);
    auto& mine = layers[static_cast<size_t>(layer)];
    places.push_back(
        {.width = width, .layer = layer, .position = static_cast<int>(mine.size()), .above = {}, .below = {}});
    mine.push_back(places.size() - 1);
    return places.size() - 1;
  }

  void number(const std::vector<size_t>& layer) {
    for (size_t i = 0; i < layer.size(); ++i) places[layer[i]].position = static_cast<int>(i);
  }

  void sweep(bool downward) {
    for (size_t i = 0; i < layers.size(); ++i) {
      auto& layer = layers[downward ? layers.size() - 1 - i : i];
      std::vector<std::pair<double, size_t>> keyed;
      for (size_t p : layer) {
        const auto& next = downward ? places[p].above : places[p].below;
        double sum = 0;
        for (size_t q : next) sum += places[q].position;
        keyed.emplace_back(next.empty() ? places[p].position : sum / static_cast<double>(next.size()), p);
      }
      std::stable_sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      for (size_t k = 0; k < keyed.size(); ++k) layer[k] = keyed[k].second;
      number(layer);
    }
  }

  size_t crossings() const {
    size_t count = 0;
    for (const auto& layer : layers) {
      std::vector<std::pair<int, int>> lines;
      for (size_t p : layer) {
        for (size_t q : places[p].below) lines.emplace_back(places[p].position, places[q].position);
      }
      std::sort(lines.begin(), lines.end());
      for (size_t i = 0; i < lines.size(); ++i) {
        for (size_t k = 0; k < i; ++k) count += lines[k].second > lines[i].second;
      }
    }
    return count;
  }

  /// Returns the only op that feeds `p`, if it feeds nothing else; otherwise none.
  size_t chained(size_t p) const {
    size_t found = none;
    for (size_t q : places[p].above) {
      if (is_input(q)) continue;
      if (found != none || bends(q) || places[q].below.size() != 1) return none;
      found = q;
    }
    return found;
  }
  void find_columns() {
    column_of_.assign(places.size(), none);
    const auto add_column = [&](std::vector<size_t> column) {
      for (size_t p : column) column_of_[p] = columns_.size();
      columns_.push_back(std::move(column));
    };
    for (const auto& way : ways) {
      if (way.size() > 2) add_column({way.begin() + 1, way.end() - 1});
    }
    for (const auto& layer : layers) {
      for (size_t p : layer) {
        if (bends(p) || is_input(p) || column_of_[p] != none) continue;
        std::vector<size_t> chain;
        for (size_t q = p; q != none; q = chained(q)) chain.push_back(q);
        if (chain.size() > 1) add_column(std::move(chain));
      }
    }
  }

  void find_middles() {
    middles_.assign(columns_.size(), 0);
    for (size_t c = 0; c < columns_.size(); ++c) {
      for (size_t p : columns_[c]) middles_[c] += places[p].x / static_cast<double>(columns_[c].size());
    }
  }

  // Least-squares x positions near the neighbours' mean, keeping the order: boxes that would overlap form a block that
  // moves as one (pool adjacent violators).
  void settle(const std::vector<size_t>& layer) {
    struct Block {
      double sum, weight;
      size_t first;
      double middle() const { return sum / weight; }
    };
    std::vector<double> offset(layer.size());
    std::vector<Block> blocks;
    for (size_t i = 0; i < layer.size(); ++i) {
      const Place& p = places[layer[i]];
      if (i > 0) offset[i] = offset[i - 1] + (places[layer[i - 1]].width + p.width) / 2 + gap;
      const auto [x, weight] = wanted(layer[i]);
      blocks.push_back({(x - offset[i]) * weight, weight, i});
      while (blocks.size() > 1 && blocks[blocks.size() - 2].middle() > blocks.back().middle()) {
        blocks[blocks.size() - 2].sum += blocks.back().sum;
        blocks[blocks.size() - 2].weight += blocks.back().weight;
        blocks.pop_back();
      }
    }
    for (size_t b = 0; b < blocks.size(); ++b) {
      const size_t end = b + 1 < blocks.size() ? blocks[b + 1].first : layer.size();
      for (size_t i = blocks[b].first; i < end; ++i) places[layer[i]].x = blocks[b].middle() + offset[i];
    }
  }

  bool bends(size_t p) const { return p >= boxes_; }
  bool is_input(size_t p) const { return places[p].above.empty(); }
  // Long edges are kept straight. Inputs have little weight: next to each op of a chain they would push it aside a
  // little.
  double pull(size_t p, size_t q) const {
    if (bends(p) && bends(q)) return 12;
    return is_input(p) || is_input(q) ? 0.01 : 3;
  }

  struct Wish {
    double x, weight;
  };
  Wish wanted(size_t p) const {
    double sum = 0, weight = 0;
    const auto take_at = [&](double x, double strength) { sum += strength * x, weight += strength; };
    for (size_t q : places[p].below) take_at(places[q].x, pull(p, q));
    for (size_t q : places[p].above) take_at(places[q].x, pull(p, q));
    // Move whole columns at once; single moves would straighten them slowly.
    if (column_of_[p] != none) take_at(middles_[column_of_[p]], 12);
    return weight > 0 ? Wish{sum / weight, weight} : Wish{places[p].x, 1};
  }

  static constexpr size_t none = static_cast<size_t>(-1);
  size_t boxes_;
  /// Vertical groups: the bends of a long edge, and the ops of a chain.
  std::vector<std::vector<size_t>> columns_;
  std::vector<size_t> column_of_;
  /// Mean x of each column.
  std::vector<double> middles_;
};

}  // namespace

LaidOut lay_out(std::vector<Box>& boxes, const std::vector<std::pair<size_t, size_t>>& edges) {
  LaidOut out;
  Layers layers(boxes, edges);
  layers.order();
  layers.place();
  std::vector<double> middle(layers.layers.size()), half(layers.layers.size());
  for (size_t i = layers.layers.size(); i-- > 0;) {
    double height = 0;
    for (size_t p : layers.layers[i]) {
      if (p < boxes.size()) height = std::max(height, boxes[p].height);
    }
    half[i] = height / 2;
    middle[i] = out.height + half[i];
    out.height += height + (i > 0 ? layer_gap : 0);
  }
  for (size_t i = 0; i < boxes.size(); ++i) {
    boxes[i].x = layers.places[i].x, boxes[i].y = middle[static_cast<size_t>(boxes[i].layer)];
    out.width = std::max(out.width, boxes[i].x + boxes[i].width / 2);
  }
  for (const auto& way : layers.ways) {
    std::vector<Point> points = {{boxes[way.front()].x, boxes[way.front()].y + boxes[way.front()].height / 2}};
    for (size_t k = 1; k + 1 < way.size(); ++k) {
      // Vertical through a layer, curved between layers.
      const Place& p = layers.places[way[k]];
      const auto layer = static_cast<size_t>(p.layer);
      points.push_back({p.x, middle[layer] - half[layer]});
      points.push_back({p.x, middle[layer] + half[layer]});
      out.width = std::max(out.width, p.x + bend_width);
    }
    points.push_back({boxes[way.back()].x, boxes[way.back()].y - boxes[way.back()].height / 2});
    out.ways.push_back(std::move(points));
  }
  return out;
}

}  // namespace weft::detail
