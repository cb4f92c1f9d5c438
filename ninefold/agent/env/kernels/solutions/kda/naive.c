#include <math.h>
#include <string.h>

void kda(const float *q, const float *k, const float *v, const float *g, const float *beta, float *o, long t, long dk, long dv,
         float scale) {
    float state[dk][dv];
    memset(state, 0, sizeof state);
    for (long i = 0; i < t; i++)
        for (long b = 0; b < dv; b++) {
            float read = 0, sum = 0;
            for (long a = 0; a < dk; a++) read += k[i * dk + a] * (state[a][b] *= expf(g[i * dk + a]));
            for (long a = 0; a < dk; a++) state[a][b] += beta[i] * k[i * dk + a] * (v[i * dv + b] - read);
            for (long a = 0; a < dk; a++) sum += q[i * dk + a] * state[a][b];
            o[i * dv + b] = scale * sum;
        }
}
