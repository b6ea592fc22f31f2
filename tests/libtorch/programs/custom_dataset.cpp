// A dataset of the program's own over a table of numbers, with a learning rate that falls.
#include "common.h"

#include <string>

class Houses : public torch::data::datasets::Dataset<Houses> {
 public:
  explicit Houses(int64_t count) : rows_(pattern({count, 6}, 1, 7)) {}
  torch::data::Example<> get(size_t index) override {
    torch::Tensor row = rows_[static_cast<int64_t>(index)];
    torch::Tensor price = (row * torch::tensor({3.0f, -1.0f, 0.5f, 0.0f, 2.0f, 1.0f})).sum() + row[0] * row[1];
    return {row, price.unsqueeze(0)};
  }
  torch::optional<size_t> size() const override { return static_cast<size_t>(rows_.size(0)); }

 private:
  torch::Tensor rows_;
};

int main() {
  auto dataset = Houses(100).map(torch::data::transforms::Stack<>());
  auto loader = torch::data::make_data_loader(std::move(dataset), torch::data::samplers::SequentialSampler(100),
                                              torch::data::DataLoaderOptions(24).drop_last(true));
  torch::nn::Sequential model;
  model->push_back("first", torch::nn::Linear(6, 32));
  model->push_back("act", torch::nn::Functional(torch::relu));
  model->push_back("last", torch::nn::Linear(torch::nn::LinearOptions(32, 1)));
  set_weights(*model);
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(0.01).weight_decay(0.1));
  torch::optim::StepLR scheduler(optimizer, /*step_size=*/2, /*gamma=*/0.5);
  int step = 0;
  for (int epoch = 0; epoch < 5; ++epoch) {
    for (const torch::data::Example<>& batch : *loader) {
      optimizer.zero_grad();
      torch::Tensor loss = torch::nn::functional::smooth_l1_loss(model->forward(batch.data), batch.target);
      loss.backward();
      optimizer.step();
      report(step++, loss);
    }
    scheduler.step();
    report("rate", optimizer.param_groups()[0].options().get_lr());
  }
}
