// Read anew for each number type: which rows and kernels it has. WEFT_WHOLE says that it is an integer.
#undef WEFT_NUMBERS_floats
#undef WEFT_NUMBERS_any
#undef WEFT_KIND_floating
#undef WEFT_KIND_numeric
#undef WEFT_KIND_division
#undef WEFT_KIND_counting
#undef WEFT_KIND_any
#undef WEFT_KIND_integers
#undef WEFT_KIND_bits
// clang-format off
#if defined(WEFT_WHOLE)
#define WEFT_NUMBERS_floats(...)
#define WEFT_KIND_floating(...)  // integers are computed in float32
#define WEFT_KIND_integers(...) __VA_ARGS__
#else
#define WEFT_NUMBERS_floats(...) __VA_ARGS__
#define WEFT_KIND_floating(...) __VA_ARGS__
#define WEFT_KIND_integers(...)
#endif
#define WEFT_NUMBERS_any(...) __VA_ARGS__
#define WEFT_KIND_numeric(...) __VA_ARGS__
#define WEFT_KIND_division(...) __VA_ARGS__
#define WEFT_KIND_counting(...) __VA_ARGS__
#define WEFT_KIND_any(...) __VA_ARGS__
#define WEFT_KIND_bits(...) WEFT_KIND_integers(__VA_ARGS__)
// clang-format on

// After a file of kernels: one that it names and that is not there does not compile.
#undef WEFT_IS_THERE
#define WEFT_IS_THERE(name, numbers) WEFT_NUMBERS_##numbers(using weft::portable::WEFT_NAMED(name);)
