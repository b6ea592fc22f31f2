// Oversized allocations fail under sanitizers, too. These exported functions set the sanitizers' options.
extern "C" {
[[gnu::visibility("default")]] const char* __asan_default_options() { return "allocator_may_return_null=1"; }
[[gnu::visibility("default")]] const char* __tsan_default_options() { return "allocator_may_return_null=1"; }
}
