#include <math.h>

/* Sums of what lies around the row's first value, which keeps their digits; in vectors. */
void layernorm(const float *restrict x, const float *restrict w, const float *restrict b, float *restrict y, long rows,
               long cols, float eps) {
    for (long r = 0; r < rows; r++, x += cols, y += cols) {
        float first = x[0], sum = 0, variance = 0;
#pragma omp simd reduction(+ : sum)
        for (long i = 0; i < cols; i++) sum += x[i] - first;
        float shift = sum / cols;
#pragma omp simd reduction(+ : variance)
        for (long i = 0; i < cols; i++) variance += (x[i] - first - shift) * (x[i] - first - shift);
        float part = 1 / sqrtf(variance / cols + eps);
        for (long i = 0; i < cols; i++) y[i] = (x[i] - first - shift) * part * w[i] + b[i];
    }
}
