// `./weft page` and `./weft explain`: write the page, the text or the suspects of logged runs.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <langinfo.h>
#include <weft/weft.hpp>

using namespace weft;

namespace {

int columns_of_terminal() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 100;
}

bool terminal_draws_blocks() {
  std::setlocale(LC_CTYPE, "");
  return std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

std::string without_end(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

/// The name of a run: that of its folder or log file.
std::string title_of(const std::string& path) {
  const std::string whole = without_end(path);
  return whole.substr(whole.rfind('/') + 1);
}

bool is_log(const std::string& path) { return path.ends_with(".jsonl"); }

/// The default path of a page: in the run's folder, or beside the log.
std::string beside(const std::string& path, const std::string& name) {
  if (!is_log(path)) return without_end(path) + "/" + name;
  const size_t slash = path.rfind('/');
  return slash == path.npos ? name : path.substr(0, slash + 1) + name;
}

std::string page_of(const std::string& path) {
  const bool is_ours = !is_log(path) || title_of(path) == "gradients.jsonl";
  return is_ours ? beside(path, "gradients.html") : path.substr(0, path.size() - 6) + ".html";
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> runs;
  std::string out;
  bool as_text = false, suspects_alone = false, ascii = !terminal_draws_blocks();
  int columns = columns_of_terminal();
  size_t rows = 40;
  CLI::App app("Shows the gradients of a run, or of two beside each other.", "weft page");
  app.add_option("run", runs, "a folder with gradients.jsonl, or such a file")->required()->expected(1, 2);
  app.add_flag("--text", as_text, "prints the report instead of writing a page");
  app.add_flag("--suspects", suspects_alone, "prints only the suspects; status 1 if there are any");
  app.add_option("--out", out, "the page's file (gradients.html in the run's folder, comparison.html for two runs)");
  app.add_option("--columns", columns, "width of the text (the terminal's)");
  app.add_option("--rows", rows, "parameters and activations in the text, 0 for all")->capture_default_str();
  app.add_flag("--ascii", ascii, "draws the text with letters alone");
  CLI11_PARSE(app, argc, argv);

  try {
    std::vector<History> histories;
    for (const std::string& run : runs) histories.push_back(io::load_history(run));
    if (suspects_alone) {
      bool any = false;
      for (size_t i = 0; i < runs.size(); ++i) {
        const std::vector<Suspect> suspects = find_suspects(histories[i]);
        any |= !suspects.empty();
        if (runs.size() > 1) std::printf("%s\n", title_of(runs[i]).c_str());
        std::fputs(suspects.empty() ? "no suspects\n" : suspects_text(suspects, columns).c_str(), stdout);
      }
      return any ? 1 : 0;
    }
    if (as_text) {
      for (size_t i = 0; i < runs.size(); ++i) {
        const ReportTextOptions options{.columns = columns, .rows = rows, .ascii = ascii};
        std::printf("%s%s", i == 0 ? "" : "\n", report_text(histories[i], title_of(runs[i]), options).c_str());
      }
      return 0;
    }
    if (out.empty()) out = runs.size() == 1 ? page_of(runs[0]) : beside(runs[0], "comparison.html");
    const std::string page =
        runs.size() == 1 ? report_html(histories[0], title_of(runs[0]))
                         : comparison_html({title_of(runs[0]), histories[0]}, {title_of(runs[1]), histories[1]});
    io::write_file(out, page, "page");
    std::printf("%s\n", out.c_str());
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
