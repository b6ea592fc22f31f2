// With the C++ library linked statically, the driver allocates by malloc and memalign only. A test that lets other
// functions fail so means Weft's requests, and none of the driver's.
#include <malloc.h>

#include <cstddef>
#include <cstdlib>
#include <new>

void* operator new(std::size_t bytes, std::align_val_t alignment) {
  if (void* memory = memalign(static_cast<std::size_t>(alignment), bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
