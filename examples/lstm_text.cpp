// Trains a character-level LSTM on a text, and prints a sample.
#include <iostream>

#include <CLI/CLI.hpp>
#include <weft/weft.hpp>

using namespace weft;

struct CharLstm : nn::Layer<CharLstm> {
  nn::Embedding embedding;
  nn::LSTM lstm;
  nn::Linear head;

  CharLstm(int64_t vocabulary, int64_t width)
      : embedding(vocabulary, 64), lstm(64, width, {.num_layers = 2, .batch_first = true}), head(width, vocabulary) {
    WEFT_REGISTER(embedding, lstm, head);
  }
  struct Result {
    Tensor logits;  // [batch, length, vocabulary]
    LstmState state;
  };
  // tokens [batch, length], and the LSTM state after the preceding text
  Result forward(const Tensor& tokens, const LstmState& state) const {
    const nn::LSTMResult r = lstm(embedding(tokens), state);
    return {head(r.output), {r.hidden, r.cell}};
  }
};

Tensor loss_of(const CharLstm& model, const data::TokenSample& batch) {
  const Tensor logits = model.forward(batch.inputs, {}).logits;
  return cross_entropy(logits.flatten(0, 1), batch.targets.flatten());
}

double evaluate(const CharLstm& model, const data::TextLoader& loader) {
  const NoGradGuard no_grad;
  double sum = 0;
  for (int64_t i = 0; i < 4; ++i) sum += loss_of(model, loader.batch(i)).item<double>();
  return sum / 4;
}

// Generates one character at a time, drawn from softmax(logits / temperature). Only the LSTM state is kept between
// steps.
std::string write(const CharLstm& model, const io::Vocabulary& vocabulary, int64_t length) {
  const NoGradGuard no_grad;
  std::vector<int64_t> tokens = {0};
  LstmState state;
  while (std::ssize(tokens) <= length) {
    auto [logits, next] = model.forward(tensor({tokens.back()}).view({1, 1}), state);
    state = next;
    tokens.push_back(multinomial(softmax(logits.view({-1}) / 0.7, 0), 1).item<int64_t>());
  }
  return vocabulary.decode(tensor(tokens).slice(0, 1));
}

struct Options {
  std::string data = WEFT_EXAMPLE_DATA "/corpus.txt", out = "runs/lstm";
  int64_t steps = 400, batch = 32, context = 64, width = 256, length = 300;
  double lr = 3e-3, worst = 1e9;
  uint64_t seed = 1;
};

// Trains the model. Returns whether the final validation loss is low enough.
bool run(const Options& o) {
  manual_seed(o.seed);
  const std::string text = io::read_text(o.data);
  const io::Vocabulary vocabulary(text);
  const auto [training, validation] = io::split_tail(vocabulary.encode(text), 0.1);
  const data::TextLoader train_loader(training, o.batch, o.context, o.seed), val_loader(validation, o.batch, o.context);

  CharLstm model(vocabulary.size(), o.width);
  std::cout << model << "\n" << model.parameter_count() << " parameters" << std::endl;
  optim::AdamW optimizer(model.parameters(), {.lr = o.lr});
  optim::Scheduler rates(optimizer,
                         optim::warmup_cosine({.lr = o.lr, .warmup = 20, .steps = o.steps, .minimum = 1e-5}));
  io::RunLog log(o.out, 0, o.steps);
  double reached = 0;
  for (int64_t step = 0; step < o.steps; ++step) {
    optimizer.zero_grad();
    const Tensor loss = loss_of(model, train_loader.batch(step));
    loss.backward();
    optim::clip_grad_norm_(model.parameters(), 1.0);
    optimizer.step();
    rates.step();
    io::Figures figures = {{"train_loss", loss.item<double>()}};
    if ((step + 1) % 50 == 0 || step + 1 == o.steps)
      figures.emplace_back("val_loss", reached = evaluate(model, val_loader));
    log.record(step + 1, figures);
  }
  log.finish({.title = "Character LSTM", .x_label = "step", .y_label = "cross entropy per character"});
  std::cout << "---- sample ----\n" << write(model, vocabulary, o.length) << std::endl;
  return reached <= o.worst;
}

int main(int argc, char** argv) {
  Options o;
  CLI::App app("Trains a character LSTM and prints a sample of its text.");
  app.add_option("--data", o.data, "text file to learn, instead of Weft's own sources");
  app.add_option("--steps", o.steps)->capture_default_str()->check(CLI::Range(1, 10000000));
  app.add_option("--batch", o.batch)->capture_default_str()->check(CLI::Range(1, 100000));
  app.add_option("--context", o.context, "characters of a window")->capture_default_str()->check(CLI::Range(1, 100000));
  app.add_option("--width", o.width, "of the hidden state")->capture_default_str()->check(CLI::Range(1, 100000));
  app.add_option("--lr", o.lr, "learning rate")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--length", o.length, "characters of the sample")->capture_default_str();
  app.add_option("--worst", o.worst, "the status is 1 where the last loss is above it");
  app.add_option("--seed", o.seed)->capture_default_str();
  app.add_option("--out", o.out, "folder for the losses")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return run(o) ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
