#include "../detail/cut_search.hpp"

#include <algorithm>
#include <utility>

#include "../../tensor/dtype.hpp"
#include "../../tensor/memory_range.hpp"

namespace weft::detail {

namespace {

MemoryRange range_on_cpu(const View& view) {
  return view.layout.device_type == DeviceType::cpu ? range_of(view) : MemoryRange();
}

}  // namespace

std::string short_place(Location where) {
  const std::string text = where.text();
  return text.substr(text.rfind('/') + 1);
}

void CutSearch::Region::add(const Region& other) {
  const auto unite = [](std::vector<size_t>& cuts, const std::vector<size_t>& more) {
    for (const size_t cut : more) {
      if (std::ranges::find(cuts, cut) == cuts.end()) cuts.push_back(cut);
    }
  };
  live |= other.live;
  unite(behind, other.behind), unite(detached_by, other.detached_by);
}

bool CutSearch::is_held(size_t cut) const {
  return std::ranges::any_of(found_[cut].detached, [](const Tensor& t) { return t.impl()->refs.value() > 1; });
}

bool CutSearch::add_parameter(size_t index, const Tensor& parameter) {
  if (parameters_.size() >= most_parameters) return false;
  Region whole;
  whole.live = Sources{1} << parameters_.size();
  parameters_.push_back(index);
  put(parameter.raw_view(), whole);
  return true;
}

void CutSearch::add_unrecorded_output(const Tensor& output) {
  has_output_ = true;
  Region whole;
  whole.behind.push_back(found(Cut::Kind::unrecorded, "", Location::none(), Sources{1} << output_source));
  put(output.raw_view(), whole);
}

size_t CutSearch::found(Cut::Kind kind, const char* op, Location where, Sources sources) {
  const std::string place = short_place(where);
  const auto same = [&](const Found& f) { return f.kind == kind && f.op == op && f.place == place; };
  const auto known = std::ranges::find_if(found_, same);
  const auto number = static_cast<size_t>(known - found_.begin());
  if (known == found_.end()) found_.push_back({kind, op, place});
  found_[number].sources |= sources;
  return number;
}

CutSearch::Region CutSearch::at(const View& view) const {
  Region all;
  const MemoryRange range = range_on_cpu(view);
  if (range.begin == range.end) return all;
  auto region = regions_.upper_bound(range.begin);
  if (region != regions_.begin() && std::prev(region)->second.end > range.begin) --region;
  for (; region != regions_.end() && region->first < range.end; ++region) all.add(region->second);
  return all;
}

void CutSearch::split(const char* at) {
  auto region = regions_.lower_bound(at);
  if (region == regions_.begin() || (--region)->second.end <= at) return;
  Region rest = region->second;
  region->second.end = at;
  regions_.emplace(at, std::move(rest));
}

// A contiguous write replaces earlier regions there: memory is reused for other tensors.
void CutSearch::put(const View& view, const Region& region) {
  const MemoryRange range = range_on_cpu(view);
  if (range.begin == range.end) return;
  Region placed = region;
  if (view.layout.contiguous == 0) placed.add(at(view));
  split(range.begin), split(range.end);
  regions_.erase(regions_.lower_bound(range.begin), regions_.lower_bound(range.end));
  if (placed.live == 0 && placed.behind.empty() && placed.detached_by.empty()) return;
  placed.end = range.end;
  regions_.emplace(range.begin, std::move(placed));
}

void CutSearch::after(const KernelCall& call, bool program_records) {
  Region read;
  for (const View* input : call.inputs) read.add(at(*input));
  read_ |= read.live;
  // If the program has dropped a detached tensor, its memory may have been reused.
  for (const size_t cut : std::exchange(read.detached_by, {})) {
    if (is_held(cut)) read.add({.behind = {cut}});
  }
  const char* const op = call.op == nullptr ? "" : call.op;
  for (const size_t cut : read.behind) {
    if (found_[cut].readers.size() < 256) found_[cut].readers.insert(short_place(call.where));
  }
  for (const View* output : call.outputs) {
    Region written = read;
    const bool integers = !is_floating(output->layout.dtype);
    if (written.live != 0 && (!program_records || integers)) {
      const auto kind = program_records ? Cut::Kind::integers : Cut::Kind::unrecorded;
      written.behind.push_back(found(kind, op, call.where, std::exchange(written.live, 0)));
    }
    put(*output, written);
  }
}

void CutSearch::on_detach(const Tensor& x, const Tensor& result, const CallPlace& call) {
  const Region here = at(x.raw_view());
  if (here.live == 0) return;
  const auto kind = result.defined() ? Cut::Kind::detached : Cut::Kind::read;
  const size_t cut = found(kind, call.op, call.where, here.live);
  if (!result.defined()) return;
  found_[cut].detached.push_back(result);
  Region mark = here;
  mark.add({.detached_by = {cut}});
  put(x.raw_view(), mark);
}

// Chooses among the cuts that lead to the loss. An op that makes integers, such as for a mask, may be a side branch, so
// the last of these counts.
std::optional<size_t> CutSearch::best(Sources parameter, const std::set<std::string>& passed) const {
  std::optional<size_t> by_kind[5];
  for (size_t c = 0; c < found_.size(); ++c) {
    const Found& f = found_[c];
    if ((f.sources & parameter) == 0) continue;
    const bool goes_on = std::ranges::any_of(f.readers, [&](const auto& r) { return passed.contains(r); });
    auto& of_kind = by_kind[static_cast<int>(f.kind)];
    const bool counts = goes_on || f.kind == Cut::Kind::read;
    if (counts && (!of_kind || f.kind == Cut::Kind::integers)) of_kind = c;
  }
  for (const auto kind : {Cut::Kind::detached, Cut::Kind::unrecorded, Cut::Kind::integers, Cut::Kind::read}) {
    if (by_kind[static_cast<int>(kind)]) return by_kind[static_cast<int>(kind)];
  }
  return {};
}

std::vector<Cut> CutSearch::cuts(const std::set<std::string>& passed) const {
  std::vector<Cut> out;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Sources bit = Sources{1} << i;
    if (const auto cut = best(bit, passed)) {
      out.push_back({parameters_[i], found_[*cut].kind, found_[*cut].op, found_[*cut].place});
    } else if ((read_ & bit) == 0) {
      out.push_back({.index = parameters_[i], .kind = Cut::Kind::unused});
    }
  }
  return out;
}

bool CutSearch::unrecorded_output_was_used(const std::set<std::string>& passed) const {
  return std::ranges::any_of(found_, [&](const Found& f) {
    if (f.kind != Cut::Kind::unrecorded || !f.op.empty()) return false;
    return std::ranges::any_of(f.readers, [&](const auto& r) { return passed.contains(r); });
  });
}

}  // namespace weft::detail
