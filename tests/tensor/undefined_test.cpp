// The undefined tensor: every method but those that test for it raises ValueError with its name and the line.
#include <string>

#include <gtest/gtest.h>

#include <weft/weft.hpp>

namespace weft {
namespace {

template <class F>
void expect_refused(const char* method, unsigned line, F&& call) {
  try {
    call();
    ADD_FAILURE() << method << " raised nothing";
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_TRUE(dynamic_cast<const ValueError*>(&e) != nullptr) << method << ": " << text;
    EXPECT_NE(text.find("undefined_test.cpp:" + std::to_string(line)), std::string::npos) << method << ": " << text;
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 2) << text;
  }
}
#define REFUSED(call) expect_refused(#call, __LINE__, [&] { (void)(call); })

TEST(UndefinedTensor, RefusesEveryMethodWithItsLine) {
  const Tensor u, x = ones({2, 3});
  EXPECT_FALSE(u.defined());
  EXPECT_EQ(u.text(), "tensor(undefined)");
  REFUSED(u.dim());
  REFUSED(u.numel());
  REFUSED(u.sizes());
  REFUSED(u.shape());
  REFUSED(u.size(0));
  REFUSED(u.stride(0));
  REFUSED(u.strides());
  REFUSED(u.storage_offset());
  REFUSED(u.dtype());
  REFUSED(u.device());
  REFUSED(u.itemsize());
  REFUSED(u.nbytes());
  REFUSED(u.is_contiguous());
  REFUSED(u.shares_storage(x));
  REFUSED(x.shares_storage(u));
  REFUSED(u.version());
  REFUSED(u.data<float>());
  REFUSED(u.data_ptr());
  REFUSED(u.item<float>());
  REFUSED(u.item_scalar());
  REFUSED(u.to_vector<float>());
  REFUSED((u.accessor<float, 1>()));
  REFUSED(u.requires_grad());
  REFUSED(u.requires_grad_());
  REFUSED(u.is_leaf());
  REFUSED(u.grad());
  REFUSED(u.set_grad(x));
  REFUSED(u.backward());
  REFUSED(u.backward({.retain_graph = true}));
  REFUSED(u.backward(x));
  REFUSED(u.retain_grad());
  REFUSED(u.register_hook([](const Tensor&) {}));
  REFUSED(u.register_post_accumulate_grad_hook([](const Tensor&) {}));
  REFUSED(u.apply_backward_hook());
  REFUSED(u.set_manual_backward_hook());
  REFUSED(Tensor(u[0]));
  REFUSED(u[0] = 1);
  REFUSED(u[0] += 1);
  REFUSED(u[0].shape());
  REFUSED(u[0].mul_(2));
  REFUSED(u.view({1}));
  REFUSED(u.reshape({1}));
  REFUSED(u.transpose(0, 1));
  REFUSED(u.t());
  REFUSED(u.permute({0}));
  REFUSED(u.slice(0));
  REFUSED(u.narrow(0, 0, 1));
  REFUSED(u.select(0, 0));
  REFUSED(u.unsqueeze(0));
  REFUSED(u.squeeze());
  REFUSED(u.squeeze(0));
  REFUSED(u.expand({1}));
  REFUSED(u.diagonal());
  REFUSED(u.flatten());
  REFUSED(u.as_strided({1}, {1}));
  REFUSED(u.split(1));
  REFUSED(u.chunk(1));
  REFUSED(u.unbind());
  REFUSED(u.detach());
  REFUSED(u.clone());
  REFUSED(u.contiguous());
  REFUSED(u.to(f64));
  REFUSED(u.to("cpu"));
  REFUSED(u.to("cpu", f64));
  REFUSED(u.copy_(x));
  REFUSED(x.copy_(u));
  REFUSED(u.fill_(1));
  REFUSED(u.zero_());
  REFUSED(u.add_(1));
  REFUSED(u.add_(1, 2));
  REFUSED(x.clone().add_(u));
  REFUSED(u += 1);
  REFUSED(u + 1);
  REFUSED(x + u);
  REFUSED(u.exp());
  REFUSED(u.exp_());
  REFUSED(u.sum());
  REFUSED(u.sum({0}));
  REFUSED(u.mean());
  REFUSED(u.max(0));
  REFUSED(u.argmax());
  REFUSED(u.std());
  REFUSED(u.norm());
  REFUSED(u.softmax(0));
  REFUSED(u.cumsum(0));
  REFUSED(u.matmul(x));
  REFUSED(x.matmul(u));
  REFUSED(u.index({0}));
  REFUSED(u.index_select(0, tensor({0})));
  REFUSED(u.gather(0, tensor({0})));
  REFUSED(u.masked_fill_(x > 0, 1));
  REFUSED(u.nonzero());
  REFUSED(u.unique());
  REFUSED(u.flip({0}));
  REFUSED(u.repeat({1}));
  REFUSED(u.where(x > 0, x));
  REFUSED(u.clamp(0, 1));
  REFUSED(u.gelu());
  REFUSED(u.uniform_());
  REFUSED(u.bernoulli());
  REFUSED(cat({x, u}));
  REFUSED(stack({u}));
  REFUSED(where(x > 0, u, x));
  REFUSED(cross_entropy(u, x));
  REFUSED(mse_loss(x, u));
  REFUSED(embedding(u, x));
  REFUSED(grad({u}, {x}));
  REFUSED(grad({ones({1}).requires_grad_() * 1}, {u}));
  REFUSED(zeros_like(u));
  REFUSED(rand_like(u));
}

TEST(UndefinedTensor, IsAMovedFromHandle) {
  Tensor a = ones({2});
  const Tensor b = std::move(a);
  EXPECT_EQ(b.numel(), 2);
  REFUSED(a.numel());  // NOLINT(bugprone-use-after-move)
}

TEST(Tensor, GivesTheSizesOfATemporaryForAsLongAsTheyAreRead) {
  int64_t product = 1;
  for (const int64_t n : ones({2, 3}).t().sizes()) product *= n;
  EXPECT_EQ(product, 6);
}

TEST(Tensor, HasNoSizeAndNoStrideInZeroDimensions) {
  EXPECT_THROW((void)tensor(1.f).stride(0), IndexError);
  EXPECT_THROW((void)tensor(1.f).stride(-1), IndexError);
  EXPECT_THROW((void)tensor(1.f).size(0), IndexError);
  EXPECT_THROW((void)tensor(1.f).size(-1), IndexError);
  EXPECT_EQ(ones({2, 3}).stride(-2), 3);
}

}  // namespace
}  // namespace weft
