// One case per op record, `op.NAME`: the first sample's arguments in f32 on the CPU, forward only. A new op gets its
// case from its record.
#include <algorithm>

#include <weft/ops/record.hpp>

#include "case.hpp"

namespace weft::bench {

namespace {

// Fills in default arguments beforehand, so that only the call is timed.
Values completed(const OpRecord& record, Values values) {
  const std::vector<Argument>& arguments = record.signature().arguments;
  values.resize(std::max(values.size(), arguments.size()));
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (std::holds_alternative<std::monostate>(values[i])) values[i] = arguments[i].default_value;
  }
  return values;
}

}  // namespace

void add_record_cases() {
  for (const OpRecord& record : op_records()) {
    SampleMaker maker(f32, {});
    const auto samples = record.samples(maker);
    if (samples.empty()) continue;
    add_case(
        std::string("op.") + record.name,
        [call = record.function, arguments = completed(record, samples.front())] {
          benchmark::DoNotOptimize(call(arguments));
        },
        Mode::no_grad);
  }
}

}  // namespace weft::bench
