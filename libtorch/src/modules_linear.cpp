#include <torch/nn/functional.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <cmath>

#include "print_options.h"

namespace torch::nn {

namespace F = functional;
using detail::text;

void IdentityImpl::pretty_print(std::ostream& stream) const { stream << "torch::nn::Identity()"; }

// ---- linear layers ----
LinearImpl::LinearImpl(const LinearOptions& options_) : options(options_) { reset(); }
void LinearImpl::reset() {
  weight = register_parameter("weight", at::empty({options.out_features(), options.in_features()}));
  bias = register_parameter("bias", options.bias() ? at::empty({options.out_features()}) : Tensor(), options.bias());
  reset_parameters();
}
void LinearImpl::reset_parameters() {
  init::kaiming_uniform_(weight, std::sqrt(5.0));
  if (!bias.defined()) return;
  const double bound = 1 / std::sqrt(static_cast<double>(std::get<0>(init::_calculate_fan_in_and_fan_out(weight))));
  init::uniform_(bias, -bound, bound);
}
Tensor LinearImpl::forward(const Tensor& input) { return F::linear(input, weight, bias); }
void LinearImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::Linear(in_features=" << options.in_features() << ", out_features=" << options.out_features()
         << ", bias=" << text(options.bias()) << ")";
}

BilinearImpl::BilinearImpl(const BilinearOptions& options_) : options(options_) { reset(); }
void BilinearImpl::reset() {
  weight =
      register_parameter("weight", at::empty({options.out_features(), options.in1_features(), options.in2_features()}));
  bias = register_parameter("bias", options.bias() ? at::empty({options.out_features()}) : Tensor(), options.bias());
  reset_parameters();
}
void BilinearImpl::reset_parameters() {
  const double bound = 1 / std::sqrt(static_cast<double>(weight.size(1)));
  init::uniform_(weight, -bound, bound);
  if (bias.defined()) init::uniform_(bias, -bound, bound);
}
Tensor BilinearImpl::forward(const Tensor& input1, const Tensor& input2) {
  return F::bilinear(input1, input2, weight, bias);
}
void BilinearImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::Bilinear(in1_features=" << options.in1_features() << ", in2_features=" << options.in2_features()
         << ", out_features=" << options.out_features() << ", bias=" << text(options.bias()) << ")";
}

Tensor FlattenImpl::forward(const Tensor& input) { return input.flatten(options.start_dim(), options.end_dim()); }
void FlattenImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::Flatten(start_dim=" << options.start_dim() << ", end_dim=" << options.end_dim() << ")";
}

Tensor UnflattenImpl::forward(const Tensor& input) {
  TORCH_CHECK(options.namedshape().empty(), "named dimensions are not supported: use UnflattenOptions(dim, sizes)");
  return input.unflatten(options.dim(), options.sizes());
}
void UnflattenImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::Unflatten(dim=";
  if (!options.namedshape().empty()) {
    stream << '"' << options.dimname() << "\", unflattened_size={";
    const char* comma = "";
    for (const auto& [name, size] : options.namedshape()) {
      stream << comma << "{\"" << name << "\", " << size << "}";
      comma = ", ";
    }
  } else {
    stream << options.dim() << ", unflattened_size={" << c10::Join(", ", options.sizes());
  }
  stream << "})";
}

// ---- embeddings ----
EmbeddingImpl::EmbeddingImpl(EmbeddingOptions options_) : options(std::move(options_)) { reset(); }
void EmbeddingImpl::reset() {
  if (options.padding_idx() && *options.padding_idx() < 0) {
    TORCH_CHECK(*options.padding_idx() >= -options.num_embeddings(), "Padding_idx must be within num_embeddings");
    options.padding_idx(options.num_embeddings() + *options.padding_idx());
  }
  TORCH_CHECK(!options.padding_idx() || *options.padding_idx() < options.num_embeddings(),
              "Padding_idx must be within num_embeddings");
  if (options._weight().defined()) {
    TORCH_CHECK(options._weight().sizes() == IntArrayRef({options.num_embeddings(), options.embedding_dim()}),
                "Shape of _weight does not match num_embeddings and embedding_dim");
    weight = register_parameter("weight", options._weight());
    return;
  }
  weight = register_parameter("weight", at::empty({options.num_embeddings(), options.embedding_dim()}));
  reset_parameters();
}
void EmbeddingImpl::reset_parameters() {
  init::normal_(weight);
  const NoGradGuard unrecorded;
  if (options.padding_idx()) weight[*options.padding_idx()].zero_();
}
Tensor EmbeddingImpl::forward(const Tensor& indices) {
  return F::embedding(indices, weight,
                      F::EmbeddingFuncOptions()
                          .padding_idx(options.padding_idx())
                          .max_norm(options.max_norm())
                          .norm_type(options.norm_type())
                          .scale_grad_by_freq(options.scale_grad_by_freq())
                          .sparse(options.sparse()));
}

