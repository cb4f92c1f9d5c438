/* How fast this processor computes: fused multiply-adds on enough independent vectors to hide their latency. */
#include <string.h>

enum { LANES = 16, VECTORS = 12 };
typedef float vector __attribute__((vector_size(4 * LANES)));

/* n is VECTORS x LANES. */
void multiply(const float *restrict x, float *restrict y, long n, long times) {
    vector sums[VECTORS], a = {0}, b = {0};
    memcpy(sums, x, sizeof sums);
    a += x[0], b += x[n - 1];
    for (long t = 0; t < times; t++)
#pragma GCC unroll 12
        for (int v = 0; v < VECTORS; v++) sums[v] = sums[v] * a + b;
    memcpy(y, sums, sizeof sums);
}
