// Trains a small ConvNet to recognise digits, and writes pictures of its predictions and errors. The images are IDX
// files (MNIST, Fashion-MNIST), or drawn by the program.
#include <chrono>
#include <filesystem>
#include <iomanip>
#include <iostream>

#include <CLI/CLI.hpp>
#include <weft/weft.hpp>

#include "drawn_digits.hpp"

using namespace weft;
using drawn::classes, drawn::draw_digits, drawn::Images, drawn::size;

// No source location: errors in command-line arguments are reported without a line of C++.
const Location nowhere = Location::none();

// The training or test images of a folder with MNIST's file names.
Images read_images(const std::string& folder, bool train) {
  const auto [pixels, labels] = data::load_mnist(folder, train, nowhere);
  if (pixels.size(2) != size || pixels.size(3) != size || labels.numel() == 0 ||
      labels.max().item<int64_t>() >= classes)
    throw FormatError("[vision] " + folder + ": images of 28 x 28 and one label from 0 to 9 for each are needed");
  return {data::to_float(pixels), labels};
}

struct Net : nn::Layer<Net> {
  nn::Conv2d conv1{1, 16, 5, {.padding = 2}}, conv2{16, 32, 3, {.padding = 1}};
  nn::BatchNorm2d norm1{16}, norm2{32};
  nn::Linear hidden{32 * 7 * 7, 64}, out{64, classes};
  nn::Dropout dropout{0.25};

  Net() { WEFT_REGISTER(conv1, norm1, conv2, norm2, hidden, dropout, out); }

  // x [batch, 1, 28, 28] -> logits [batch, classes]
  Tensor forward(const Tensor& x) {
    Tensor h = max_pool2d(relu(norm1(conv1(x))), 2);
    h = max_pool2d(relu(norm2(conv2(h))), 2);
    return out(dropout(relu(hidden(h.flatten(1)))));
  }
};

Tensor predictions(Net& net, const Tensor& pixels, Device device) {
  const NoGradGuard no_grad;
  net.eval();
  std::vector<Tensor> parts;
  for (const Tensor& part : pixels.split(500)) parts.push_back(argmax(net(part.to(device)), 1).to("cpu"));
  net.train();
  return cat(parts);
}

struct Options {
  std::string data, device = "cpu", out = "runs/vision";
  int64_t epochs = 3, batch = 64, images = 6000;
  double lr = 2e-3;
  uint64_t seed = 1;
};

void train_epoch(Net& net, optim::AdamW& optimizer, const Images& data, const Options& o, Device device, int64_t epoch,
                 Generator& shuffle) {
  const auto start = std::chrono::steady_clock::now();
  const int64_t count = data.labels.numel(), steps = (count + o.batch - 1) / o.batch;
  const Tensor order = randperm(count, {}, &shuffle);
  double loss_sum = 0;
  for (int64_t step = 0; step < steps; ++step) {
    const Tensor picked = order.slice(0, step * o.batch, (step + 1) * o.batch);
    const Tensor x = data.pixels.index_select(0, picked).to(device), y = data.labels.index_select(0, picked).to(device);
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(net(x), y);
    loss.backward();
    optimizer.step();
    loss_sum += loss.item<double>();
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    if (step % 10 == 9 || step + 1 == steps) {
      std::cout << "\repoch " << epoch << "  " << std::setw(3) << 100 * (step + 1) / steps << " %  loss " << std::fixed
                << std::setprecision(4) << loss_sum / static_cast<double>(step + 1) << "  " << std::setprecision(0)
                << static_cast<double>((step + 1) * o.batch) / spent.count() << " images/s " << std::flush;
    }
  }
}

void save_pictures(Net& net, const Images& test, const Tensor& read, const std::string& folder) {
  std::filesystem::create_directories(folder);
  const Tensor confusion = bincount(test.labels * classes + read, {}, classes * classes).view({classes, classes});
  io::TilesOptions look{
      .title = "Test images by class and by prediction", .row_label = "class", .column_label = "read as"};
  for (int64_t i = 0; i < classes; ++i) look.names.push_back(std::to_string(i));
  io::save_tiles(folder + "/confusion.svg", confusion, look);
  io::save_tiles(folder + "/filters.svg", net.conv1.weight.squeeze(1), {.title = "Filters of the first layer"});
  const Tensor wrong = nonzero(test.labels != read).flatten().slice(0, 0, 20);
  std::vector<std::string> captions;
  const auto digit = [](const Tensor& of, int64_t i) { return std::to_string(of[i].item<int64_t>()); };
  for (const int64_t i : wrong.to_vector<int64_t>())
    captions.push_back(digit(test.labels, i) + " as " + digit(read, i));
  const Tensor misread = test.pixels.squeeze(1).index_select(0, wrong);
  io::save_tiles(folder + "/mistakes.svg", misread, {.title = "Misread test images", .captions = captions});
  std::cout << "pictures: " << folder << "/confusion.svg, filters.svg, mistakes.svg" << std::endl;
}

void run(const Options& o) {
  const Device device(o.device, nowhere);
  check_device(device, "vision", nowhere);
  manual_seed(o.seed);
  std::cout << (o.data.empty() ? "drawing " + std::to_string(o.images) + " digits" : "reading " + o.data) << std::endl;
  const Images training = o.data.empty() ? draw_digits(o.images) : read_images(o.data, true);
  const Images test = o.data.empty() ? draw_digits(std::max<int64_t>(o.images / 6, 1)) : read_images(o.data, false);
  Net net;
  net.to(device);
  std::cout << net << "\n" << net.parameter_count() << " parameters" << std::endl;
  optim::AdamW optimizer(net.parameters(), {.lr = o.lr});
  Tensor read = predictions(net, test.pixels, device);
  manual_seed(o.seed);  // from here on all devices draw the same numbers
  Generator shuffle(o.seed);
  for (int64_t epoch = 1; epoch <= o.epochs; ++epoch) {
    train_epoch(net, optimizer, training, o, device, epoch, shuffle);
    read = predictions(net, test.pixels, device);
    const double right = (read == test.labels).to(f64).mean().item<double>();
    std::cout << " test accuracy " << std::setprecision(2) << 100 * right << " %" << std::endl;
  }
  save_pictures(net, test, read, o.out);
}

int main(int argc, char** argv) {
  Options o;
  CLI::App app("Trains a ConvNet to read digits, and leaves pictures of its filters and its mistakes.");
  app.add_option("--data", o.data,
                 "folder with MNIST's or Fashion-MNIST's four files, unzipped; else digits are drawn");
  app.add_option("--images", o.images, "how many digits to draw")->capture_default_str()->check(CLI::Range(1, 1000000));
  app.add_option("--epochs", o.epochs)->capture_default_str()->check(CLI::Range(0, 1000000));
  app.add_option("--batch", o.batch)->capture_default_str()->check(CLI::Range(2, 100000));
  app.add_option("--lr", o.lr, "learning rate")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--device", o.device, "cpu, hpu, cuda, or the kind of a plug-in that WEFT_PLUGINS names")
      ->capture_default_str();
  app.add_option("--seed", o.seed)->capture_default_str();
  app.add_option("--out", o.out, "folder for the pictures")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    run(o);
  } catch (const std::exception& e) {
    std::cerr << e.what() << std::endl;
    return 1;
  }
}
