// Fine-tunes a small language model with LoRA: a decoder is trained on the characters of a text, then only adapters are
// trained to answer questions. Only answers count in the loss; the base model stays bit for bit the same.
#include <filesystem>
#include <iostream>
#include <stdexcept>

#include <CLI/CLI.hpp>
#include <weft/io/adapter.hpp>
#include <weft/io/model.hpp>
#include <weft/weft.hpp>

using namespace weft;

constexpr int64_t context = 32, width = 48, batch = 16, ignored = -100;

struct Decoder : nn::Layer<Decoder> {
  nn::Embedding token, position;
  nn::Sequential blocks;
  nn::LayerNorm norm;
  nn::Linear head;

  explicit Decoder(int64_t vocabulary)
      : token(vocabulary, width, {}, 0.1),
        position(context, width, {}, 0.1),
        norm(width),
        head(width, vocabulary, false) {
    for (int i = 0; i < 2; ++i) blocks.append(nn::TransformerBlock(width, 4));
    WEFT_REGISTER(token, position, blocks, norm, head);
    set_config({{"vocabulary", vocabulary}});
  }

  // tokens [batch, length] -> logits [batch, length, vocabulary]
  Tensor forward(const Tensor& tokens) const {
    return head(norm(blocks(token(tokens) + position(arange(0, tokens.size(1), 1, {i64, tokens.device()})))));
  }
};

// A question and its answer: the letters of a word, reversed. A line of training text is "abc>cba."
struct Task {
  std::string prompt, answer;
};
Task draw_task(Generator& generator) {
  std::string word;
  for (const int64_t letter : randint(0, 6, {4}, {}, &generator).to_vector<int64_t>()) {
    word += static_cast<char>('a' + letter);
  }
  return {word + ">", std::string(word.rbegin(), word.rend()) + "."};
}

// Tokens, and for each the next token as its label. Labels within the prompt are masked.
std::pair<Tensor, Tensor> draw_batch(const io::Vocabulary& vocabulary, Generator& generator) {
  std::vector<Tensor> tokens, labels;
  for (int64_t i = 0; i < batch; ++i) {
    const Task task = draw_task(generator);
    const Tensor all = vocabulary.encode(task.prompt + task.answer);
    const Tensor label = all.slice(0, 1).clone();
    label[Slice(0, std::ssize(task.prompt) - 1)] = ignored;
    tokens.push_back(all.slice(0, 0, -1));
    labels.push_back(label);
  }
  return {stack(tokens), stack(labels)};
}

double train_step(const Decoder& model, optim::Optimizer& optimizer, const Tensor& tokens, const Tensor& labels) {
  optimizer.zero_grad();
  const Tensor loss = cross_entropy(model(tokens).flatten(0, 1), labels.flatten(), {.ignore_index = ignored});
  loss.backward();
  optimizer.step();
  return loss.item<double>();
}

// Greedy decoding, until "." or the end of the context.
std::string answer(const Decoder& model, const io::Vocabulary& vocabulary, const std::string& prompt) {
  const NoGradGuard unrecorded;
  std::string text = prompt;
  while (!text.ends_with('.') && std::ssize(text) < context / 2) {
    const Tensor logits = model(vocabulary.encode(text).unsqueeze(0))[{0, -1}];
    text += vocabulary.decode(logits.argmax().unsqueeze(0));
  }
  return text.substr(prompt.size());
}

std::map<std::string, Tensor> values_of(const nn::Module& model) {
  std::map<std::string, Tensor> out;
  for (const auto& [name, tensor] : model.state_dict()) out.emplace(name, tensor.clone());
  return out;
}

// Names of tensors with other bits than before, ignoring whether adapters are merged.
std::vector<std::string> changed(const nn::Module& model, const std::map<std::string, Tensor>& before) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : model.state_dict()) {
    if (!equal(tensor, before.at(name)) && !name.ends_with("lora_merged")) names.push_back(name);
  }
  return names;
}

struct Options {
  int64_t base_steps = 200, steps = 400, rank = 8;
  double lr = 5e-3, plus = 4;
  std::string base, out = "runs/finetune";
  uint64_t seed = 1;
};