namespace {

template <class Options>
void print_embedding(std::ostream& stream, const char* name, const Options& options, bool with_padding) {
  stream << "torch::nn::" << name << "(num_embeddings=" << options.num_embeddings()
         << ", embedding_dim=" << options.embedding_dim();
  if (with_padding && options.padding_idx()) stream << ", padding_idx=" << *options.padding_idx();
  if (options.max_norm()) stream << ", max_norm=" << *options.max_norm();
  if (options.norm_type() != 2) stream << ", norm_type=" << options.norm_type();
  if (options.scale_grad_by_freq()) stream << ", scale_grad_by_freq=true";
  if (options.sparse()) stream << ", sparse=true";
}

}  // namespace

void EmbeddingImpl::pretty_print(std::ostream& stream) const {
  print_embedding(stream, "Embedding", options, true);
  stream << ")";
}
Embedding Embedding::from_pretrained(const Tensor& embeddings, const EmbeddingFromPretrainedOptions& options) {
  TORCH_CHECK(embeddings.dim() == 2, "Embeddings parameter is expected to be 2-dimensional");
  Embedding embedding(EmbeddingOptions(embeddings.size(0), embeddings.size(1))
                          ._weight(embeddings)
                          .padding_idx(options.padding_idx())
                          .max_norm(options.max_norm())
                          .norm_type(options.norm_type())
                          .scale_grad_by_freq(options.scale_grad_by_freq())
                          .sparse(options.sparse()));
  embedding->weight.set_requires_grad(!options.freeze());
  return embedding;
}

EmbeddingBagImpl::EmbeddingBagImpl(EmbeddingBagOptions options_) : options(std::move(options_)) { reset(); }
void EmbeddingBagImpl::reset() {
  if (options.padding_idx() && *options.padding_idx() < 0) {
    options.padding_idx(options.num_embeddings() + *options.padding_idx());
  }
  if (options._weight().defined()) {
    TORCH_CHECK(options._weight().sizes() == IntArrayRef({options.num_embeddings(), options.embedding_dim()}),
                "Shape of weight does not match num_embeddings and embedding_dim");
    weight = register_parameter("weight", options._weight());
    return;
  }
  weight = register_parameter("weight", at::empty({options.num_embeddings(), options.embedding_dim()}));
  reset_parameters();
}
void EmbeddingBagImpl::reset_parameters() {
  init::normal_(weight);
  const NoGradGuard unrecorded;
  if (options.padding_idx()) weight[*options.padding_idx()].zero_();
}
Tensor EmbeddingBagImpl::forward(const Tensor& input, const Tensor& offsets, const Tensor& per_sample_weights) {
  return F::embedding_bag(input, weight,
                          F::EmbeddingBagFuncOptions()
                              .offsets(offsets)
                              .max_norm(options.max_norm())
                              .norm_type(options.norm_type())
                              .scale_grad_by_freq(options.scale_grad_by_freq())
                              .mode(options.mode())
                              .sparse(options.sparse())
                              .per_sample_weights(per_sample_weights)
                              .include_last_offset(options.include_last_offset())
                              .padding_idx(options.padding_idx()));
}
void EmbeddingBagImpl::pretty_print(std::ostream& stream) const {
  print_embedding(stream, "EmbeddingBag", options, false);
  if (!std::holds_alternative<enumtype::kMean>(options.mode())) {
    stream << ", mode=" << enumtype::get_enum_name(options.mode());
  }
  if (options.include_last_offset()) stream << ", include_last_offset=true";
  if (options.padding_idx()) stream << ", padding_idx=" << *options.padding_idx();
  stream << ")";
}
EmbeddingBag EmbeddingBag::from_pretrained(const Tensor& embeddings, const EmbeddingBagFromPretrainedOptions& options) {
  TORCH_CHECK(embeddings.dim() == 2, "Embeddings parameter is expected to be 2-dimensional");
  EmbeddingBag bag(EmbeddingBagOptions(embeddings.size(0), embeddings.size(1))
                       ._weight(embeddings)
                       .max_norm(options.max_norm())
                       .norm_type(options.norm_type())
                       .scale_grad_by_freq(options.scale_grad_by_freq())
                       .mode(options.mode())
                       .sparse(options.sparse())
                       .padding_idx(options.padding_idx()));
  bag->weight.set_requires_grad(!options.freeze());
  return bag;
}

