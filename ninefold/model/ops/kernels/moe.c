// Stable LatentMoE between its input and output products, without gradients; the PyTorch form is in model/moe.py.

#include "linear.h"
#include "mx.h"

typedef struct {
    const float *bias_E;
    const float *w1_ELF, *w3_ELF; // gate and up
    const float *w2_EFL;          // down
    const float *norm_L;
    float beta_gate, beta_up, eps;
    int quantized;
} layer_t;

// The k experts of one token by score + bias, and their weights by score alone.
INLINE void choose(long E, long k, const float *logits, const float *bias, int64_t *index, float *weight) {
    float score[E], key[E], sum = 0.0f;
    for (long e = 0; e < E; e++) score[e] = sigmoid(logits[e]), key[e] = score[e] + bias[e];
    for (long i = 0; i < k; i++) {
        long best = 0;
        for (long e = 1; e < E; e++) best = key[e] > key[best] ? e : best;
        index[i] = best, weight[i] = score[best], key[best] = -INFINITY;
        sum += score[best];
    }
    for (long i = 0; i < k; i++) weight[i] /= sum + 1e-20f;
}

INLINE void situ(long F, float by, const float *g, const float *u, float *h, const layer_t *w) {
#pragma omp simd
    for (long i = 0; i < F; i++)
        h[i] = by * (w->beta_gate * hyperbolic_tangent(g[i] / w->beta_gate) * sigmoid(g[i])) *
               (w->beta_up * hyperbolic_tangent(u[i] / w->beta_up));
}

// Adds one expert's weighted outputs for up to TALL tokens.
INLINE void expert(long rows, long L, long F, const float *const *z, const float *weight, float *const *u, const float *w1,
                   const float *w3, const float *w2, const layer_t *w) {
    float gate[TALL][F], up[TALL][F], *gates[TALL], *ups[TALL];
    for (long r = 0; r < rows; r++) gates[r] = gate[r], ups[r] = up[r];
    product_rows(rows, L, F, z, w1, gates, 0);
    product_rows(rows, L, F, z, w3, ups, 0);
    for (long r = 0; r < rows; r++) situ(F, weight[r], gate[r], up[r], gate[r], w);
    product_rows(rows, F, L, (const float *const *)gates, w2, u, 1);
}

// x [N, L + 2 S] holds latent, shared gate and shared up; y [N, L + S]. index, weight, copies [N k] and z [N, L] are scratch.
INLINE void layer(const float *x, const float *logits, const layer_t *w, float *y, int64_t *index, float *weight, int64_t *copies,
                  float *z, long N, long E, long k, long L, long F, long S) {
    long I = L + 2 * S, O = L + S, first[E + 1];
    memset(first, 0, sizeof first);
    for (long n = 0; n < N; n++) {
        choose(E, k, logits + n * E, w->bias_E, index + n * k, weight + n * k);
        for (long i = 0; i < k; i++) first[index[n * k + i] + 1]++;
        if (w->quantized) mx_round(x + n * I, z + n * L, L / 32, MXFP8);
        else memcpy(z + n * L, x + n * I, L * sizeof(float));
        memset(y + n * O, 0, L * sizeof(float));
        situ(S, 1.0f, x + n * I + L, x + n * I + L + S, y + n * O + L, w);
    }
    for (long e = 0; e < E; e++) first[e + 1] += first[e];
    long next[E];
    memcpy(next, first, sizeof next);
    for (long c = 0; c < N * k; c++) copies[next[index[c]]++] = c;
    for (long e = 0; e < E; e++) {
        const float *w1 = w->w1_ELF + e * L * F, *w3 = w->w3_ELF + e * L * F, *w2 = w->w2_EFL + e * L * F;
        for (long c = first[e]; c < first[e + 1]; c += TALL) {
            long left = first[e + 1] - c, rows = left < TALL ? left : TALL;
            const float *in[TALL];
            float *out[TALL], by[TALL];
            for (long r = 0; r < rows; r++) {
                long n = copies[c + r] / k;
                in[r] = z + n * L, out[r] = y + n * O, by[r] = weight[copies[c + r]];
            }
            if (rows == TALL) expert(TALL, L, F, in, by, out, w1, w3, w2, w);
            else
                for (long r = 0; r < rows; r++) expert(1, L, F, in + r, by + r, out + r, w1, w3, w2, w);
        }
    }
    for (long n = 0; n < N; n++) {
        float *u = y + n * O, r = inverse_rms(L, u, w->eps);
#pragma omp simd
        for (long i = 0; i < L; i++) u[i] *= r * w->norm_L[i];
    }
}

void moe_layer(const float *x, const float *logits, const float *bias, const float *w1, const float *w3, const float *w2,
               const float *norm, float *y, int64_t *index, float *weight, int64_t *copies, float *z, long N, long E, long k,
               long L, long F, long S, long quantized, float beta_gate, float beta_up, float eps) {
    layer_t w = {bias, w1, w3, w2, norm, beta_gate, beta_up, eps, (int)quantized};
    if (L == 32 && F == 64) layer(x, logits, &w, y, index, weight, copies, z, N, E, k, 32, 64, S);
    else layer(x, logits, &w, y, index, weight, copies, z, N, E, k, L, F, S);
}
