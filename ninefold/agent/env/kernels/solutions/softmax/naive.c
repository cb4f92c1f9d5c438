#include <math.h>

void softmax(const float *x, float *y, long rows, long cols, float scale) {
    for (long r = 0; r < rows; r++) {
        double most = -INFINITY, sum = 0;
        for (long i = 0; i < cols; i++) most = fmax(most, (double)scale * x[r * cols + i]);
        for (long i = 0; i < cols; i++) sum += exp((double)scale * x[r * cols + i] - most);
        for (long i = 0; i < cols; i++) y[r * cols + i] = exp((double)scale * x[r * cols + i] - most) / sum;
    }
}