// ---- distances ----
Tensor CosineSimilarityImpl::forward(const Tensor& x1, const Tensor& x2) {
  return F::cosine_similarity(x1, x2, options);
}
void CosineSimilarityImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::CosineSimilarity(dim=" << options.dim() << ", eps=" << options.eps() << ")";
}
Tensor PairwiseDistanceImpl::forward(const Tensor& x1, const Tensor& x2) {
  return F::pairwise_distance(x1, x2, options);
}
void PairwiseDistanceImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::PairwiseDistance(p=" << options.p() << ", eps=" << options.eps()
         << ", keepdim=" << text(options.keepdim()) << ")";
}

// ---- adaptive softmax (Grave et al. 2017) ----
AdaptiveLogSoftmaxWithLossImpl::AdaptiveLogSoftmaxWithLossImpl(AdaptiveLogSoftmaxWithLossOptions options_)
    : options(std::move(options_)) {
  reset();
}
void AdaptiveLogSoftmaxWithLossImpl::reset() {
  cutoffs = options.cutoffs();
  const auto in_range = [&](int64_t c) { return c > 0 && c < options.n_classes(); };
  TORCH_CHECK(!cutoffs.empty() && std::is_sorted(cutoffs.begin(), cutoffs.end()) &&
                  std::adjacent_find(cutoffs.begin(), cutoffs.end()) == cutoffs.end() &&
                  std::all_of(cutoffs.begin(), cutoffs.end(), in_range),
              "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
              "value is between 1 and n_classes-1");
  cutoffs.push_back(options.n_classes());
  shortlist_size = cutoffs[0];
  n_clusters = static_cast<int64_t>(cutoffs.size()) - 1;
  head_size = shortlist_size + n_clusters;
  head = register_module("head", Linear(LinearOptions(options.in_features(), head_size).bias(options.head_bias())));
  tail = register_module("tail", ModuleList());
  for (int64_t i = 0; i < n_clusters; ++i) {
    const auto width = static_cast<int64_t>(static_cast<double>(options.in_features()) /
                                            std::pow(options.div_value(), static_cast<double>(i + 1)));
    const int64_t classes = cutoffs[static_cast<size_t>(i) + 1] - cutoffs[static_cast<size_t>(i)];
    tail->push_back(Sequential(Linear(LinearOptions(options.in_features(), width).bias(false)),
                               Linear(LinearOptions(width, classes).bias(false))));
  }
}
void AdaptiveLogSoftmaxWithLossImpl::reset_parameters() {
  head->reset_parameters();
  for (size_t i = 0; i < tail->size(); ++i) {
    for (size_t k = 0; k < 2; ++k) tail->ptr<SequentialImpl>(i)->ptr<LinearImpl>(k)->reset_parameters();
  }
}

ASMoutput AdaptiveLogSoftmaxWithLossImpl::forward(const Tensor& input_, const Tensor& target_) {
  const bool batched = target_.dim() > 0;
  const Tensor input = batched ? input_ : input_.unsqueeze(0), target = batched ? target_ : target_.unsqueeze(0);
  TORCH_CHECK(input.size(0) == target.size(0), "Input and target should have the same size in the batch dimension");
  const auto below = target < 0, above = target >= options.n_classes();
  TORCH_CHECK(!(below | above).any().item<bool>(),
              "Target values should be in [0, n_classes - 1], but values in range "
              "[",
              target.min().item<int64_t>(), ", ", target.max().item<int64_t>(), "] were found. ");
  const Tensor all = log_prob(input);
  const Tensor output = all.gather(1, target.unsqueeze(1)).squeeze(1);
  const double loss = (-output).mean().item<double>();
  return ASMoutput(batched ? output : output.squeeze(0), loss);
}
Tensor AdaptiveLogSoftmaxWithLossImpl::_get_full_log_prob(const Tensor& input, const Tensor& head_output) {
  const Tensor head_log_prob = head_output.log_softmax(1);
  TensorVector parts = {head_log_prob.narrow(1, 0, shortlist_size)};
  for (int64_t i = 0; i < n_clusters; ++i) {
    const Tensor cluster = tail->ptr<SequentialImpl>(static_cast<size_t>(i))->forward(input).log_softmax(1);
    parts.push_back(cluster + head_log_prob.narrow(1, shortlist_size + i, 1));
  }
  return at::cat(parts, 1);
}
Tensor AdaptiveLogSoftmaxWithLossImpl::log_prob(const Tensor& input) {
  return _get_full_log_prob(input, head->forward(input));
}
Tensor AdaptiveLogSoftmaxWithLossImpl::predict(const Tensor& input) { return log_prob(input).argmax(1); }
void AdaptiveLogSoftmaxWithLossImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::AdaptiveLogSoftmaxWithLoss";
}

}  // namespace torch::nn
