// The HTML page of a run; its style, body and script are run_page.css, .html and .js.
#include <fmt/format.h>

#include <weft_embedded/run_page.hpp>

#include "../../hooks/detail/page_frame.hpp"
#include "../../io/json/json_tree-inl.hpp"
#include "../run_folder.hpp"

namespace weft::train {

namespace {

// Escapes '<', which could end the surrounding element.
std::string escape_less_than(const std::string& json) {
  std::string out;
  for (const char c : json) {
    if (c == '<') out += "\\u003c";
    else out += c;
  }
  return out;
}

// Checks the fields that the script reads of each displayed run.
void check_run(const io::JsonTree& tree, Location where) {
  const io::JsonNode run(tree, "run_page", where);
  for (const char* name : {"title", "folder", "state"}) (void)run.at(name).text();
  for (const char* name : {"started", "written", "every", "step", "last", "spent"}) (void)run.at(name).number();
  run.at("figures").each([](const io::JsonNode& figure) {
    (void)figure.at("name").text();
    size_t points = 0;
    figure.at("points").each([&](const io::JsonNode& point) {
      std::vector<double> numbers;
      point.each([&](const io::JsonNode& n) { numbers.push_back(n.number()); });
      if (numbers.size() != 2) point.fail("it is no pair of step and value");
      ++points;
    });
    if (points == 0) figure.fail("it has no points");
  });
  for (const char* name : {"samples", "checkpoints"})
    run.at(name).each([](const io::JsonNode& p) { (void)p.object(); });
  for (const char* name : {"machine", "config"}) (void)run.at(name).object();
}

}  // namespace

std::string run_page(const std::string& run, const std::vector<std::string>& others, Location where) {
  const io::JsonTree own = io::parse_json(run, "run_page", where);
  check_run(own, where);
  std::string runs = escape_less_than(run);
  for (const std::string& other : others) {
    try {
      io::JsonTree tree = io::parse_json(other, "run_page", Location::none());
      check_run(tree, Location::none());
      // Only the curves of other runs are drawn.
      for (const char* name : {"samples", "checkpoints"}) tree[name] = io::JsonTree::list();
      runs += ",\n" + escape_less_than(io::json_text(tree, "run_page", Location::none()));
    } catch (const Error&) {  // not a run file
    }
  }
  const io::JsonTree* const title = own.find("title");
  return weft::detail::framed_page({title->text, weft::embedded::run_page_css, weft::embedded::run_page_html,
                                    fmt::format("{{\"runs\": [{}]}}", runs), weft::embedded::run_page_js});
}

}  // namespace weft::train
