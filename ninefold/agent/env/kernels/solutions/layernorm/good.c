#include <math.h>

void layernorm(const float *restrict x, const float *restrict w, const float *restrict b, float *restrict y, long rows,
               long cols, float eps) {
    for (long r = 0; r < rows; r++, x += cols, y += cols) {
        double sum = 0;
        for (long i = 0; i < cols; i++) sum += x[i];
        float mean = sum / cols, variance = 0;
        for (long i = 0; i < cols; i++) variance += (x[i] - mean) * (x[i] - mean);
        float part = 1 / sqrtf(variance / cols + eps);
        for (long i = 0; i < cols; i++) y[i] = (x[i] - mean) * part * w[i] + b[i];
    }
}
