// One token of each row through a KDA layer, between its input and output products; the PyTorch form is FusedKDA.step.

#include "delta.h"
#include "linear.h"

#define BACK 3 // inputs that the convolution looks back on

typedef struct {
    const float *conv_WC;   // [BACK + 1, C], the last row meets the current token
    const float *up_RJ;     // decay up-projection
    const float *bias_J;    // of the decay
    const float *rate_H;    // e^A
    const float *norm_V;    // scale of the heads' norm
    float g_min, eps;       // smallest log-decay; of the heads' norm
} layer_t;

// Convolves with SiLU and moves the window [BACK, C] on by one token.
INLINE void convolve(long C, const float *x, const float *weight, float *window, float *y) {
#pragma omp simd
    for (long c = 0; c < C; c++) {
        float a = window[c], b = window[C + c], d = window[2 * C + c];
        float z = weight[c] * a + weight[C + c] * b + weight[2 * C + c] * d + weight[3 * C + c] * x[c];
        window[c] = b, window[C + c] = d, window[2 * C + c] = x[c];
        y[c] = z * sigmoid(z);
    }
}

INLINE void scale(long N, float by, float *x) {
    for (long i = 0; i < N; i++) x[i] *= by;
}

// x [B, I] holds q, k, v, output gate, decay down and beta of each row; window [B, BACK, C] and state [B, H, K, K] move on.
INLINE void step_rows(const float *x, const layer_t *w, float *window, float *state, float *y, long B, long H, long R, long K) {
    long J = H * K, C = 3 * J, I = C + J + R + H;
    float qkv[C], z[J], g[K];
    for (long b = 0; b < B; b++, x += I, window += BACK * C, y += J) {
        const float *gate = x + C, *down = gate + J, *beta = down + R;
        convolve(C, x, w->conv_WC, window, qkv);
        product_row(R, J, down, w->up_RJ, z);
        for (long h = 0; h < H; h++, state += K * K) {
            float *q = qkv + h * K, *k = q + J, *v = k + J, *out = y + h * K;
            scale(K, 1.0f / sqrtf(dot(K, q, q) + 1e-6f) / sqrtf((float)K), q);
            scale(K, 1.0f / sqrtf(dot(K, k, k) + 1e-6f), k);
#pragma omp simd
            for (long i = 0; i < K; i++) g[i] = w->g_min * sigmoid(w->rate_H[h] * (z[h * K + i] + w->bias_J[h * K + i]));
            token(K, K, q, k, v, g, sigmoid(beta[h]), state, out);
            float r = inverse_rms(K, out, w->eps);
#pragma omp simd
            for (long i = 0; i < K; i++) out[i] *= r * w->norm_V[i] * sigmoid(gate[h * K + i]);
        }
    }
}

void kda_layer_step(const float *x, const float *conv, const float *up, const float *bias, const float *rate,
                    const float *norm, float *window, float *state, float *y, long B, long H, long R, long K, float g_min,
                    float eps) {
    layer_t w = {conv, up, bias, rate, norm, g_min, eps};
    if (K == 32) step_rows(x, &w, window, state, y, B, H, R, 32);
    else step_rows(x, &w, window, state, y, B, H, R, K);
}
