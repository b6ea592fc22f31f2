// A tour of Weft in everyday expressions: each line shows an expression and its result. The program checks every line
// and prints their number. Build it with `./weft build release weft_tour`.
#include <array>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include <weft/weft.hpp>

using namespace weft;

namespace {

int lines = 0, wrong = 0;

void count(bool right, const std::string& actual, Location where) {
  ++lines;
  if (right) return;
  ++wrong;
  std::printf("%s: got %s\n", where.text().c_str(), actual.c_str());
}
// Compares the elements in row-major order, up to rounding errors.
void is(const Tensor& actual, std::initializer_list<double> expected, Location where = {}) {
  const std::vector<double> values = actual.to_vector<double>();
  bool right = values.size() == expected.size();
  for (size_t i = 0; right && i < values.size(); ++i) {
    const double wanted = expected.begin()[i];
    right =
        std::isnan(wanted) ? std::isnan(values[i]) : std::fabs(values[i] - wanted) <= 1e-5 * (1 + std::fabs(wanted));
  }
  count(right, actual.text(), where);
}
void is(const Tensor& actual, double expected, Location where = {}) { is(actual, {expected}, where); }
template <class A, class B>
  requires(!std::convertible_to<A, const Tensor&>)
void is(const A& actual, const B& expected, Location where = {}) {
  std::ostringstream text;
  text << actual;
  count(actual == expected, text.str(), where);
}
template <class E, class F>
void raises(F&& call, Location where = {}) {
  try {
    call();
    count(false, "nothing raised", where);
  } catch (const E&) {
    count(true, "", where);
  }
}
std::string text(auto&& value) {
  std::ostringstream out;
  out << std::forward<decltype(value)>(value);
  return out.str();
}

void making() {
  is(tensor(3.5), 3.5);
  is(tensor({1, 2, 3}), {1, 2, 3});
  is(tensor({{1.0, 2.0}, {3.0, 4.0}}).shape(), Dims{2, 2});
  is(tensor({{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}).shape(), Dims{2, 2, 2});
  is(tensor({1, 2}).dtype(), i64);
  is(tensor({1.0, 2.0}).dtype(), f32);
  is(tensor({1.0, 2.0}, f64).dtype(), f64);
  is(tensor({true, false}).dtype(), boolean);
  is(tensor(std::vector{1.f, 2.f}), {1, 2});
  is(tensor(std::vector<bool>{true, false}), {1, 0});
  is(tensor(std::array{1, 2, 3}), {1, 2, 3});
  is(tensor(std::vector<std::vector<double>>{{1, 2}, {3, 4}}).sum(), 10);
  is(tensor(std::array<std::array<int, 2>, 3>{{{1, 2}, {3, 4}, {5, 6}}}).shape(), Dims{3, 2});
  const std::vector<float> buffer{1, 2, 3, 4, 5, 6};
  is(tensor(std::span(buffer), {2, 3}).shape(), Dims{2, 3});
  is(zeros({2, 3}).shape(), Dims{2, 3});
  is(zeros(3), {0, 0, 0});
  is(ones({2, 2}, f64).dtype(), f64);
  is(ones({2}, {.dtype = f64, .requires_grad = true}).requires_grad(), true);
  is(zeros({2}, Device("meta")).device(), Device("meta"));
  is(zeros({2}, {.device = "cpu"}).device(), Device());
  is(full({2}, 7), {7, 7});
  is(full({2}, 7).dtype(), i64);
  is(full({2}, 0.5, {.dtype = f64}), {0.5, 0.5});
  is(empty({4, 0}).numel(), 0);
  is(arange(4), {0, 1, 2, 3});
  is(arange(1, 7, 2), {1, 3, 5});
  is(arange(0, 1, 0.25), {0, 0.25, 0.5, 0.75});
  is(arange(3, f64).dtype(), f64);
  is(linspace(0, 1, 3), {0, 0.5, 1});
  is(eye(2), {1, 0, 0, 1});
  is(eye(2, 3).shape(), Dims{2, 3});
  is(zeros_like(ones({2, 2})), {0, 0, 0, 0});
  is(full_like(ones({2}), 9), {9, 9});
  is(one_hot(tensor({0, 2}), 3), {1, 0, 0, 0, 0, 1});
}

void looking() {
  const Tensor x = arange(6, f32).view({2, 3});
  is(x.dim(), 2);
  is(x.numel(), 6);
  is(x.shape(), Dims{2, 3});
  is(x.size(-1), 3);
  is(x.stride(0), 3);
  is(x.dtype(), f32);
  is(x.device(), Device("cpu"));
  is(x.is_contiguous(), true);
  is(x.t().is_contiguous(), false);
  is(x[{1, 2}].item<double>(), 5.0);
  is(x.to_vector<int>(), std::vector<int>{0, 1, 2, 3, 4, 5});
  is(x.data<float>()[4], 4.f);
  is(x.accessor<float, 2>()(1, 1), 4.f);
  is(text(x.shape()), "[2, 3]");
  is(text(x.dtype()), "float32");
  is(text(x.device()), "cpu");
  is(text(tensor({1.0, 2.5})), "tensor([1.0000, 2.5000])");
  is(text(x[0]), "tensor([0., 1., 2.])");
  for (int64_t i = 0; const Tensor& row : x.unbind()) is(row.sum(), static_cast<double>(3 + 9 * i++));
}

void indexing() {
  const Tensor x = arange(12).view({3, 4});
  is(x[1], {4, 5, 6, 7});
  is(x[-1], {8, 9, 10, 11});
  is(x[{1, 2}], 6);
  is(x[{Slice(), 1}], {1, 5, 9});
  is(x[{Slice(1, none), Slice(none, none, 2)}], {4, 6, 8, 10});
  is(x[{Slice(none, none, -1), 0}], {8, 4, 0});
  is(x[{Ellipsis, 0}], {0, 4, 8});
  is(x[{None, 0}].shape(), Dims{1, 4});
  is(x[0][1], 1);
  is(x[x > 8], {9, 10, 11});
  is(x[{tensor({0, 2})}].shape(), Dims{2, 4});
  is(x[{std::vector<int64_t>{2, 0}, 1}], {9, 1});
  is(x[{tensor({0, 1}), tensor({3, 2})}], {3, 6});
  is(x[1].sum(), 22);
  is(x[1].argmax(), 3);
  is(x[0].max(0).indices, 3);
  const Tensor y = zeros({2, 3});
  y[0] = 1;
  is(y, {1, 1, 1, 0, 0, 0});
  y[{1, Slice(0, 2)}] = tensor({5.0, 6.0});
  is(y, {1, 1, 1, 5, 6, 0});
  y[y > 4] = -1;
  is(y, {1, 1, 1, -1, -1, 0});
  y[0] += 1;
  is(y[0], {2, 2, 2});
  y[1].mul_(3);
  is(y[1], {-3, -3, 0});
  y[{0, std::vector<int64_t>{0, 2}}] *= 10;
  is(y[0], {20, 2, 20});
  y[1] = y[0] + 1;
  is(y[1], {21, 3, 21});
  const auto row = [&](int64_t i) { return y[i]; };
  const Tensor r = row(0);
  is(r, {20, 2, 20});
  raises<IndexError>([&] { y[2] = 0; });
}

void arithmetic() {
  const Tensor a = tensor({1.0, 2.0, 3.0}), b = tensor({4.0, 5.0, 6.0});
  is(a + b, {5, 7, 9});
  is(a - 1, {0, 1, 2});
  is(2 * a, {2, 4, 6});
  is(1 / a, {1, 0.5, 1.0 / 3});
  is(-a, {-1, -2, -3});
  is(a * b + 1, {5, 11, 19});
  is(a.pow(2), {1, 4, 9});
  is(a.square().mean(), 14.0 / 3);
  is(a.exp().log(), {1, 2, 3});
  is(a.sqrt(), {1, std::sqrt(2), std::sqrt(3)});
  is((a - 2).abs(), {1, 0, 1});
  is((a - 2).relu(), {0, 0, 1});
  is((a - 2).sign(), {-1, 0, 1});
  is(a.clamp(1.5, 2.5), {1.5, 2, 2.5});
  is(a.clamp({}, 2), {1, 2, 2});
  is(a.clamp(2), {2, 2, 3});
  is(a.maximum(2), {2, 2, 3});
  is(maximum(a, 4 - a), {3, 2, 3});
  is(a > 1, {0, 1, 1});
  is(a == 2, {0, 1, 0});
  is((a > 1).logical_and(a < 3), {0, 1, 0});
  is(where(a > 2, a, 0), {0, 0, 3});
  is(a.where(a > 2, -a), {-1, -2, 3});
  is(a.masked_fill(a < 2, 9), {9, 2, 3});
  is(a.lerp(b, 0.5), {2.5, 3.5, 4.5});
  is(a.addcmul(b, 2), {9, 12, 15});
  is(tensor({1, 2}) + 0.5, {1.5, 2.5});
  is((tensor({1, 2}) + 0.5).dtype(), f32);
  is((tensor({1, 2}) / 2).dtype(), f32);
  is(tensor({{1.0}, {2.0}}) + a, {2, 3, 4, 3, 4, 5});
  is((a / 0).isinf().all(), 1);
  is((a * 0 / 0).isnan().any(), 1);
  const Tensor c = a.clone();
  c += 1;
  is(c, {2, 3, 4});
  c.mul_(2).sub_(1);
  is(c, {3, 5, 7});
  c.add_(b, 0.5);
  is(c, {5, 7.5, 10});
  c.zero_();
  is(c, {0, 0, 0});
  c.copy_(b);
  is(c, {4, 5, 6});
  c.fill_(8);
  is(c, {8, 8, 8});
}

void reductions() {
  const Tensor x = tensor({{3.0, 1.0, 2.0}, {4.0, 6.0, 5.0}});
  is(x.sum(), 21);
  is(x.sum({0}), {7, 7, 7});
  is(x.sum(1), {6, 15});
  is(sum(x, {0, 1}), 21);
  is(x.sum(-1, true).shape(), Dims{2, 1});
  is(x.mean(), 3.5);
  is(mean(x, {0}), {3.5, 3.5, 3.5});
  is(x.prod(1), {6, 120});
  is(x.max(), 6);
  is(x.amax(0), {4, 6, 5});
  is(x.amin({0, 1}), 1);
  is(x.argmax(), 4);
  is(x.argmax(1), {0, 1});
  is(x.argmin(1, true).shape(), Dims{2, 1});
  const auto [values, indices] = x.max(1);
  is(values, {3, 6});
  is(indices, {0, 1});
  is(x.min(0).values, {3, 1, 2});
  is(x.var(1), {1, 1});
  is(x.std({1}, 0), {std::sqrt(2.0 / 3), std::sqrt(2.0 / 3)});
  is(tensor({3.0, 4.0}).norm(), 5);
  is(x.logsumexp({1}).shape(), Dims{2});
  is((x > 2).any(0), {1, 1, 1});
  is((x > 2).all(), 0);
  is((x > 2).count_nonzero(), 4);
  is((x > 5).nonzero(), {1, 1});
  is(x.cumsum(1), {3, 4, 6, 4, 10, 15});
  is(x.softmax(1).sum(1), {1, 1});
  is(tensor({3, 1, 3}).unique().values, {1, 3});
  is(tensor({0, 2, 2}).bincount(), {1, 0, 2});
}

void shapes() {
  const Tensor x = arange(6).view({2, 3});
  is(x.t(), {0, 3, 1, 4, 2, 5});
  is(x.transpose(0, 1).shape(), Dims{3, 2});
  is(x.permute({1, 0}).shape(), Dims{3, 2});
  is(x.reshape({3, -1}).shape(), Dims{3, 2});
  is(x.flatten(), {0, 1, 2, 3, 4, 5});
  is(x.unsqueeze(0).shape(), Dims{1, 2, 3});
  is(x.unsqueeze(-1).squeeze().shape(), Dims{2, 3});
  is(x[0].expand({2, 3}), {0, 1, 2, 0, 1, 2});
  is(x.narrow(1, 1, 2), {1, 2, 4, 5});
  is(x.select(1, 0), {0, 3});
  is(x.diagonal(), {0, 4});
  is(x.flip({1}), {2, 1, 0, 5, 4, 3});
  is(x.roll(1, 1), {2, 0, 1, 5, 3, 4});
  is(x.repeat({1, 2}).shape(), Dims{2, 6});
  is(x.split(2, 1).size(), size_t{2});
  is(x.chunk(3, 1)[2], {2, 5});
  is(cat({x, x}).shape(), Dims{4, 3});
  is(cat({x[0], x[1]}), {0, 1, 2, 3, 4, 5});
  is(stack({x[0], x[1]}, 1).shape(), Dims{3, 2});
  is(x.gather(1, tensor({{2}, {0}})), {2, 3});
  is(x.index_select(1, tensor({2, 0})), {2, 0, 5, 3});
  is(zeros({2, 3}, i64).scatter(1, tensor({{1}, {2}}), 7), {0, 7, 0, 0, 0, 7});
  is(x.to(f64).dtype(), f64);
  is(x.to("cpu").device(), Device());
  is(x.to("cpu", f32).dtype(), f32);
  is(x.contiguous().is_contiguous(), true);
  is(x.view({6}).shares_storage(x), true);
  raises<ShapeError>([&] { x.view({4}); });
}

void products() {
  const Tensor a = tensor({{1.0, 2.0}, {3.0, 4.0}}), v = tensor({1.0, 1.0});
  is(matmul(a, a), {7, 10, 15, 22});
  is(a.matmul(v), {3, 7});
  is(a.mm(a.t()), {5, 11, 11, 25});
  is(v.dot(v), 2);
  is(v.outer(v), {1, 1, 1, 1});
  is(matmul(ones({5, 2, 3}), ones({3, 4})).shape(), Dims{5, 2, 4});
  is(linear(v, a, v), {4, 8});
  raises<ShapeError>([&] { (void)a.matmul(ones({3})); });
}

void randomness() {
  manual_seed(1);
  const Tensor first = randn({3});
  manual_seed(1);
  is((randn({3}) == first).all(), 1);
  is((rand({100}) < 1).all(), 1);
  is((randint(0, 5, {100}) < 5).all(), 1);
  is(randperm(5).sum(), 10);
  is(bernoulli(ones({3})), {1, 1, 1});
  is(ones({2}).uniform_(3, 3), {3, 3});
  is(dropout(ones({4}), 0.5, false), {1, 1, 1, 1});
}

void gradients() {
  const Tensor x = tensor({1.0, 2.0, 3.0}, {.requires_grad = true});
  x.square().sum().backward();
  is(x.grad(), {2, 4, 6});
  (x * 2).sum().backward();
  is(x.grad(), {4, 6, 8});
  x.set_grad({});
  is(x.grad().defined(), false);
  x[{Slice(1, none)}].prod().backward();
  is(x.grad(), {0, 3, 2});
  is(grad({x.exp().sum()}, {x})[0], {std::exp(1), std::exp(2), std::exp(3)});
  const Tensor slope = grad({x.pow(3).sum()}, {x}, {}, {.create_graph = true})[0];
  is(grad({slope.sum()}, {x})[0], {6, 12, 18});
  HookHandle handle = x.register_hook([](const Tensor& g) { return g * 10; });
  is(grad({x.sum()}, {x})[0], {10, 10, 10});
  handle.remove();
  is(grad({x.sum()}, {x})[0], {1, 1, 1});
  {
    NoGradGuard frozen;
    is((x * 2).requires_grad(), false);
  }
  is(x.detach().requires_grad(), false);
  is(x.is_leaf(), true);
  const Tensor y = x * 1;
  y.retain_grad();
  y[0] = 0;
  y.sum().backward();
  is(y.is_leaf(), false);
  const auto square = [](std::span<const Tensor> in) { return std::vector{in[0].square().sum()}; };
  is(gradcheck(square, {ones({2}, f64).requires_grad_()}).passed, true);
  raises<AutogradError>([&] { x.add_(1); });
  raises<AutogradError>([&] { ones({1}).backward(); });
}

struct Net : nn::Layer<Net> {
  nn::Linear hidden{2, 16}, out{16, 1};
  Net() { register_module("hidden", hidden), register_module("out", out); }
  Tensor forward(const Tensor& x) const { return out(hidden(x).tanh()); }
};

void training() {
  manual_seed(1);
  const Tensor x = tensor({{0.0, 0.0}, {0.0, 1.0}, {1.0, 0.0}, {1.0, 1.0}});
  const Tensor y = tensor({{0.0}, {1.0}, {1.0}, {0.0}});
  Net net;
  optim::AdamW optimizer(net.parameters(), {.lr = 0.02});
  for (int step = 0; step < 500; ++step) {
    optimizer.zero_grad();
    mse_loss(net(x), y).backward();
    optimizer.step();
  }
  is(net(x).round(), {0, 1, 1, 0});
  is(net(x[1]).shape(), Dims{1});
  is(net.parameter_count(), 65);
  is(net.named_parameters()[0].name, "hidden.weight");
  is(net.state_dict().size(), size_t{4});
  net.eval();
  is(net.is_training(), false);
  Net other;
  other.load_state_dict(net.state_dict());
  is((other(x) == net(x)).all(), 1);
  nn::Sequential layers(nn::Linear(2, 4), nn::ReLU(), nn::Dropout(0.1), nn::Linear(4, 2));
  is(layers(x).shape(), Dims{4, 2});
  is(nn::Embedding(10, 3)(tensor({1, 2})).shape(), Dims{2, 3});
  is(nn::LayerNorm(2)(x).shape(), Dims{4, 2});
  is(mse_loss(tensor({1.0, 2.0}), tensor({0.0, 0.0})), 2.5);
  is(mse_loss(tensor({1.0, 2.0}), tensor({0.0, 0.0}), {.reduction = LossReduction::sum}), 5);
  is(l1_loss(tensor({1.0, -2.0}), tensor({0.0, 0.0})), 1.5);
  is(cross_entropy(zeros({2, 4}), tensor({0, 3})), std::log(4));
  is(cross_entropy(zeros({1, 4}), tensor({0}), {.label_smoothing = 0.1}), std::log(4));
  is(binary_cross_entropy_with_logits(zeros({2}), ones({2})), std::log(2));
  is(layers.parameters().size(), size_t{4});
}

}  // namespace

int main() {
  making();
  looking();
  indexing();
  arithmetic();
  reductions();
  shapes();
  products();
  randomness();
  gradients();
  training();
  std::printf("%d expressions, %d wrong\n", lines, wrong);
  return wrong == 0 ? 0 : 1;
}
