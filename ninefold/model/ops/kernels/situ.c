// SiTU-GLU with optional weights per row; the PyTorch form is in ops/situ.py.

#include "elementary.h"

// hidden [N, F] = weight [N] * situ(gate, up); a NULL weight is 1, weight 0 skips the row.
void situ_forward(const float *gate, const float *up, const float *weight, float *hidden, long N, long F, float beta_gate,
                  float beta_up) {
    for (long n = 0; n < N; n++) {
        float p = weight ? weight[n] : 1.0f;
        const float *g = gate + n * F, *u = up + n * F;
        float *h = hidden + n * F;
        if (p == 0.0f) {
            memset(h, 0, F * sizeof(float));
            continue;
        }
#pragma omp simd
        for (long i = 0; i < F; i++)
            h[i] = p * (beta_gate * hyperbolic_tangent(g[i] / beta_gate) * sigmoid(g[i])) *
                   (beta_up * hyperbolic_tangent(u[i] / beta_up));
    }
}

void situ_backward(const float *d_hidden, const float *gate, const float *up, const float *weight, float *d_gate, float *d_up,
                   float *d_weight, long N, long F, float beta_gate, float beta_up) {
    for (long n = 0; n < N; n++) {
        float p = weight ? weight[n] : 1.0f, sum = 0.0f;
        const float *d = d_hidden + n * F, *g = gate + n * F, *u = up + n * F;
        float *dg = d_gate + n * F, *du = d_up + n * F;
        if (p == 0.0f) {
            memset(dg, 0, F * sizeof(float));
            memset(du, 0, F * sizeof(float));
        } else {
#pragma omp simd reduction(+ : sum)
            for (long i = 0; i < F; i++) {
                float t = hyperbolic_tangent(g[i] / beta_gate), s = sigmoid(g[i]), w = hyperbolic_tangent(u[i] / beta_up);
                float a = beta_gate * t * s, b = beta_up * w;
                sum += d[i] * a * b;
                dg[i] = p * d[i] * b * ((1.0f - t * t) * s + beta_gate * t * s * (1.0f - s));
                du[i] = p * d[i] * a * (1.0f - w * w);
            }
        }
        if (d_weight) d_weight[n] = sum;
    }
}
