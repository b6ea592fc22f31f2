// Trains a variational autoencoder (Kingma and Welling 2014) on drawn digits, and writes three pictures: new digits,
// reconstructions of given ones, and interpolations between digits.
#include <filesystem>
#include <iostream>

#include <CLI/CLI.hpp>
#include <weft/weft.hpp>

#include "drawn_digits.hpp"

using namespace weft;

struct Vae : nn::Layer<Vae> {
  nn::Linear seen, mean, log_variance, imagined, pixels;

  explicit Vae(int64_t latent, int64_t hidden = 256)
      : seen(784, hidden),
        mean(hidden, latent),
        log_variance(hidden, latent),
        imagined(latent, hidden),
        pixels(hidden, 784) {
    WEFT_REGISTER(seen, mean, log_variance, imagined, pixels);
  }
  struct Code {
    Tensor mean, log_variance;  // [batch, latent]
  };
  // x [batch, 1, 28, 28]
  Code encode(const Tensor& x) const {
    const Tensor h = gelu(seen(x.flatten(1)));
    return {mean(h), log_variance(h)};
  }
  // [batch, latent] -> logits of pixels [batch, 784]
  Tensor forward(const Tensor& z) const { return pixels(gelu(imagined(z))); }
};

// A reparametrised draw from the code's distribution, through which gradients flow.
Tensor draw(const Vae::Code& code) { return code.mean + exp(code.log_variance * 0.5) * randn_like(code.mean); }

// The negative evidence lower bound per image, in nats: reconstruction loss plus KL divergence.
Tensor loss_of(const Vae& model, const Tensor& x) {
  const Vae::Code code = model.encode(x);
  const Tensor cost =
      binary_cross_entropy_with_logits(model(draw(code)), x.flatten(1), {.reduction = LossReduction::sum});
  const Tensor divergence = -0.5 * (1 + code.log_variance - square(code.mean) - exp(code.log_variance)).sum();
  return (cost + divergence) / x.size(0);
}

struct Options {
  int64_t images = 6000, epochs = 15, batch = 64, latent = 16;
  double lr = 2e-3, worst = 1e9;
  uint64_t seed = 1;
  std::string out = "runs/vae";
};

void save_pictures(const Vae& model, const Tensor& given, const Options& o) {
  const NoGradGuard no_grad;
  const auto as_tiles = [&](const std::string& name, const Tensor& logits, const std::string& title) {
    io::save_tiles(o.out + "/" + name, sigmoid(logits).view({-1, drawn::size, drawn::size}), {.title = title});
  };
  as_tiles("samples.svg", model(randn({40, o.latent})), "Digits that it made up");
  const Tensor some = given.slice(0, 0, 10), codes = model.encode(some).mean;
  io::save_tiles(
      o.out + "/remembered.svg",
      cat({some.view({10, drawn::size, drawn::size}), sigmoid(model(codes)).view({10, drawn::size, drawn::size})}),
      {.title = "Ten digits, and their reconstructions"});
  std::vector<Tensor> way;
  for (int i = 0; i < 20; ++i) way.push_back(lerp(codes[0], codes[1], i / 19.0));
  as_tiles("way.svg", model(stack(way)), "From one digit to another");
  std::cout << "pictures: " << o.out << "/samples.svg, remembered.svg, way.svg" << std::endl;
}

// Trains the model. Returns whether the final validation loss is low enough.
bool run(const Options& o) {
  manual_seed(o.seed);
  std::cout << "drawing " << o.images << " digits" << std::endl;
  const Tensor images = drawn::draw_digits(o.images).pixels, held_back = drawn::draw_digits(500).pixels;
  Vae model(o.latent);
  optim::AdamW optimizer(model.parameters(), {.lr = o.lr});
  const int64_t steps = (o.images + o.batch - 1) / o.batch;
  io::RunLog log(o.out, 0, o.epochs * steps);
  int64_t step = 0;
  double reached = 0;
  for (int64_t epoch = 0; epoch < o.epochs; ++epoch) {
    for (const Tensor& picked : randperm(o.images).split(o.batch)) {
      optimizer.zero_grad();
      const Tensor loss = loss_of(model, images.index_select(0, picked));
      loss.backward();
      optim::clip_grad_norm_(model.parameters(), 10.0);
      optimizer.step();
      io::Figures figures = {{"train_loss", loss.item<double>()}};
      if (++step % steps == 0) {
        const NoGradGuard no_grad;
        figures.emplace_back("val_loss", reached = loss_of(model, held_back).item<double>());
      }
      log.record(step, figures);
    }
  }
  log.finish({.title = "Variational autoencoder", .x_label = "step", .y_label = "nats per image"});
  save_pictures(model, held_back, o);
  return reached <= o.worst;
}

int main(int argc, char** argv) {
  Options o;
  CLI::App app("Trains a variational autoencoder on drawn digits, and leaves pictures of digits that it made up.");
  app.add_option("--images", o.images, "how many digits to draw")
      ->capture_default_str()
      ->check(CLI::Range(64, 1000000));
  app.add_option("--epochs", o.epochs)->capture_default_str()->check(CLI::Range(1, 1000000));
  app.add_option("--batch", o.batch)->capture_default_str()->check(CLI::Range(1, 100000));
  app.add_option("--latent", o.latent, "numbers in a code")->capture_default_str()->check(CLI::Range(1, 10000));
  app.add_option("--lr", o.lr, "learning rate")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--worst", o.worst, "the status is 1 where the last loss is above it");
  app.add_option("--seed", o.seed)->capture_default_str();
  app.add_option("--out", o.out, "folder for the losses and pictures")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return run(o) ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
