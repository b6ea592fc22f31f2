#include "event_file.hpp"

#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "file.hpp"
#include "files/folder-inl.hpp"

namespace weft::io {

namespace {

static_assert(std::endian::native == std::endian::little, "records are written as they are in memory");

constexpr std::array<uint32_t, 256> crc_table = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    table[i] = crc;
  }
  return table;
}();

template <class T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

// ---- protocol buffers: a field is its number and wire type, then a varint, 4 or 8 bytes, or a length and bytes ----

std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}
enum Wire { wire_varint = 0, wire_64 = 1, wire_bytes = 2, wire_32 = 5 };
std::string key(uint32_t field, Wire wire) { return varint(field << 3 | wire); }
std::string field(uint32_t number, double value) { return key(number, wire_64) + raw(value); }
std::string field(uint32_t number, float value) { return key(number, wire_32) + raw(value); }
std::string field(uint32_t number, int64_t value) {
  return key(number, wire_varint) + varint(static_cast<uint64_t>(value));
}
std::string field(uint32_t number, const std::string& bytes) {
  return key(number, wire_bytes) + varint(bytes.size()) + bytes;
}
std::string field(uint32_t number, const std::vector<double>& packed) {
  return field(number, std::string(reinterpret_cast<const char*>(packed.data()), packed.size() * sizeof(double)));
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// message Event { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5; }
// message Summary { repeated Value value = 1; }
// message Value { string tag = 1; float simple_value = 2; HistogramProto histo = 5; }
std::string event(int64_t step, const std::string& tag, const std::string& value) {
  const std::string summary = field(1, field(1, tag) + value);
  return field(1, now()) + field(2, step) + field(5, summary);
}

// message HistogramProto { double min = 1, max = 2, num = 3, sum = 4, sum_squares = 5;
//                          repeated double bucket_limit = 6, bucket = 7; }, a limit being a bucket's upper end
std::string histogram_message(const Histogram& h, const Statistics& s) {
  std::vector<double> limits, counts;
  const auto add = [&](double limit, uint32_t count) {
    // Leading empty buckets are merged into one; its limit is the lower end of the first non-empty bucket.
    if (count == 0 && counts.size() == 1 && counts[0] == 0) limits[0] = limit;
    else limits.push_back(limit), counts.push_back(count);
  };
  for (int i = Histogram::bins - 1; i >= 0; --i) add(-std::ldexp(1, i + Histogram::lowest), h.negative[i]);
  add(std::ldexp(1, Histogram::lowest), h.zeros);
  for (int i = 0; i < Histogram::bins; ++i) add(std::ldexp(1, i + 1 + Histogram::lowest), h.positive[i]);
  while (counts.size() > 1 && counts.back() == 0) counts.pop_back(), limits.pop_back();
  const double finite = static_cast<double>(s.count - s.non_finite);
  return field(1, s.low) + field(2, s.high) + field(3, static_cast<double>(h.count() - h.non_finite)) +
         field(4, s.mean * finite) + field(5, s.norm * s.norm) + field(6, limits) + field(7, counts);
}

}  // namespace

uint32_t masked_crc32c(std::span<const char> bytes) {
  uint32_t crc = ~0u;
  for (char c : bytes) crc = crc >> 8 ^ crc_table[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return std::rotr(~crc, 15) + 0xa282ead8u;
}

EventFile::EventFile(const Path& folder, Location where) {
  make_folder(folder, "EventFile", where);
  path_ = folder / fmt::format("events.out.tfevents.{:.0f}.{}.weft", now() * 1e6, getpid());
  file_ = weft::detail::Pimpl(new GrowingFile(path_, "EventFile", where));
  append(field(1, now()) + field(3, std::string("brain.Event:2")), where);
  flush(where);
}

EventFile::~EventFile() = default;
EventFile::EventFile(EventFile&&) noexcept = default;

void EventFile::add_scalar(const std::string& tag, double value, int64_t step, Location where) {
  append(event(step, tag, field(2, static_cast<float>(value))), where);
}

void EventFile::histogram(const std::string& tag, int64_t step, const Histogram& bins, const Statistics& statistics,
                          Location where) {
  append(event(step, tag, field(5, histogram_message(bins, statistics))), where);
}

void EventFile::flush(Location where) { file_->flush(where); }

// Writes a TFRecord: length, its checksum, the bytes, their checksum.
void EventFile::append(const std::string& event, Location where) {
  constexpr size_t enough = size_t{1} << 16;
  const std::string length = raw<uint64_t>(event.size());
  file_->add(length + raw(masked_crc32c(length)) + event + raw(masked_crc32c(event)));
  if (file_->waiting() >= enough) file_->flush(where);
}

}  // namespace weft::io
