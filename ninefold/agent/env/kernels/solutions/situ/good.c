#include <math.h>

void situ(const float *g, const float *u, float *y, long n, float b1, float b2) {
    float i1 = 1 / b1, i2 = 1 / b2, b = b1 * b2;
    for (long i = 0; i < n; i++) y[i] = b * tanhf(g[i] * i1) * tanhf(u[i] * i2) / (1 + expf(-g[i]));
}
