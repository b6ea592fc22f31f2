// Damaged files in a run's folder and beside it: resuming there, and making its page, ends in a typed error or in a
// page with the usual markup. Names and texts are such that a browser would take for markup.
//
// usage: run_fuzz [--count N] [--seed N]
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include <weft/io/file.hpp>
#include <weft/train/run_folder.hpp>
#include <weft/weft.hpp>

#include "damage.hpp"
#include "fuzz.hpp"

namespace weft {
namespace {

constexpr std::string_view hostile[] = {"</script><script>alert(1)</script>",
                                        "<img src=x onerror=alert(1)>",
                                        "\"];//",
                                        "</title>",
                                        "<!--",
                                        "]]>",
                                        "\xE2\x80\xA8",
                                        "\xFF\xFE",
                                        "a,b\"c\nd"};
constexpr std::string_view usual = "{}[]\",:<>/\\&'0123456789.-eE\nnulltruefalse\0";

/// A folder, and another beside it, of which the files are replaced for each seed.
class Runs {
 public:
  Runs() {
    std::string name = (std::filesystem::temp_directory_path() / "weft-run-fuzz-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    above_ = name;
    std::filesystem::create_directory(own());
    std::filesystem::create_directory(other());
  }
  ~Runs() { std::filesystem::remove_all(above_); }
  std::filesystem::path own() const { return above_ / "own"; }
  std::filesystem::path other() const { return above_ / "other"; }

 private:
  std::filesystem::path above_;
};

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Some steps of a run; terminal output is discarded.
void train(const std::filesystem::path& folder, std::string_view name, int64_t first) {
  train::RunFolder run(folder.string(), {.title = std::string(name), .config = R"({"width": 64})", .page_every = 1e9});
  run.begin(first, first + 3);
  run.record(first + 1, {{"train_loss", 0.5}, {std::string(name), 1e9}}, {{"lr", 1e-3}});
  run.sample_text(first + 1, std::string(name), name);
  run.finish();
}

size_t marks(const std::string& page) { return static_cast<size_t>(std::ranges::count(page, '<')); }

class Fuzz {
 public:
  Fuzz() {
    train(runs_.own(), "plain", 0);
    for (const char* file : {"metrics.jsonl", "samples.jsonl", "run.json", "metrics.csv"}) {
      files_.emplace_back(file, read(runs_.own() / file));
    }
    plain_marks_ = marks(train::run_page(file("run.json")));
  }

  int once(uint64_t seed) {
    RandomDamage damage(seed);
    const auto changed = [&](std::string bytes) {
      return damage.changed(std::move(bytes), usual, 4, 40, [&](std::string& whole, size_t at) {
        whole.insert(at, hostile[damage.below(std::size(hostile))]);
      });
    };
    for (const auto& [name, whole] : files_) write(runs_.own() / name, changed(whole));
    write(runs_.other() / "run.json", changed(file("run.json")));
    std::string problem = page_of(changed(file("run.json")), changed(file("run.json")));
    if (problem.empty()) problem = goes_on(hostile[damage.below(std::size(hostile))], static_cast<int64_t>(seed % 3));
    return problem.empty() ? 0 : failed(seed, "run", problem);
  }
  uint64_t pages() const { return pages_; }

 private:
  const std::string& file(std::string_view name) const {
    return std::ranges::find(files_, name, &std::pair<std::string, std::string>::first)->second;
  }
  std::string markup_of(const std::string& page) const {
    // A longer run has more data, which has no '<'.
    return marks(page) == plain_marks_ ? "" : "markup came from a run's data";
  }
  std::string page_of(const std::string& run, const std::string& other) {
    try {
      const std::string page = train::run_page(run, {other});
      ++pages_;
      return markup_of(page);
    } catch (const Error& error) {
      return problem_of(error.what());
    }
  }
  std::string goes_on(std::string_view name, int64_t first) {
    try {
      train(runs_.own(), name, first);
    } catch (const Error& error) {
      return problem_of(error.what());
    }
    return markup_of(read(runs_.own() / "index.html"));
  }

  Runs runs_;
  std::vector<std::pair<std::string, std::string>> files_;
  size_t plain_marks_ = 0;
  uint64_t pages_ = 0;
};

int fuzz(uint64_t count, uint64_t first) {
  const int terminal = ::dup(STDOUT_FILENO);
  if (std::freopen("/dev/null", "w", stdout) == nullptr) return 2;
  Fuzz fuzz;
  int code = for_seeds(count, first, [&](uint64_t seed) {
    const int once = fuzz.once(seed);
    if (once != 0) std::fprintf(stderr, "run_fuzz --seed %llu --count 1\n", static_cast<unsigned long long>(seed));
    return once;
  });
  std::fflush(stdout);
  ::dup2(terminal, STDOUT_FILENO);
  std::printf("%llu folders, %llu pages of damaged runs\n", static_cast<unsigned long long>(count),
              static_cast<unsigned long long>(fuzz.pages()));
  if (code == 0 && count >= 1000 && (fuzz.pages() == 0 || fuzz.pages() == count)) code = 1;
  return code;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) { return weft::fuzz_main(argc, argv, 500, weft::fuzz); }
