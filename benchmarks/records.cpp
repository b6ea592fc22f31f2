// One case per op record, `op.NAME`: the first sample's arguments in f32 on the CPU, forward only. A new op has its
// case by having a record.
#include <weft/ops/record.hpp>

#include "case.hpp"

namespace weft::bench {

void add_record_cases() {
  for (const OpRecord& record : op_records()) {
    SampleMaker maker(f32, {});
    const auto samples = record.samples(maker);
    if (samples.empty()) continue;
    add_case(
        std::string("op.") + record.name,
        [call = record.function, arguments = samples.front()] { benchmark::DoNotOptimize(call(arguments)); },
        Mode::no_grad);
  }
}

}  // namespace weft::bench
