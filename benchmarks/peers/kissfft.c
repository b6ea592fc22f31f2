/* The cases fft.complex64.* of ./weft bench in kissfft (Debian: libkissfft-dev):
 *
 *     cc -O3 benchmarks/peers/kissfft.c -o kissfft -lkissfft-float && taskset -c 0 ./kissfft
 */
#include <kissfft/kiss_fft.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(void) {
  const int sizes[][2] = {{1, 1 << 20}, {1000, 1024}, {1000, 1000}, {1, 1024}};
  for (int s = 0; s < 4; ++s) {
    const int lines = sizes[s][0], n = sizes[s][1];
    const size_t count = (size_t)lines * (size_t)n;
    kiss_fft_cfg plan = kiss_fft_alloc(n, 0, NULL, NULL);
    kiss_fft_cpx *in = calloc(count, sizeof *in), *out = calloc(count, sizeof *out);
    for (size_t i = 0; i < count; ++i) in[i].r = (float)(i % 7), in[i].i = (float)(i % 5);
    double times[31];
    for (int run = 0; run < 31; ++run) {
      const double begin = now();
      for (int l = 0; l < lines; ++l) kiss_fft(plan, in + (size_t)l * (size_t)n, out + (size_t)l * (size_t)n);
      times[run] = now() - begin;
    }
    qsort(times, 31, sizeof *times, by_size);
    printf("fft.complex64.%dx%d kissfft %.2f us\n", lines, n, times[15] * 1e6);
    free(in);
    free(out);
    free(plan);
  }
  return 0;
}
