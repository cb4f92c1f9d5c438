#include <math.h>

void layernorm(const float *x, const float *w, const float *b, float *y, long rows, long cols, float eps) {
    for (long r = 0; r < rows; r++) {
        double mean = 0, variance = 0;
        for (long i = 0; i < cols; i++) mean += x[r * cols + i] / (double)cols;
        for (long i = 0; i < cols; i++) variance += (x[r * cols + i] - mean) * (x[r * cols + i] - mean) / cols;
        for (long i = 0; i < cols; i++) y[r * cols + i] = (x[r * cols + i] - mean) / sqrt(variance + eps) * w[i] + b[i];
    }
}
