// Trains a small ConvNet to read digits, and leaves pictures of what it learned and where it errs. The images are IDX
// files (MNIST, Fashion-MNIST), or digits that the program draws itself.
#include <chrono>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <sstream>

#include <CLI/CLI.hpp>
#include <weft/weft.hpp>

using namespace weft;

struct Images {
  Tensor pixels, labels;  ///< f32 [count, 1, 28, 28] from 0 to 1, and i64 [count]
};

constexpr int64_t size = 28, classes = 10, most_strokes = 14;

// Points "xy" on a grid of 5 by 9 that a pen goes through; a bar lifts it.
const char* const paths[classes] = {
    "10 30 42 46 38 18 06 02 10",          "12 20 28 | 18 38", "02 10 30 42 43 08 48",
    "01 10 30 42 33 24 34 45 46 38 18 07", "30 05 45 | 30 38", "40 00 03 33 45 46 38 18 07",
    "40 20 03 06 18 38 46 45 34 04",       "00 40 18",         "10 30 42 33 14 05 06 18 38 46 45 34 13 02 10",
    "43 14 03 01 10 30 41 43 46 28"};

// The ends of each digit's strokes, [classes, most_strokes, 2, 2], from -0.5 to 0.5; the last is repeated.
Tensor stroke_table() {
  const Tensor table = zeros({classes, most_strokes, 2, 2});
  for (int64_t digit = 0; digit < classes; ++digit) {
    std::istringstream points(paths[digit]);
    std::string before, at;
    int64_t stroke = 0;
    for (points >> before; points >> at; before = at) {
      if (before == "|" || at == "|") continue;
      const Tensor ends = tensor<int>({{before[0] - '0', before[1] - '0'}, {at[0] - '0', at[1] - '0'}});
      table[{digit, Slice(stroke++, {})}] = ends / tensor<int>({4, 8}) - 0.5;
    }
  }
  return table;
}

// Each digit turned, sheared, stretched, moved and drawn with a pen of its own width, with noise: brightness falls off
// with the distance of a pixel from the nearest stroke.
Images draw_digits(int64_t count) {
  const Tensor table = stroke_table(), labels = randint(0, classes, count);
  Images all{empty({count, 1, size, size}), labels};
  const Tensor line = linspace(-0.5, 0.5, size);
  const Tensor pixels = stack({line.expand({size, size}), line.unsqueeze(1).expand({size, size})}, -1).view({-1, 1, 2});
  constexpr int64_t at_once = 256;
  for (int64_t first = 0; first < count; first += at_once) {
    const int64_t n = std::min(at_once, count - first);
    const Tensor turn = randn(n) * 0.15, shear = randn(n) * 0.15;
    const Tensor wide = 0.45 + 0.15 * rand(n), high = 0.6 + 0.15 * rand(n);
    const Tensor map = stack({wide * cos(turn), high * (shear - sin(turn)), wide * sin(turn), high * cos(turn)}, -1);
    const Tensor strokes = table.index_select(0, labels.narrow(0, first, n)).view({n, -1, 2});
    const Tensor moved = matmul(strokes, map.view({n, 2, 2}).transpose(1, 2)) + (rand({n, 1, 2}) - 0.5) * 0.15;
    const Tensor ends = moved.view({n, 1, most_strokes, 2, 2}), a = ends.select(3, 0);
    const Tensor along = ends.select(3, 1) - a, from = pixels - a;
    const Tensor share = clamp((from * along).sum(-1, true) / (along.square().sum(-1, true) + 1e-6), 0, 1);
    const Tensor distance = amin((from - share * along).square().sum(-1), -1).sqrt();
    const Tensor pen = 0.025 + 0.03 * rand({n, 1});
    const Tensor ink = sigmoid((pen - distance) * 80) + 0.05 * randn({n, size * size});
    all.pixels.narrow(0, first, n).copy_(clamp(ink, 0, 1).view({n, 1, size, size}));
  }
  return all;
}

// What a user of the command asked for wrongly is told without a line of C++.
const Location nowhere = Location::none();

// The part of a folder in the form in which MNIST is published.
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
      .title = "Test images by class and by what was read", .row_label = "class", .column_label = "read as"};
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
  manual_seed(o.seed);  // from here on every device draws the same
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
