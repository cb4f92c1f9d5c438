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

/* Four queries at a time against keys that were transposed once: logits, weights and outputs are all vectors. */
enum { ROWS = 4, LANES = 16 };
typedef float vector __attribute__((vector_size(4 * LANES)));

static inline vector load(const float *from) {
    vector v;
    memcpy(&v, from, sizeof v);
    return v;
}

void attention(const float *restrict q, const float *restrict k, const float *restrict v, float *restrict o, long t, long d,
               float scale) {
    long wide = (t + LANES - 1) / LANES * LANES, deep = (d + LANES - 1) / LANES * LANES;
    float across[d][wide] __attribute__((aligned(64))), values[t][deep] __attribute__((aligned(64)));
    float p[ROWS][wide] __attribute__((aligned(64)));
    memset(across, 0, sizeof across);
    memset(values, 0, sizeof values);
    for (long j = 0; j < t; j++) {
        for (long c = 0; c < d; c++) across[c][j] = k[j * d + c];
        memcpy(values[j], v + j * d, d * sizeof(float));
    }
    for (long i = 0; i < t; i += ROWS) {
        int rows = t - i < ROWS ? (int)(t - i) : ROWS;
        long seen = i + rows;
        const float *asked[ROWS];
        for (int r = 0; r < ROWS; r++) asked[r] = q + (r < rows ? i + r : i) * d;
        for (long j = 0; j < seen; j += LANES) {
            vector sums[ROWS] = {{0}};
            for (long c = 0; c < d; c++) {
                vector keys = load(&across[c][j]);
                for (int r = 0; r < ROWS; r++) sums[r] += asked[r][c] * keys;
            }
            for (int r = 0; r < ROWS; r++) {
                vector logits = sums[r] * scale;
                memcpy(&p[r][j], &logits, sizeof logits);
            }
        }
        for (int r = 0; r < rows; r++) {
            float most = -INFINITY, sum = 0;
#pragma omp simd reduction(max : most)
            for (long j = 0; j <= i + r; j++) most = p[r][j] > most ? p[r][j] : most;
#pragma omp simd reduction(+ : sum)
            for (long j = 0; j <= i + r; j++) {
                p[r][j] = exp_fast(p[r][j] - most);
                sum += p[r][j];
            }
            float part = 1 / sum;
            for (long j = 0; j <= i + r; j++) p[r][j] *= part;
            for (long j = i + r + 1; j < seen; j++) p[r][j] = 0;
        }
        for (long c = 0; c < d; c += LANES) {
            vector sums[ROWS] = {{0}};
            for (long j = 0; j < seen; j++) {
                vector row = load(&values[j][c]);
                for (int r = 0; r < ROWS; r++) sums[r] += p[r][j] * row;
            }
            long width = d - c < LANES ? d - c : LANES;
            for (int r = 0; r < rows; r++) memcpy(o + (i + r) * d + c, &sums[r], width * sizeof(float));
        }
    }
}
