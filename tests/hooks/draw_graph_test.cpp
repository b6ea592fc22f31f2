#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <regex>

#include <weft/hooks/graph.hpp>
#include <weft/nn/layers.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/matmul.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>

namespace weft {
namespace {

using testing::HasSubstr;

Tensor leaf(const Dims& shape) { return randn(shape).requires_grad_(); }

const GraphNode& node(const Graph& graph, const std::string& op) {
  for (const GraphNode& n : graph.nodes) {
    if (n.op == op) return n;
  }
  ADD_FAILURE() << "no node of " << op;
  return graph.nodes[0];
}

TEST(DrawGraph, NodesTellOpShapeAndLine) {
  const Tensor a = leaf({3, 4}), b = leaf({4, 5});
  const Tensor c = a.matmul(b);
  const unsigned line = __LINE__ - 1;
  const Tensor loss = c.sum();
  const Graph graph = draw_graph(loss, {.names = {{"first", a}}});
  ASSERT_EQ(graph.nodes.size(), 4u);
  EXPECT_EQ(graph.nodes[0].op, "sum");
  EXPECT_EQ(graph.nodes[0].shape->size(), 0);
  const GraphNode& product = node(graph, "matmul");
  EXPECT_EQ(product.shape->text(), "[3, 5]");
  EXPECT_EQ(product.where.line(), line);
  EXPECT_EQ(node(graph, "leaf").name, "first");
  EXPECT_EQ(node(graph, "leaf").shape->text(), "[3, 4]");
  EXPECT_EQ(graph.edges.size(), 3u);
}

TEST(DrawGraph, CountsSavedTensorsOnceAndFindsSharedOnes) {
  const Tensor a = leaf({100});
  const Tensor b = exp(a);         // keeps its result
  const Tensor c = (b * b).sum();  // keeps b too
  const Graph graph = draw_graph(c);
  ASSERT_EQ(graph.buffers.size(), 1u);
  EXPECT_EQ(graph.buffers[0].users, 2);
  EXPECT_FALSE(graph.buffers[0].of_leaf);
  EXPECT_EQ(graph.saved_bytes(), 400);
  EXPECT_THAT(graph.svg(), HasSubstr("keeps 400 B, shared: A"));
  EXPECT_THAT(graph.svg(), HasSubstr("backward keeps 400 B in 1 buffer, 1 of them shared"));
}

TEST(DrawGraph, AWeightThatIsKeptCostsNothing) {
  const Tensor a = leaf({100}), b = leaf({100});
  const Graph graph = draw_graph((a * b).sum());
  EXPECT_EQ(graph.saved_bytes(), 0);
  EXPECT_EQ(graph.buffers.size(), 2u);
  EXPECT_THAT(graph.dot(), HasSubstr("keeps a leaf"));
}

TEST(DrawGraph, LeavesGraphGradientsAndHooksAlone) {
  const Tensor a = leaf({3});
  int called = 0;
  const Tensor b = a * 2;
  register_hook(b, [&](const Tensor&) { ++called; });
  const Tensor loss = (b * b).sum();
  const int64_t before = detail::live_tensors();
  draw_graph(loss).svg();
  EXPECT_EQ(detail::live_tensors(), before);
  EXPECT_EQ(called, 0);
  EXPECT_FALSE(a.grad().defined());
  loss.backward();
  EXPECT_EQ(called, 1);
  EXPECT_EQ(a.grad().to_vector<float>(), (8 * a.detach()).to_vector<float>());
}

TEST(DrawGraph, ShowsOverwrittenAndFreedTensors) {
  const Tensor a = leaf({3});
  const Tensor b = exp(a), c = (b * b).sum();
  b.detach().mul_(2);
  const Graph broken = draw_graph(c);
  EXPECT_TRUE(node(broken, "mul").overwritten);
  EXPECT_THAT(broken.svg(), HasSubstr("OVERWRITTEN"));
  const Tensor d = exp(a).sum();
  d.backward();
  EXPECT_TRUE(node(draw_graph(d), "exp").released);
}

TEST(DrawGraph, WithoutShapesRunsNothing) {
  const Tensor a = leaf({3, 2});
  const Graph graph = draw_graph(exp(a).sum(), {.shapes = false});
  EXPECT_FALSE(node(graph, "exp").shape);
  EXPECT_TRUE(node(graph, "leaf").shape);
}

TEST(DrawGraph, CountsOmittedNodes) {
  const Tensor a = leaf({2});
  Tensor h = a;
  for (int i = 0; i < 3000; ++i) h = h * 1.001;
  const Graph graph = draw_graph(h.sum(), {.most_nodes = 50});
  EXPECT_EQ(graph.nodes.size(), 50u);
  EXPECT_EQ(graph.left_out, 3002u - 50);
  EXPECT_THAT(graph.svg(), HasSubstr("2952 further nodes are not shown"));
}

TEST(DrawGraph, EdgesRunFromHigherToLowerLayers) {
  const nn::Linear a(4, 8), b(8, 4);
  const Tensor x = randn({2, 4});
  const Tensor h = b(tanh(a(x))) + x;
  const Graph graph = draw_graph((h * h).sum());
  for (const auto& [from, to] : graph.edges) EXPECT_GT(graph.nodes[from].depth, graph.nodes[to].depth);
}

TEST(DrawGraph, ALeafOfManyLayersIsDrawnBesideEach) {
  const Tensor w = leaf({4, 4});
  Tensor h = randn({1, 4});
  for (int i = 0; i < 5; ++i) h = tanh(h.matmul(w));
  const Graph graph = draw_graph(h.sum(), {.names = {{"the weight", w}}});
  const auto count = [](const std::string& text, const std::string& part) {
    int n = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count(graph.svg(), ">the weight<"), 5);
  EXPECT_EQ(count(graph.dot(), "the weight"), 1);
}

/// The centres of an op's boxes, from left to right.
std::vector<double> columns_of(const std::string& svg, const std::string& op) {
  const std::regex title("class=\"op\" x=\"([0-9.]+)\"[^>]*>" + op + "<");
  std::vector<double> out;
  for (std::sregex_iterator it(svg.begin(), svg.end(), title), end; it != end; ++it) out.push_back(std::stod((*it)[1]));
  return out;
}

TEST(DrawGraph, AChainIsDrawnUpright) {
  Tensor h = leaf({4, 8});
  for (int i = 0; i < 40; ++i) h = tanh(linear(h, leaf({8, 8}), leaf({8})));
  const std::string svg = draw_graph(h.sum()).svg();
  std::vector<double> all = columns_of(svg, "tanh");
  for (double x : columns_of(svg, "linear")) all.push_back(x);
  ASSERT_EQ(all.size(), 80u);
  const auto [left, right] = std::minmax_element(all.begin(), all.end());
  EXPECT_LT(*right - *left, 2);
}

TEST(DrawGraph, AChainWithBranchesDoesNotDrift) {
  Tensor h = leaf({4, 8});
  for (int i = 0; i < 30; ++i) h = h + tanh(linear(h, leaf({8, 8}), leaf({8})));
  const std::vector<double> sums = columns_of(draw_graph(h.sum()).svg(), "add");
  ASSERT_EQ(sums.size(), 30u);
  for (size_t i = 1; i < sums.size(); ++i) EXPECT_LT(std::abs(sums[i] - sums[i - 1]), 4);
  EXPECT_LT(std::abs(sums.front() - sums.back()), 40);
}

TEST(DrawGraph, NamesAreQuotedInBothLanguages) {
  const Tensor a = leaf({2});
  const Graph graph = draw_graph(a.sum(), {.names = {{"<a> & \"b\"", a}}});
  EXPECT_THAT(graph.svg(), HasSubstr("&lt;a&gt; &amp; &quot;b&quot;"));
  EXPECT_THAT(graph.dot(), HasSubstr("\\\"b\\\""));
}

TEST(DrawGraph, NeedsAGraph) {
  EXPECT_THROW(draw_graph(randn({2})), AutogradError);
  EXPECT_THROW(draw_graph(Tensor()), AutogradError);
}

}  // namespace
}  // namespace weft
