// Trains a small character-level GPT on a text, prints a sample, and writes the losses to a folder.
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <functional>
#include <iostream>
#include <optional>

#include <CLI/CLI.hpp>
#include <weft/generate/generate.hpp>
#include <weft/train/signals.hpp>

#include "char_gpt.hpp"

Tensor loss_of(const Gpt& model, const data::TokenSample& batch, bool mixed) {
  const AutocastGuard precision(AutocastOptions{.dtype = bf16, .enabled = mixed});
  return cross_entropy(model(batch.inputs).flatten(0, 1), batch.targets.flatten());
}

// The mean loss over the first batches of a loader, the same ones in every evaluation.
double evaluate(Gpt& model, const data::TextLoader& loader, Device device, bool mixed) {
  constexpr int64_t batches = 8;
  const NoGradGuard no_grad;
  model.eval();
  double sum = 0;
  for (int64_t i = 0; i < batches; ++i) sum += loss_of(model, loader.batch(i, device), mixed).item<double>();
  model.train();
  return sum / batches;
}

// Generates `length` characters after the first character of the vocabulary.
std::string sample(const Gpt& model, const io::Vocabulary& vocabulary, int64_t context, int64_t length, uint64_t seed,
                   Device device) {
  const generate::GenerateOptions options{.max_new_tokens = length, .sampling = {.temperature = 0.8}, .seed = seed};
  const auto made = generate::generate(language_model(model, context, vocabulary.size(), device), {{0}}, options);
  return vocabulary.decode(tensor(made[0].tokens));
}

struct Options {
  std::string preset = "small", device = "cpu", data = WEFT_EXAMPLE_DATA "/corpus.txt", save, resume, out;
  int64_t steps = -1, length = 400, save_every = 50, keep_last = 2;
  uint64_t seed = 1;
  int threads = 0;
  bool mixed = false, fp8 = false;
};

void tell_ignored(const CLI::App& app, const std::string& option, const std::string& why) {
  if (app.count(option) > 0) std::cerr << option << " is ignored: " << why << std::endl;
}

// Trains from `step` to `last`, or until a signal arrives. `reached` is called after every step.
void fit(Gpt& model, optim::AdamW& optimizer, const Config& config, const data::TextLoader& training,
         const data::TextLoader& validation, io::RunLog& log, int64_t step, int64_t last, Device device, bool mixed,
         const std::function<void(int64_t step, bool ended)>& reached) {
  for (bool ended = step >= last; !ended;) {
    const auto start = std::chrono::steady_clock::now();
    optimizer.set_lr(optim::warmup_inverse_sqrt(step, config.lr, 50));
    optimizer.zero_grad();
    const Tensor loss = loss_of(model, training.batch(step, device), mixed);
    loss.backward();
    optim::clip_grad_norm_(model.parameters(), 1.0);
    optimizer.step();
    io::StepMetrics metrics{.step = ++step, .train_loss = loss.item<double>()};
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    metrics.tokens_per_s = static_cast<double>(config.batch * config.context) / spent.count();
    const bool interrupted = train::EndBySignal::received() != 0;
    ended = step == last || interrupted;
    // Skips the evaluation after a signal, because the sender may not wait for long.
    if (!interrupted && (ended || step % 50 == 0)) metrics.val_loss = evaluate(model, validation, device, mixed);
    log.record(metrics);
    reached(step, ended);
  }
}

// Saves in the background every few steps, and waits for the last save when training ends.
class Keeper {
 public:
  Keeper(const Options& o, io::TrainingRun run, SavedRun saved)
      : folder_(o.save),
        every_(o.save_every),
        run_(std::move(run)),
        config_(saved.text()),
        batch_(presets.at(saved.preset).batch) {
    if (!folder_.empty()) saver_.emplace(folder_, io::SaveStateOptions{o.keep_last}, nowhere);
  }
  void reached(int64_t step, bool ended) {
    if (!saver_ || (!ended && step % every_ != 0)) return;
    tell_of_the_last();
    saver_->save(run_, {.step = step, .samples = step * batch_, .documents = {{"config", config_}}}, nowhere);
    saving_ = step;
    if (ended) tell_of_the_last(true);
  }

 private:
  void tell_of_the_last(bool ended = false) {
    try {
      saver_->wait();
      kept_ = saving_;
    } catch (const IoError& error) {
      std::cerr << "step " << saving_ << " was not saved; " << folder_
                << (kept_ < 0 ? " is as it was" : " is of step " + std::to_string(kept_)) << std::endl;
      if (ended) throw;
      std::cerr << error.what() << "\ntraining continues" << std::endl;
    }
  }

  std::string folder_;
  int64_t every_, saving_ = -1, kept_ = -1;
  io::TrainingRun run_;
  std::string config_;
  int64_t batch_;
  std::optional<io::BackgroundSaver> saver_;
};

