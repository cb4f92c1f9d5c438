#include <math.h>

void attention(const float *restrict q, const float *restrict k, const float *restrict v, float *restrict o, long t, long d,
               float scale) {
    for (long i = 0; i < t; i++) {
        float p[t], most = -INFINITY, sum = 0;
        for (long j = 0; j <= i; j++) {
            float dot = 0;
            for (long c = 0; c < d; c++) dot += q[i * d + c] * k[j * d + c];
            p[j] = dot * scale;
            most = fmaxf(most, p[j]);
        }
        for (long c = 0; c < d; c++) o[i * d + c] = 0;
        for (long j = 0; j <= i; j++) {
            sum += p[j] = expf(p[j] - most);
            for (long c = 0; c < d; c++) o[i * d + c] += p[j] * v[j * d + c];
        }
        for (long c = 0; c < d; c++) o[i * d + c] /= sum;
    }
}
