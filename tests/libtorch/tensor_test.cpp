// libtorch's tensors over Weft: forms that Weft's own interface does not have.
#include <gtest/gtest.h>

#include <sstream>

#include <torch/csrc/utils/tensor_flatten.h>
#include <torch/script.h>
#include <torch/torch.h>

TEST(TorchTensor, ElementsAreTensorsAndWritable) {
  torch::Tensor x = torch::zeros({2, 3});
  x[0][1] = 7;
  x[1] = torch::tensor({1., 2., 3.});
  auto row = x[1];
  row = torch::zeros({3});  // names another tensor
  EXPECT_EQ(x[0][1].item<float>(), 7);
  EXPECT_TRUE(torch::equal(x[1], torch::tensor({1., 2., 3.})));
}

TEST(TorchTensor, ReductionsAlongADimensionAreTuples) {
  const torch::Tensor x = torch::tensor({{1., 5., 2.}, {4., 0., 3.}});
  auto [values, indices] = x.max(1);
  EXPECT_TRUE(torch::equal(std::get<1>(x.max(1)), torch::tensor({1, 0})));
  EXPECT_TRUE(torch::equal(values, torch::tensor({5., 4.})));
  EXPECT_EQ(indices.scalar_type(), torch::kLong);
  torch::Tensor smallest, where;
  std::tie(smallest, where) = x.min(1, /*keepdim=*/true);
  EXPECT_EQ(smallest.sizes(), torch::IntArrayRef({2, 1}));
}

TEST(TorchTensor, OptionsAreBuilders) {
  const auto options = torch::dtype(torch::kFloat64).requires_grad(true);
  const torch::Tensor x = torch::ones({2}, options);
  EXPECT_EQ(x.dtype(), torch::kDouble);
  EXPECT_TRUE(x.requires_grad());
  EXPECT_EQ(torch::zeros({1}, x.options().dtype(torch::kInt)).scalar_type(), torch::kInt32);
  EXPECT_EQ(x.device().type(), torch::kCPU);
  EXPECT_FALSE(x.options().requires_grad());
}

