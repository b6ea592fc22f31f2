// Every op on arguments that it must refuse, made from the sample calls of its record: record_errors.txt has the
// expected types and texts, and no argument may change. WEFT_TEST_WRITE_ERRORS=1 rewrites that file.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include <weft/backends/backend.hpp>

#include "samples.hpp"

namespace weft::testing {
namespace {

const std::filesystem::path listing = WEFT_SOURCE_DIR "/tests/ops/record_errors.txt";

struct BadCall {
  std::string what;
  Values values;
};

bool is_on_cpu(const Tensor& t) { return t.defined() && t.device().is_cpu(); }
bool is_tensor(const Value& v) { return std::holds_alternative<Tensor>(v) && std::get<Tensor>(v).defined(); }
bool is_list(const Value& v) { return std::holds_alternative<Tensors>(v) && !std::get<Tensors>(v).empty(); }

// Every call differs from the sample in one argument.
std::vector<BadCall> bad_calls(const OpRecord& record, const Values& sample) {
  std::vector<BadCall> calls;
  const std::vector<Argument>& arguments = record.signature().arguments;
  for (size_t i = 0; i < sample.size(); ++i) {
    const auto with = [&](const std::string& what, Value v) {
      Values values = sample;
      values[i] = std::move(v);
      calls.push_back({arguments[i].name + " " + what, std::move(values)});
    };
    if (is_tensor(sample[i])) {
      const Tensor& t = std::get<Tensor>(sample[i]);
      with("is undefined", Tensor());
      with("is bool", zeros(t.shape(), DType::boolean));
      with("is i64", zeros(t.shape(), DType::i64));
      with("has other sizes", zeros({7, 5, 3}, t.dtype()));
      with("has no dimension", zeros({}, t.dtype()));
      with("is on meta", t.to(Device("meta")));
      with("is text", "nothing");
    } else if (is_list(sample[i])) {
      with("is an empty list", Tensors());
      with("has an undefined tensor", Tensors{std::get<Tensors>(sample[i])[0], Tensor()});
    } else if (std::holds_alternative<int64_t>(sample[i])) {
      with("is 99", int64_t{99});
      with("is -99", int64_t{-99});
      with("is 0", int64_t{0});
    } else if (std::holds_alternative<double>(sample[i])) {
      with("is -99.5", -99.5);
      with("is NaN", std::nan(""));
    } else if (std::holds_alternative<Dims>(sample[i])) {
      with("is [9, 9, 9]", Dims{9, 9, 9});
      with("is [-3]", Dims{-3});
    } else if (std::holds_alternative<std::string>(sample[i])) {
      with("is an unknown word", "no such word");
    }
  }
  return calls;
}

std::string type_of(const Error& e) {
  const std::string text = typeid(e).name();
  for (const char* name :
       {"ShapeError", "DTypeError", "DeviceError", "ValueError", "IndexError", "AutogradError", "NotImplementedError",
        "OutOfMemoryError", "ZeroDivisionError", "LinAlgError", "BadArgument"}) {
    if (text.find(name) != std::string::npos) return name;
  }
  return text;
}

// The error's lines as one, without the place of the call.
std::string told(const std::string& text) {
  std::istringstream lines(text);
  std::string line, all;
  while (std::getline(lines, line)) {
    if (const size_t at = line.find(" at "); at != std::string::npos && line.find(".cpp:") != std::string::npos) {
      line.resize(at);
    }
    all += (all.empty() ? "" : " | ") + line;
  }
  return all;
}

std::string answer(const OpRecord& record, const Values& values) {
  try {
    record.call(values);
    return "";
  } catch (const Error& e) {
    return type_of(e) + ": " + told(e.what());
  } catch (const BadArgument&) {
    return "BadArgument";
  }
}

std::vector<std::string> answers_of(const OpRecord& record) {
  const RngForkGuard guard;
  std::vector<std::string> lines;
  std::set<std::string> seen;
  SampleMaker make(DType::f32, {});
  for (const Values& sample : record.samples(make)) {
    for (const BadCall& bad : bad_calls(record, sample)) {
      if (seen.contains(bad.what)) continue;
      Tensors before;
      for (const Tensor& t : tensors_in(bad.values)) before.push_back(is_on_cpu(t) ? t.clone() : t);
      const std::string said = answer(record, bad.values);
      if (said.empty()) continue;  // that is a call like any other
      seen.insert(bad.what);
      EXPECT_EQ(said.find("[op]"), std::string::npos) << bad.what << " names no op: " << said;
      if (said == "BadArgument" || said.find("the tensor is undefined") != std::string::npos) continue;
      lines.push_back(bad.what + ": " + said);
      const Tensors after = tensors_in(bad.values);
      for (size_t i = 0; i < after.size(); ++i) {
        if (!is_on_cpu(after[i])) continue;
        EXPECT_TRUE(same(after[i], before[i])) << bad.what << " changed an argument";
      }
    }
  }
  return lines;
}

TEST(RecordErrors, AreTypedAndDescriptive) {
  std::ostringstream found;
  size_t count = 0;
  for (const OpRecord& record : op_records()) {
    SCOPED_TRACE(record.name);
    found << record.name << '\n';
    for (const std::string& line : answers_of(record)) {
      found << "  " << line << '\n';
      ++count;
    }
  }
  EXPECT_GT(count, 1000u);
  if (std::getenv("WEFT_TEST_WRITE_ERRORS") != nullptr) std::ofstream(listing) << found.str();
  std::istringstream now(found.str());
  std::ifstream file(listing);
  std::string line, wanted, op;
  int different = 0;
  while (std::getline(now, line)) {
    std::getline(file, wanted);
    if (!line.starts_with(' ')) op = line;
    if (line != wanted && ++different <= 5) ADD_FAILURE() << op << "\n  now:  " << line << "\n  was:  " << wanted;
  }
  EXPECT_EQ(different, 0) << "after a change on purpose: WEFT_TEST_WRITE_ERRORS=1, and read the difference";
  EXPECT_FALSE(std::getline(file, wanted)) << "the file has more lines: " << wanted;
}

}  // namespace
}  // namespace weft::testing
