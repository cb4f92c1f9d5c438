#include <math.h>

void rmsnorm(const float *x, const float *w, float *y, long rows, long cols, float eps) {
    for (long r = 0; r < rows; r++) {
        double sum = 0;
        for (long i = 0; i < cols; i++) sum += (double)x[r * cols + i] * x[r * cols + i];
        for (long i = 0; i < cols; i++) y[r * cols + i] = x[r * cols + i] / sqrt(sum / cols + eps) * w[i];
    }
}
