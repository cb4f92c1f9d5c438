#include <math.h>

void situ(const float *g, const float *u, float *y, long n, float b1, float b2) {
    for (long i = 0; i < n; i++)
        y[i] = b1 * tanh(g[i] / (double)b1) * (1.0 / (1.0 + exp(-(double)g[i]))) * b2 * tanh(u[i] / (double)b2);
}
