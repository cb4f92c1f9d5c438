#include <math.h>

void softmax(const float *restrict x, float *restrict y, long rows, long cols, float scale) {
    for (long r = 0; r < rows; r++, x += cols, y += cols) {
        float most = -INFINITY, sum = 0;
        for (long i = 0; i < cols; i++) most = fmaxf(most, scale * x[i]);
        for (long i = 0; i < cols; i++) sum += y[i] = expf(scale * x[i] - most);
        for (long i = 0; i < cols; i++) y[i] /= sum;
    }
}
