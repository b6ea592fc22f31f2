// One process generates text, another displays it as it arrives; a generate::TokenQueue passes the tokens.
//   weft-token-server                 # both, by fork
//   weft-token-server show 3          # in one terminal
//   weft-token-server generate 3      # in another
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <weft/generate/checkpoint.hpp>
#include <weft/generate/generate.hpp>
#include <weft/generate/token_queue.hpp>
#include <weft/weft.hpp>

using namespace weft;

const std::string text = "a thread is spun, a thread is dyed, and on the loom they cross: that is the weft. ";

std::vector<int64_t> encode(const std::string& characters) { return {characters.begin(), characters.end()}; }

// A small byte-level model that has memorised one sentence.
nn::CausalLM trained_model(int64_t steps) {
  manual_seed(1);
  nn::CausalLM model({.vocabulary = 128, .width = 64, .layers = 2, .heads = 4, .context = 256});
  optim::AdamW optimizer(model.parameters(), {.lr = 3e-3});
  const Tensor tokens = tensor(encode(text + text)).unsqueeze(0);
  const int64_t length = tokens.size(1) - 1;
  for (int64_t i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    const Tensor logits = model(tokens.narrow(1, 0, length));
    cross_entropy(logits.flatten(0, 1), tokens.narrow(1, 1, length).flatten()).backward();
    optimizer.step();
  }
  return model;
}

int generate_into(int queue_id, int64_t steps) {
  const nn::CausalLM model = trained_model(steps);
  generate::TokenQueue queue(queue_id);
  generate::GenerateOptions options{.max_new_tokens = 72, .sampling = {.temperature = 0}};
  options.on_token = [&](const generate::TokenEvent& e) {
    queue.send(tensor({e.token}), e.finish.has_value());
    return true;
  };
  generate::generate(generate::language_model(model), {encode("a thread ")}, options);
  return 0;
}

int show(int queue_id) {
  generate::TokenQueue queue(queue_id, {.receive_seconds = 120});
  while (const auto message = queue.receive(true)) {
    for (const int64_t token : message->tokens.to_vector<int64_t>()) std::cout << static_cast<char>(token);
    std::cout.flush();
    if (!message->stop) continue;
    std::cout << "\n";
    return 0;
  }
  std::cerr << "no token came\n";
  return 1;
}

// Forks before any computation, because a child process does not inherit the threads of its parent.
int both(int queue_id, int64_t steps) {
  generate::TokenQueue::remove(queue_id);
  const pid_t shower = fork();
  if (shower < 0) return std::perror("fork"), 1;
  if (shower == 0) {
    int result = 1;
    try {
      result = show(queue_id);
    } catch (const std::exception& error) {
      std::cerr << error.what() << "\n";
    }
    std::_Exit(result);
  }
  int result = 1;
  try {
    result = generate_into(queue_id, steps);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
  }
  int status = 0;
  waitpid(shower, &status, 0);
  generate::TokenQueue::remove(queue_id);
  return result != 0 || !WIFEXITED(status) ? 1 : WEXITSTATUS(status);
}

int main(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "both";
  const int queue_id = argc > 2 ? std::atoi(argv[2]) : static_cast<int>(getpid());
  const int64_t steps = argc > 3 ? std::atoi(argv[3]) : 150;
  try {
    if (role == "generate") return generate_into(queue_id, steps);
    if (role == "show") return show(queue_id);
    if (role == "both") return both(queue_id, steps);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  std::cerr << "usage: weft-token-server [both|generate|show] [queue] [steps]\n";
  return 2;
}
