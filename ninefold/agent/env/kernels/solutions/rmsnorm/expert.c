#include <math.h>

/* Four vectors of partial sums, so that no addition waits for the one before it. */
enum { LANES = 64 };

void rmsnorm(const float *restrict x, const float *restrict w, float *restrict y, long rows, long cols, float eps) {
    for (long r = 0; r < rows; r++, x += cols, y += cols) {
        float sums[LANES] = {0}, sum = 0;
        long i = 0;
        for (; i + LANES <= cols; i += LANES)
#pragma omp simd
            for (int l = 0; l < LANES; l++) sums[l] += x[i + l] * x[i + l];
#pragma omp simd reduction(+ : sum)
        for (long l = i; l < cols; l++) sum += x[l] * x[l];
#pragma omp simd reduction(+ : sum)
        for (int l = 0; l < LANES; l++) sum += sums[l];
        float part = 1 / sqrtf(sum / cols + eps);
        for (long l = 0; l < cols; l++) y[l] = x[l] * part * w[l];
    }
}
