// What memory cannot hold is refused under sanitizers, too. They look for these functions among what a program exports.
extern "C" {
[[gnu::visibility("default")]] const char* __asan_default_options() { return "allocator_may_return_null=1"; }
[[gnu::visibility("default")]] const char* __tsan_default_options() { return "allocator_may_return_null=1"; }
}