void run(Options o, const CLI::App& app) {
  const Device device(o.device, nowhere);
  check_device(device, "train", nowhere);
  std::optional<SavedRun> saved;
  if (!o.resume.empty()) {
    saved = read_saved(o.resume);
    if (o.preset != saved->preset) tell_ignored(app, "--preset", o.resume + " is of preset " + saved->preset);
    if (o.seed != saved->seed) tell_ignored(app, "--seed", o.resume + " has seed " + std::to_string(saved->seed));
    o.preset = saved->preset, o.seed = saved->seed;
  }
  const Config config = presets.at(o.preset);
  const int64_t first = saved ? saved->step : 0, last = std::max(first, o.steps >= 0 ? o.steps : config.steps);
  if (first == last) {
    for (const char* option : {"--save", "--save-every", "--keep-last", "--out"})
      tell_ignored(app, option, "no step is left to train");
    if (saved) tell_ignored(app, "--data", "no step is left to train");
    if (o.steps > 0) tell_ignored(app, "--steps", o.resume + " has done " + std::to_string(first) + " of them");
  } else if (!o.save.empty()) {
    io::BackgroundSaver(o.save, {}, nowhere);  // fails early if the folder is not writable
  }
  if (o.threads > 0) set_num_threads(o.threads);
  manual_seed(o.seed);

  const auto vocabulary =
      saved ? io::Vocabulary::from_hex(saved->vocabulary, nowhere) : io::Vocabulary(io::read_text(o.data, {}, nowhere));
  Gpt model(config, vocabulary.size());
  model.to(device);
  if (o.fp8) nn::convert_to_fp8(model, {"^blocks"});
  optim::AdamW optimizer(model.parameters(), {.lr = config.lr, .beta2 = 0.99, .weight_decay = 0.1});
  if (saved) io::load_training_state(o.resume, {model, &optimizer}, {}, nowhere);
  const double guess = std::log(static_cast<double>(vocabulary.size()));

  if (first < last) {
    const std::string text = io::read_text(o.data, {}, nowhere);
    const auto [training, validation] = io::split_tail(vocabulary.encode(text, nowhere), 0.1);
    std::cout << model.parameter_count() << " parameters, " << training.numel() << " characters of "
              << vocabulary.size() << " kinds to learn from, on " << device.name() << std::endl;
    const data::TextLoader train_loader(training, config.batch, config.context, o.seed, nowhere);
    const data::TextLoader val_loader(validation, config.batch, config.context, o.seed, nowhere);
    io::RunLog log(o.out, first, last, nowhere);
    Keeper keeper(o, {model, &optimizer}, {o.preset, vocabulary.hex(), o.seed, first});
    {
      const train::EndBySignal signals;
      fit(model, optimizer, config, train_loader, val_loader, log, first, last, device, o.mixed || o.fp8,
          [&](int64_t step, bool ended) { keeper.reached(step, ended); });
    }
    log.finish(
        {"Character GPT, preset " + o.preset, "step", "cross entropy per character", guess, "guessing: ln(vocabulary)"},
        {}, nowhere);
    std::cout << "guessing would lose " << guess << "; losses and curve are in " << log.folder().string() << std::endl;
    if (!o.save.empty()) std::cout << "to sample from it again: ./weft train --resume " << o.save << " --steps 0\n";
    if (const int signal = train::EndBySignal::received(); signal != 0 && signal != SIGINT) {
      std::cout << "ended by signal " << signal << ": " << strsignal(signal) << std::endl;
      return;
    }
  }
  std::cout << "---- sample ----\n" << sample(model, vocabulary, config.context, o.length, o.seed, device) << std::endl;
}

// A validator for 64-bit integers with a minimum.
template <class T>
CLI::Validator whole_number(T least, const char* what) {
  const auto check = [least, what](const std::string& text) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool good = error == std::errc() && end == text.data() + text.size() && value >= least;
    return good ? std::string() : text + " is not " + what;
  };
  return CLI::Validator(check, "");
}

int main(int argc, char** argv) {
  Options o;
  CLI::App app("Trains a character GPT and prints a sample of its text.", "weft train");
  app.add_option("--preset", o.preset, "size of the model and the run")
      ->check(CLI::IsMember({"tiny", "small", "base"}))
      ->capture_default_str();
  app.add_option("--device", o.device, "cpu, hpu, cuda, or the kind of a plug-in that WEFT_PLUGINS names")
      ->capture_default_str();
  app.add_option("--data", o.data, "text file to learn, instead of Weft's own sources");
  app.add_option("--steps", o.steps, "steps in all; 0 only samples")
      ->check(whole_number<int64_t>(0, "a number of steps, 0 or more"));
  app.add_option("--seed", o.seed, "of the weights, the batches and the sample")
      ->check(whole_number<uint64_t>(0, "a seed, a whole number from 0 to 2^64 - 1"))
      ->capture_default_str();
  app.add_option("--threads", o.threads, "threads of one kernel; losses do not depend on them")
      ->check(whole_number<int>(1, "a number of threads, 1 or more"));
  app.add_flag("--mixed", o.mixed, "computes products in bfloat16, with weights in float32");
  app.add_flag("--fp8", o.fp8, "computes the blocks' linear layers in 8-bit floats, and other products in bfloat16");
  app.add_option("--save", o.save, "folder for states of the run, written in the background and once more at the end");
  app.add_option("--save-every", o.save_every, "steps from one state to the next")
      ->check(whole_number<int64_t>(1, "a number of steps, 1 or more"))
      ->capture_default_str();
  app.add_option("--keep-last", o.keep_last, "how many states stay; 0 keeps all")
      ->check(whole_number<int64_t>(0, "a number of states, 0 or more"))
      ->capture_default_str();
  app.add_option("--resume", o.resume, "folder that --save wrote, or one of its states; continues from the newest");
  app.add_option("--out", o.out, "folder for metrics.jsonl and curve.svg, instead of runs/<time>");
  app.add_option("--length", o.length, "characters of the sample")
      ->check(whole_number<int64_t>(0, "a number of characters, 0 or more"))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  std::signal(SIGXFSZ, SIG_IGN);  // report a file size limit as an error, like a full disk
  try {
    run(o, app);
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
