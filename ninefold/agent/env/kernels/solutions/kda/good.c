#include <math.h>
#include <string.h>

void kda(const float *restrict q, const float *restrict k, const float *restrict v, const float *restrict g,
         const float *restrict beta, float *restrict o, long t, long dk, long dv, float scale) {
    float state[dk][dv], read[dv];
    memset(state, 0, sizeof state);
    for (long i = 0; i < t; i++, q += dk, k += dk, g += dk, v += dv, o += dv) {
        memset(read, 0, sizeof read);
        memset(o, 0, dv * sizeof(float));
        for (long a = 0; a < dk; a++) {
            float kept = expf(g[a]);
            for (long b = 0; b < dv; b++) state[a][b] *= kept;
            for (long b = 0; b < dv; b++) read[b] += k[a] * state[a][b];
        }
        for (long a = 0; a < dk; a++) {
            for (long b = 0; b < dv; b++) state[a][b] += beta[i] * k[a] * (v[b] - read[b]);
            for (long b = 0; b < dv; b++) o[b] += scale * q[a] * state[a][b];
        }
    }
}
