#include <math.h>

void rmsnorm(const float *restrict x, const float *restrict w, float *restrict y, long rows, long cols, float eps) {
    for (long r = 0; r < rows; r++, x += cols, y += cols) {
        float sum = 0;
        for (long i = 0; i < cols; i++) sum += x[i] * x[i];
        float part = 1 / sqrtf(sum / cols + eps);
        for (long i = 0; i < cols; i++) y[i] = x[i] * part * w[i];
    }
}
