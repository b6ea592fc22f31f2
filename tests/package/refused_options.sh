#!/bin/sh
# Everyday mistakes must not compile, and the compiler must name the remedy: within ten lines for each of many, within
# twenty for one alone, which has the list of included files, too.
# Usage: refused_options.sh <compiler> <include folder>
set -u
compiler=$1
include=$2
failed=0
program=$(mktemp --suffix=.cpp)
trap 'rm -f "$program"' EXIT

compile() {
  cat >"$program" <<EOF
#include <weft/data/loader.hpp>
#include <weft/nn/attention.hpp>
#include <weft/nn/convolution.hpp>
#include <weft/nn/layers.hpp>
#include <weft/nn/recurrent.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/join.hpp>
#include <weft/ops/linalg.hpp>
#include <weft/ops/random.hpp>
#include <weft/optim/optimizers.hpp>
#include <weft/train/trainer.hpp>
#include <string>
using namespace weft;
struct Plain : nn::Module { Tensor forward(const Tensor& x) const { return x; } };
using Set = data::TensorDataset<1>;
void f(Tensor& x, nn::Sequential& net, Plain& plain, nn::ModuleList<>& list, optim::AdamW& adam, Set& set) {
$1
}
EOF
  "$compiler" -std=c++20 -fsyntax-only -I"$include" "$program" 2>&1
}

valid='
  std::vector<Tensor> all = net.parameters();
  optim::AdamW a(all), b(all, {.lr = 1}), c({{all, {.lr = 1}}}, {.lr = 1}), d({x, x}, {.lr = 1}), e({x});
  nn::Conv2d f(1, 2, 3), g(1, 2, {3, 3}, {.stride = 2}), h(1, 2, 3, {.padding = "same"});
  nn::LSTM i(1, 2), j(1, 2, {.num_layers = 2});
  nn::Linear k(1, 2), l(1, 2, false), m(1, 2, true, Location());
  nn::SelfAttention n(8, 2), o(8, 2, {.causal = true});
  data::DataLoader p(set), q(set, {.batch_size = 2}), r(set, {.batch_size = 2}, data::Collate());
  train::Trainer s(net, adam, {.epochs = 1}), t(net, adam, train::TrainerOptions{});
  Tensor y = tensor({1, 2}), z = tensor({{1}, {2}}), u = tensor(1, f64), v = tensor({true, false}, {f64}), w(x);
  y = x + x[0], y = 2.0 + x, y = x + 1, y = {}, y = x[0], y = zeros({2, 3}, f64), y = randn(3), y = ones(Dims{2});
  y = cat({x, x}, 1), y = cat({x}), y = stack(all), y = einsum("ij,jk->ik", {x, x}), y = einsum("i", all);
  y = net[0](x), y = net[0].forward(x), y = nn::Linear(1, 2)(x), x[0] = 3;'
if ! said=$(compile "$valid"); then
  printf 'should compile:\n%s\n' "$said"
  failed=1
fi

refuse() {
  if said=$(compile "$1"); then
    echo "compiles, but should not: $1"
    failed=1
    return
  fi
  lines=$(echo "$said" | wc -l)
  if ! echo "$said" | grep -qF "$2" || [ "$lines" -gt 20 ]; then
    printf 'says "%s" not or not within 20 lines (%s): %s\n%s\n' "$2" "$lines" "$1" "$said"
    failed=1
  fi
}
# All in one program, since each costs seconds: the remedies must be there in the order of the mistakes.
refuse_all() {
  mistakes=$(echo "$1" | sed 's/ ==> .*//')
  count=$(echo "$mistakes" | wc -l)
  if said=$(compile "$mistakes"); then
    echo "compiles, but should not"
    failed=1
  fi
  errors=$(echo "$said" | grep -c ' error: ')
  lines=$(echo "$said" | wc -l)
  if [ "$errors" -ne "$count" ] || [ "$lines" -gt $((10 * count)) ]; then
    printf '%s errors in %s lines for %s mistakes:\n%s\n' "$errors" "$lines" "$count" "$said"
    failed=1
  fi
  echo "$1" | sed 's/.* ==> //' >"$program.remedies"
  while read -r remedy; do
    if ! echo "$said" | grep -qF "$remedy"; then
      printf 'does not say "%s":\n%s\n' "$remedy" "$said"
      failed=1
    fi
  done <"$program.remedies"
  rm -f "$program.remedies"
}
refuse_all 'optim::AdamW a(net.parameters(), {.rate = 1}); ==> options have names and an order: {.lr = 1e-3}
optim::AdamW b(net.parameters(), 0.1); ==> options have names and an order: {.lr = 1e-3}
optim::SGD c(net, {.lr = 0.1}); ==> the parameters of the model: AdamW(net.parameters())
nn::Conv2d d(1, 2, 3, {.strides = 2}); ==> options have names and an order: {.stride = 2}
nn::Conv2d e(1, 2, 3, 2); ==> options have names and an order: {.stride = 2}
nn::LSTM f(1, 2, {.layers = 2}); ==> options have names and an order: {.num_layers = 2}
nn::Linear g(1, 2, {.bias = false}); ==> bias is a bool: Linear(2, 16, false)
nn::SelfAttention h(8, 2, {.is_causal = true}); ==> options have names and an order: {.causal = true}
data::DataLoader i(set, 32); ==> options have names and an order: {.batch_size = 32}
train::Trainer j(net, adam, {.epoch = 1}); ==> options have names and an order: {.epochs = 10}
Tensor k = zeros(2, 3); ==> sizes in braces: zeros({2, 3})
Tensor l = randn(2, 3, f64); ==> sizes in braces: randn({2, 3})
Tensor m = tensor(1, 2, 3); ==> elements in braces: tensor({1, 2, 3})
Tensor n = tensor({1, 2.0}); ==> elements of one type: tensor({1.0, 2.0})
Tensor o = cat(x, x); ==> tensors in braces: cat({a, b})
Tensor p = einsum("ij,jk->ik", x, x); ==> operands in braces: einsum("ij,jk->ik", {a, b})
Tensor q(2, 3); ==> a tensor of elements: tensor({1, 2}); of a shape: zeros({1, 2})
x = 3; ==> all elements: x.fill_(value); another tensor: x = tensor(value)
auto r = "loss " + x; ==> print a tensor: std::cout << "loss " << loss
auto s = std::string("loss ") + x[0]; ==> print a tensor: std::cout << "loss " << loss
auto t = x + "!"; ==> print a tensor: std::cout << loss << " is the loss"'
refuse 'for (const Tensor& row : x) (void)row;' 'the rows of a tensor: for (const Tensor& row : x.unbind())'
refuse 'plain(x);' 'a Module cannot be called: derive `struct Net : nn::Layer<Net>`'
refuse 'list(x);' 'a Module cannot be called: derive `struct Net : nn::Layer<Net>`'
exit $failed
