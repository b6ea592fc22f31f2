// Losses.
#pragma once

#include <torch/nn/modules/common.h>
#include <torch/nn/options/loss.h>

namespace torch::nn {

#define TORCH_LOSS(Name) TORCH_PLAIN_CLASS(Name, Name##Options, Tensor, const Tensor& input, const Tensor& target)
TORCH_LOSS(L1Loss)
TORCH_LOSS(KLDivLoss)
TORCH_LOSS(MSELoss)
TORCH_LOSS(BCELoss)
TORCH_LOSS(BCEWithLogitsLoss)
TORCH_LOSS(HingeEmbeddingLoss)
TORCH_LOSS(MultiMarginLoss)
TORCH_LOSS(MultiLabelMarginLoss)
TORCH_LOSS(MultiLabelSoftMarginLoss)
TORCH_LOSS(SoftMarginLoss)
TORCH_LOSS(SmoothL1Loss)
TORCH_LOSS(HuberLoss)
TORCH_LOSS(PoissonNLLLoss)
TORCH_LOSS(NLLLoss)
TORCH_LOSS(CrossEntropyLoss)
#undef TORCH_LOSS
TORCH_PLAIN_CLASS(CosineEmbeddingLoss, CosineEmbeddingLossOptions, Tensor, const Tensor& input1, const Tensor& input2,
                  const Tensor& target)
TORCH_PLAIN_CLASS(MarginRankingLoss, MarginRankingLossOptions, Tensor, const Tensor& input1, const Tensor& input2,
                  const Tensor& target)
TORCH_PLAIN_CLASS(TripletMarginLoss, TripletMarginLossOptions, Tensor, const Tensor& anchor, const Tensor& positive,
                  const Tensor& negative)
TORCH_PLAIN_CLASS(TripletMarginWithDistanceLoss, TripletMarginWithDistanceLossOptions, Tensor, const Tensor& anchor,
                  const Tensor& positive, const Tensor& negative)
TORCH_PLAIN_CLASS(CTCLoss, CTCLossOptions, Tensor, const Tensor& log_probs, const Tensor& targets,
                  const Tensor& input_lengths, const Tensor& target_lengths)

}  // namespace torch::nn