TEST(TorchTensor, SizesCompareAndCopy) {
  const torch::Tensor x = torch::ones({4, 5});
  EXPECT_EQ(x.sizes(), (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(x.sizes().vec().back(), 5);
  EXPECT_EQ(x.t().strides(), torch::IntArrayRef({1, 5}));
}

TEST(TorchTensor, IndicesAreThoseOfLibtorch) {
  using namespace torch::indexing;
  torch::Tensor x = torch::arange(12).view({3, 4});
  EXPECT_TRUE(torch::equal(x.index({Slice(None, None, 2), 1}), torch::tensor({1, 9})));
  EXPECT_EQ(x.index({"...", None}).sizes(), torch::IntArrayRef({3, 4, 1}));
  x.index_put_({Slice(), 0}, -1);
  EXPECT_EQ(x.select(1, 0).sum().item<int64_t>(), -3);
  EXPECT_THROW(x.index({5}), c10::Error);
}

TEST(TorchTensor, LiteralsHaveTheDefaultDtypesInTorchAndTheirOwnInAt) {
  EXPECT_EQ(torch::tensor({1, 2}).scalar_type(), torch::kLong);
  EXPECT_EQ(torch::tensor({1.0, 2.0}).scalar_type(), torch::kFloat);
  EXPECT_EQ(torch::tensor(std::vector<int>{1, 2}).scalar_type(), torch::kLong);
  EXPECT_EQ(at::tensor({1, 2}).scalar_type(), torch::kInt);
  EXPECT_EQ(at::tensor({1.0, 2.0}).scalar_type(), torch::kDouble);
  EXPECT_EQ(torch::tensor({{}, {}}).sizes(), torch::IntArrayRef({2, 0}));
  EXPECT_EQ(torch::tensor(5).dim(), 0);
  EXPECT_THROW(torch::tensor({{1, 2}, {3}}), c10::Error);
  EXPECT_TRUE(torch::tensor({1.0}, torch::requires_grad()).is_leaf());
}

TEST(TorchTensor, FlattenedTensorsComeBackAsViews) {
  const std::vector<torch::Tensor> tensors{torch::ones({2, 2}), torch::empty({0}), torch::zeros({3})};
  const torch::Tensor flat = torch::utils::flatten_dense_tensors(tensors);
  const std::vector<torch::Tensor> views = torch::utils::unflatten_dense_tensors(flat, tensors);
  flat.fill_(7);
  EXPECT_EQ(views[0].sizes(), torch::IntArrayRef({2, 2}));
  EXPECT_EQ(views[2][1].item<float>(), 7);
}

TEST(TorchTensor, TransformsAndFactorsAreInNamespaces) {
  const torch::Tensor x = torch::randn({8}, torch::kDouble);
  EXPECT_TRUE(torch::allclose(torch::fft::irfft(torch::fft::rfft(x)), x));
  EXPECT_TRUE(torch::allclose(torch::fft::fft(x, {}, -1, "forward"), torch::fft::fft(x) / 8));
  EXPECT_THROW(torch::fft::fft(x, {}, -1, "unit"), c10::Error);
  const torch::Tensor a = torch::tensor({{4., 1.}, {1., 3.}}, torch::kDouble);
  auto [values, vectors] = torch::linalg::eigh(a);
  EXPECT_TRUE(torch::allclose(vectors.matmul(values.diag()).matmul(vectors.t()), a));
  EXPECT_NEAR(torch::linalg::norm(a).item<double>(), std::sqrt(27.), 1e-12);
  EXPECT_NEAR(torch::linalg::norm(a, 1).item<double>(), 5, 1e-12);
  EXPECT_NEAR(torch::special::ndtr(torch::zeros({1}, torch::kDouble)).item<double>(), 0.5, 1e-12);
  EXPECT_EQ(torch::special::entr(torch::tensor({0., -1.}))[0].item<float>(), 0);
}

TEST(TorchScript, LoadSaysWhatToDoInstead) {
  try {
    torch::jit::script::Module model = torch::jit::load("model.pt");
    FAIL();
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("torch::load(model, file)"), std::string::npos) << error.what();
  }
}

TEST(TorchTensor, PrintsAsLibtorch) {
  std::ostringstream out;
  out << torch::tensor({{1, 2}, {3, 4}});
  EXPECT_EQ(out.str(), " 1  2\n 3  4\n[ CPULongType{2,2} ]");
}

TEST(TorchTensor, ErrorsNameTheCallersLine) {
  const torch::Tensor x = torch::ones({2});
  const std::function<void()> calls[] = {[&] { x + torch::ones({3}); }, [&] { x.index({7}); },
                                         [&] {
                                           x.index_put_({0, 0}, 1);
                                         }};
  for (const auto& call : calls) {
    try {
      call();
      FAIL();
    } catch (const c10::Error& error) {
      EXPECT_NE(std::string(error.what()).find("tensor_test.cpp"), std::string::npos) << error.what();
    }
  }
}

TEST(TorchTensor, FromBlobRunsItsDeleter) {
  std::vector<float> values = {1, 2, 3};
  bool deleted = false;
  {
    const torch::Tensor x = torch::from_blob(values.data(), {3}, [&](void*) { deleted = true; });
    EXPECT_EQ(x.sum().item<float>(), 6);
    EXPECT_FALSE(deleted);
  }
  EXPECT_TRUE(deleted);
}

TEST(TorchAutograd, FunctionsHaveTheirOwnGradient) {
  struct Scale : torch::autograd::Function<Scale> {
    static torch::Tensor forward(torch::autograd::AutogradContext* ctx, torch::Tensor x, double factor) {
      ctx->saved_data["factor"] = factor;
      ctx->save_for_backward({x});
      return x * factor;
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                   torch::autograd::variable_list gradients) {
      EXPECT_EQ(ctx->get_saved_variables()[0].numel(), 2);
      return {gradients[0] * ctx->saved_data["factor"].toDouble(), torch::Tensor()};
    }
  };
  const torch::Tensor x = torch::ones({2}, torch::requires_grad());
  Scale::apply(x, 3.0).sum().backward();
  EXPECT_TRUE(torch::equal(x.grad(), torch::tensor({3., 3.})));
}

TEST(TorchAutograd, HooksReplaceGradientsAndAreRemoved) {
  torch::Tensor x = torch::ones({2}, torch::requires_grad());
  const unsigned hook = x.register_hook([](torch::Tensor gradient) { return gradient * 2; });
  x.sum().backward();
  EXPECT_EQ(x.grad()[0].item<float>(), 2);
  EXPECT_THROW(torch::ones({1}).remove_hook(hook), c10::IndexError);
  x.remove_hook(hook);
  x.mutable_grad() = torch::Tensor();
  x.sum().backward();
  EXPECT_EQ(x.grad()[0].item<float>(), 1);
}

TEST(TorchAutograd, GradientsCanBeAssignedToAnyLeaf) {
  torch::Tensor x = torch::zeros({2});
  x.mutable_grad() = torch::ones({2});
  EXPECT_EQ(x.grad().sum().item<float>(), 2);
  torch::optim::SGD({x}, 0.5).step();
  EXPECT_EQ(x[0].item<float>(), -0.5);
}

struct NetImpl : torch::nn::Module {
  NetImpl() : fc1(register_module("fc1", torch::nn::Linear(4, 8))) {
    fc2 = register_module("fc2", torch::nn::Linear(torch::nn::LinearOptions(8, 2).bias(false)));
  }
  torch::Tensor forward(torch::Tensor x) { return fc2(torch::relu(fc1(x))); }
  torch::nn::Linear fc1{nullptr}, fc2{nullptr};
};
TORCH_MODULE(Net);

TEST(TorchModule, HoldersShareTheModule) {
  Net net, other = net;
  EXPECT_EQ(net->parameters().size(), 3U);
  EXPECT_EQ(net->named_parameters()["fc2.weight"].sizes(), torch::IntArrayRef({2, 8}));
  torch::NoGradGuard unrecorded;
  other->fc1->weight.fill_(1);
  EXPECT_EQ(net->fc1->weight[0][0].item<float>(), 1);
  net->to(torch::kDouble);
  EXPECT_EQ(net->forward(torch::ones({1, 4}, torch::kDouble)).dtype(), torch::kDouble);
}

TEST(TorchModule, LayersRefuseInvalidBoundsShapesAndPaddings) {
  EXPECT_THROW(torch::nn::Hardtanh(torch::nn::HardtanhOptions().min_val(1).max_val(1)), c10::Error);
  torch::nn::Hardtanh clamp;
  clamp->options.max_val(-2);
  EXPECT_THROW(clamp->reset(), c10::Error);
  EXPECT_THROW(torch::nn::BCEWithLogitsLoss()(torch::ones({5}), torch::ones({5, 1})), c10::Error);
  EXPECT_NEAR(torch::binary_cross_entropy(torch::full({3, 1}, 0.5), torch::ones({3})).item<float>(), 0.6931, 1e-4);
  torch::nn::ConvTranspose2d layer(torch::nn::ConvTranspose2dOptions(1, 1, 2).padding_mode(torch::kCircular));
  EXPECT_THROW(layer(torch::ones({1, 1, 3, 3})), c10::Error);
}

TEST(TorchTensor, ReductionsOfOneDimensionTakeAnInteger) {
  const torch::Tensor x = torch::randn({4, 3});
  EXPECT_EQ(x.std(0).sizes(), torch::IntArrayRef({3}));
  EXPECT_EQ(std::get<0>(torch::var_mean(x, 1)).sizes(), torch::IntArrayRef({4}));
  EXPECT_EQ((x == 0).scalar_type(), torch::kBool);
  EXPECT_EQ((0 != x).scalar_type(), torch::kBool);
  EXPECT_THROW(x.to(torch::requires_grad()), c10::Error);
}

TEST(TorchTensor, BytesAreMasksWithAWarning) {
  struct Count : c10::WarningHandler {
    void process(const c10::SourceLocation&, const std::string& text, bool) override {
      count += text.find("uint8") != text.npos;
    }
    int count = 0;
  } handler;
  c10::Warning::set_warning_handler(&handler);
  const torch::Tensor chosen = torch::arange(3).index({torch::tensor({1, 0, 1}, torch::kByte)});
  c10::Warning::set_warning_handler(nullptr);
  EXPECT_TRUE(torch::equal(chosen, torch::tensor({0, 2})));
  EXPECT_EQ(handler.count, 1);
}

TEST(TorchOptim, StepsDescendAndSchedulersLowerTheRate) {
  torch::manual_seed(1);
  Net net;
  torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(0.05));
  torch::optim::StepLR schedule(optimizer, 10, 0.5);
  const torch::Tensor x = torch::randn({16, 4}), y = torch::randint(2, {16}, torch::kLong);
  float first = 0, last = 0;
  for (int i = 0; i < 20; ++i) {
    optimizer.zero_grad();
    torch::Tensor loss = torch::nn::functional::cross_entropy(net(x), y);
    loss.backward();
    optimizer.step();
    schedule.step();
    (i == 0 ? first : last) = loss.item<float>();
  }
  EXPECT_LT(last, first);
  EXPECT_DOUBLE_EQ(optimizer.param_groups()[0].options().get_lr(), 0.025);
  const auto& state =
      static_cast<const torch::optim::AdamParamState&>(*optimizer.state().at(net->fc1->weight.unsafeGetTensorImpl()));
  EXPECT_EQ(state.step(), 20);
}

TEST(TorchSerialize, ModulesAndTensorsComeBack) {
  Net saved, loaded;
  std::stringstream stream;
  torch::save(saved, stream);
  torch::load(loaded, stream);
  EXPECT_TRUE(torch::equal(saved->fc1->weight, loaded->fc1->weight));
  std::istringstream other("PK");
  torch::Tensor x;
  EXPECT_THROW(torch::load(x, other), c10::Error);
}
