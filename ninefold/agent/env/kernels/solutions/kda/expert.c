#include <math.h>
#include <string.h>

/* e^x to a few units in the last place, in a form that compilers turn into vectors. */
static inline float exp_fast(float x) {
    x = x < -87.3f ? -87.3f : x > 88.3f ? 88.3f : x;
    float n = rintf(x * 1.44269504f), r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    union { int bits; float value; } power = {((int)n + 127) << 23};
    return (p * r * r + r + 1.0f) * power.value;
}

/* Columns of the state know nothing of each other: 32 of them go through all tokens, their sums in registers. */
enum { LANES = 16, COLS = 2 * LANES };
typedef float vector __attribute__((vector_size(4 * LANES)));

static inline vector load(const float *from) {
    vector v;
    memcpy(&v, from, sizeof v);
    return v;
}

void kda(const float *restrict q, const float *restrict k, const float *restrict v, const float *restrict g,
         const float *restrict beta, float *restrict o, long t, long dk, long dv, float scale) {
    float kept[t * dk];
    for (long i = 0; i < t * dk; i++) kept[i] = exp_fast(g[i]);
    vector state[dk][2];
    for (long b = 0; b < dv; b += COLS) {
        long width = dv - b < COLS ? dv - b : COLS;
        memset(state, 0, sizeof state);
        for (long i = 0; i < t; i++) {
            const float *decay = kept + i * dk, *key = k + i * dk, *query = q + i * dk;
            vector reads[2] = {{0}}, sums[2] = {{0}};
            float row[COLS] = {0};
            memcpy(row, v + i * dv + b, width * sizeof(float));
            for (long a = 0; a < dk; a++)
                for (int c = 0; c < 2; c++) {
                    state[a][c] *= decay[a];
                    reads[c] += key[a] * state[a][c];
                }
            vector writes[2] = {beta[i] * (load(row) - reads[0]), beta[i] * (load(row + LANES) - reads[1])};
            for (long a = 0; a < dk; a++)
                for (int c = 0; c < 2; c++) {
                    state[a][c] += key[a] * writes[c];
                    sums[c] += query[a] * state[a][c];
                }
            sums[0] *= scale;
            sums[1] *= scale;
            memcpy(row, sums, sizeof row);
            memcpy(o + i * dv + b, row, width * sizeof(float));
        }
    }
}