// Trains a base model on words of these letters; a real program would load one.
Decoder base_model(const Options& o, const io::Vocabulary& vocabulary, Generator& generator) {
  Decoder model(vocabulary.size());
  nn::ModuleRegistry registry = nn::ModuleRegistry::standard();
  registry.add<Decoder>("Decoder", [](const nn::Config& c) { return Decoder(c.get<int64_t>("vocabulary")); });
  if (!o.base.empty() && std::filesystem::exists(o.base)) {
    return io::load_model(o.base, {.registry = registry}).as<Decoder>();
  }
  optim::AdamW optimizer(model.parameters(), {.lr = 3e-3});
  double loss = 0;
  for (int64_t step = 0; step < o.base_steps; ++step) {
    std::vector<Tensor> lines;
    for (int64_t i = 0; i < batch; ++i) {
      const std::string word = draw_task(generator).prompt.substr(0, 4);
      lines.push_back(vocabulary.encode(word + ">" + word + "."));
    }
    const Tensor all = stack(lines);
    loss = train_step(model, optimizer, all.slice(1, 0, -1), all.slice(1, 1).contiguous());
  }
  std::cout << "base model: " << model.parameter_count() << " parameters, loss " << loss << std::endl;
  if (!o.base.empty()) io::save_model(o.base, model, {.registry = registry});
  return model;
}

void run(const Options& o) {
  manual_seed(o.seed);
  Generator generator(o.seed);
  const io::Vocabulary vocabulary("abcdef>.");
  Decoder model = base_model(o, vocabulary, generator);
  const Decoder untouched = model.clone();

  const auto names = nn::apply_lora(model, {.r = o.rank,
                                            .alpha = 2. * static_cast<double>(o.rank),
                                            .lora_plus_scale = o.plus,
                                            .targets = {"attention\\.(qkv|proj)$", "up$", "down$"}});
  nn::mark_only_lora_trainable(model);
  int64_t trained = 0;
  for (const Tensor& p : nn::lora_parameters(model)) trained += p.numel();
  std::cout << names.size() << " layers adapted, " << trained << " parameters to train" << std::endl;

  const auto before = values_of(model);
  const auto groups = nn::lora_parameter_groups(model, o.lr);
  optim::AdamW optimizer(groups[0].parameters, {.lr = groups[0].lr, .weight_decay = 0});
  for (size_t i = 1; i < groups.size(); ++i) optimizer.add_group(groups[i].parameters, {.lr = groups[i].lr});
  double first = 0, loss = 0;
  for (int64_t step = 0; step < o.steps; ++step) {
    const auto [tokens, labels] = draw_batch(vocabulary, generator);
    loss = train_step(model, optimizer, tokens, labels);
    if (step == 0) first = loss;
    if (step % 50 == 0 || step + 1 == o.steps) std::cout << "step " << step << "  loss " << loss << std::endl;
  }
  if (o.steps > 0 && loss >= first) throw std::runtime_error("the loss did not fall");
  for (const std::string& name : changed(model, before)) {
    if (!name.ends_with("lora_A.weight") && !name.ends_with("lora_B.weight")) {
      throw std::runtime_error(name + " is no adapter, and changed");
    }
  }

  std::filesystem::create_directories(o.out);
  io::save_adapter(o.out + "/adapter", model, {.base = o.base});
  Decoder loaded = untouched.clone();
  io::load_adapter(o.out + "/adapter", loaded);
  loaded.eval();
  nn::merge_lora(loaded);
  std::cout << "adapter saved in " << o.out << "/adapter; with it the model answers\n";
  for (int i = 0; i < 4; ++i) {
    const Task task = draw_task(generator);
    std::cout << "  " << task.prompt << answer(loaded, vocabulary, task.prompt)
              << "   without: " << answer(untouched, vocabulary, task.prompt) << std::endl;
  }
  nn::unmerge_lora(loaded);
  if (!changed(loaded, values_of(model)).empty()) {
    throw std::runtime_error("the loaded adapter is not the one that was saved");
  }
}

int main(int argc, char** argv) {
  Options o;
  CLI::App app("Fine-tunes a small decoder by LoRA: it learns to answer with a word's letters backwards.",
               "weft train finetune");
  app.add_option("--base-steps", o.base_steps, "steps of the base model")->capture_default_str();
  app.add_option("--steps", o.steps, "steps of the adapters")->capture_default_str();
  app.add_option("--rank", o.rank, "of the adapters")->capture_default_str();
  app.add_option("--lr", o.lr, "learning rate of A")->capture_default_str();
  app.add_option("--plus", o.plus, "B's rate is so many times that")->capture_default_str();
  app.add_option("--base", o.base, "folder of the base model: read where it is there, else trained and written");
  app.add_option("--out", o.out, "folder for the adapter")->capture_default_str();
  app.add_option("--seed", o.seed, "of weights and tasks")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    run(o);
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
