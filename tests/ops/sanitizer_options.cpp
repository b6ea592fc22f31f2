// What memory cannot hold throws under the address sanitizer, too.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
