#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "content_hash.h"
#include "driver.h"

namespace weft::testing::ze {
namespace {

constexpr uint64_t mebibyte = 1u << 20;

std::atomic<bool> lost{false};

uint64_t number(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text && *text ? std::strtoull(text, nullptr, 10) : fallback;
}

std::string string(const char* name, const char* fallback) {
  const char* text = std::getenv(name);
  return text ? text : fallback;
}

// Native code from this translator with these builtins.
uint64_t version_of_translator() {
  std::string bytes;
  for (const char* path : {WEFT_ZE_DEFAULT_SPV2SO, WEFT_ZE_DEFAULT_BUILTINS}) {
    std::ifstream file(path, std::ios::binary);
    bytes.append(std::istreambuf_iterator<char>(file), {});
  }
  return std::stoull(content_hash(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()), nullptr, 16) >> 32;
}

// "1.9" as Level Zero counts versions.
uint32_t version(const char* name, const char* fallback) {
  const std::string text = string(name, fallback);
  const size_t dot = text.find('.');
  const auto part = [&](size_t at) { return static_cast<uint32_t>(std::strtoul(text.c_str() + at, nullptr, 10)); };
  return ZE_MAKE_VERSION(part(0), dot == std::string::npos ? 0 : part(dot + 1));
}

Config read_environment() {
  Config c;
  c.device_count = static_cast<uint32_t>(number("WEFT_ZE_DEVICES", 1));
  c.memory_bytes = number("WEFT_ZE_MEM_MB", 8192) * mebibyte;
  c.max_alloc_bytes = number("WEFT_ZE_MAX_ALLOC_MB", c.memory_bytes / mebibyte) * mebibyte;
  c.jitter_us = static_cast<uint32_t>(number("WEFT_ZE_JITTER_US", 0));
  c.lose_after = number("WEFT_ZE_LOSE_AFTER", 0);
  c.poison = number("WEFT_ZE_POISON", 0) != 0;
  c.strict = number("WEFT_ZE_STRICT", 1) != 0;
  c.peer_access = number("WEFT_ZE_PEER", 1) != 0;
  c.fill_pattern_bytes = number("WEFT_ZE_FILL_PATTERN", 128);
  c.queue_count = static_cast<uint32_t>(number("WEFT_ZE_QUEUES", 4));
  c.simd_width = static_cast<uint32_t>(number("WEFT_ZE_SIMD", 1));
  c.timestamp_bits = static_cast<uint32_t>(number("WEFT_ZE_TIMESTAMP_BITS", 32));
  c.log = number("WEFT_ZE_LOG", 0) != 0;
  c.sysman = number("ZES_ENABLE_SYSMAN", 0) != 0;
  c.cache_folder = string("WEFT_ZE_CACHE", WEFT_ZE_DEFAULT_CACHE);
  c.translator = string("WEFT_ZE_SPV2SO", WEFT_ZE_DEFAULT_SPV2SO);
  c.builtins = WEFT_ZE_DEFAULT_BUILTINS;
  c.driver_version = static_cast<uint32_t>(number("WEFT_ZE_DRIVER_VERSION", version_of_translator()));
  c.wrong = string("WEFT_ZE_WRONG", "");
  c.fails = string("WEFT_ZE_FAIL", "");
  c.api_version = version("WEFT_ZE_API", "1.4");
  return c;
}

void print(const char* format, va_list arguments) {
  char text[1024];
  std::vsnprintf(text, sizeof text, format, arguments);
  std::fprintf(stderr, "[weft-ze] %s\n", text);
}

}  // namespace

const Config& config() {
  static const Config* instance = new Config(read_environment());
  return *instance;
}

void report(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print(format, arguments);
  va_end(arguments);
}

void log(const char* format, ...) {
  if (!config().log) return;
  va_list arguments;
  va_start(arguments, format);
  print(format, arguments);
  va_end(arguments);
}

bool is_to_fail(const char* function) { return config().fails == function; }

void lose_device() { lost.store(true, std::memory_order_release); }

bool device_lost() { return lost.load(std::memory_order_acquire); }

}  // namespace weft::testing::ze
