#include <math.h>

void attention(const float *q, const float *k, const float *v, float *o, long t, long d, float scale) {
    for (long i = 0; i < t; i++) {
        double p[t], most = -INFINITY, sum = 0;
        for (long j = 0; j <= i; j++) {
            p[j] = 0;
            for (long c = 0; c < d; c++) p[j] += (double)q[i * d + c] * k[j * d + c];
            most = fmax(most, p[j] *= scale);
        }
        for (long j = 0; j <= i; j++) sum += p[j] = exp(p[j] - most);
        for (long c = 0; c < d; c++) {
            double value = 0;
            for (long j = 0; j <= i; j++) value += p[j] / sum * v[j * d + c];
            o[i * d + c] = value;
        }
    }
}
