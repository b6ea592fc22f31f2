// A generator and a discriminator in turn: transposed convolutions, BatchNorm, two Adam optimizers.
#include "common.h"

namespace nn = torch::nn;

struct GeneratorImpl : nn::Module {
  explicit GeneratorImpl(int noise_size)
      : conv1(nn::ConvTranspose2dOptions(noise_size, 32, 4).bias(false)),
        batch_norm1(32),
        conv2(nn::ConvTranspose2dOptions(32, 16, 3).stride(2).padding(1).bias(false)),
        batch_norm2(16),
        conv3(nn::ConvTranspose2dOptions(16, 1, 4).stride(2).padding(1).bias(false)) {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("conv3", conv3);
    register_module("batch_norm1", batch_norm1);
    register_module("batch_norm2", batch_norm2);
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(batch_norm1(conv1(x)));
    x = torch::relu(batch_norm2(conv2(x)));
    return torch::tanh(conv3(x));
  }
  nn::ConvTranspose2d conv1;
  nn::BatchNorm2d batch_norm1;
  nn::ConvTranspose2d conv2;
  nn::BatchNorm2d batch_norm2;
  nn::ConvTranspose2d conv3;
};
TORCH_MODULE(Generator);

int main() {
  const int noise_size = 16, batch = 8;
  Generator generator(noise_size);
  nn::Sequential discriminator(nn::Conv2d(nn::Conv2dOptions(1, 8, 4).stride(2).padding(1).bias(false)),
                               nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)),
                               nn::Conv2d(nn::Conv2dOptions(8, 16, 4).stride(2).padding(1).bias(false)),
                               nn::BatchNorm2d(16), nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)),
                               nn::Conv2d(nn::Conv2dOptions(16, 1, 3).stride(1).padding(0).bias(false)), nn::Sigmoid());
  set_weights(*generator, 1);
  set_weights(*discriminator, 100);
  torch::optim::Adam generator_optimizer(generator->parameters(),
                                         torch::optim::AdamOptions(2e-4).betas(std::make_tuple(0.5, 0.5)));
  torch::optim::Adam discriminator_optimizer(discriminator->parameters(),
                                             torch::optim::AdamOptions(5e-4).betas(std::make_tuple(0.5, 0.5)));
  for (int step = 0; step < steps; ++step) {
    discriminator->zero_grad();
    torch::Tensor real_images = pattern({batch, 1, 14, 14}, 1, 1000 + static_cast<uint64_t>(step));
    torch::Tensor real_labels = torch::full({batch}, 0.9);
    torch::Tensor real_output = discriminator->forward(real_images).reshape(real_labels.sizes());
    torch::Tensor d_loss_real = torch::binary_cross_entropy(real_output, real_labels);
    d_loss_real.backward();

    torch::Tensor noise = pattern({batch, noise_size, 1, 1}, 1.7, 2000 + static_cast<uint64_t>(step));
    torch::Tensor fake_images = generator->forward(noise);
    torch::Tensor fake_labels = torch::zeros(batch);
    torch::Tensor fake_output = discriminator->forward(fake_images.detach()).reshape(fake_labels.sizes());
    torch::Tensor d_loss_fake = torch::binary_cross_entropy(fake_output, fake_labels);
    d_loss_fake.backward();
    discriminator_optimizer.step();

    generator->zero_grad();
    fake_labels.fill_(1);
    fake_output = discriminator->forward(fake_images).reshape(fake_labels.sizes());
    torch::Tensor g_loss = torch::binary_cross_entropy(fake_output, fake_labels);
    g_loss.backward();
    generator_optimizer.step();
    report(step, d_loss_real + d_loss_fake);
    report("generator", g_loss.item<double>());
  }
}
