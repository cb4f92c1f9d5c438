// Attention residuals: a softmax mixture of sources per token behind the sub-layer's norm; the PyTorch form is in
// ops/attnres.py.

#include "linear.h"

// Shares p [N] of the sources v_n [D] of token t: softmax over n of (key . v_n / rms(v_n)); dot and inverse rms are left too.
INLINE void weigh(const float *const *values, const float *key, long t, long N, long D, float eps, float *p, float *along,
                  float *r) {
    float peak = 0.0f, mass = 0.0f;
    for (long n = 0; n < N; n++) {
        const float *v = values[n] + t * D;
        float product = 0.0f, square = 0.0f;
#pragma omp simd reduction(+ : product, square)
        for (long i = 0; i < D; i++) {
            product += key[i] * v[i];
            square += v[i] * v[i];
        }
        along[n] = product;
        r[n] = 1.0f / sqrtf(square / D + eps);
        p[n] = product * r[n];
        peak = n == 0 || p[n] > peak ? p[n] : peak;
    }
    for (long n = 0; n < N; n++) mass += p[n] = exponential(p[n] - peak);
    for (long n = 0; n < N; n++) p[n] /= mass;
}

INLINE void blend(const float *const *values, const float *p, long t, long N, long D, float *h) {
    for (long n = 0; n < N; n++) {
        const float *v = values[n] + t * D;
        float share = p[n];
        if (n == 0)
#pragma omp simd
            for (long i = 0; i < D; i++) h[i] = share * v[i];
        else
#pragma omp simd
            for (long i = 0; i < D; i++) h[i] += share * v[i];
    }
}

// y [T, D]: the N sources v_n [T, D] mixed, then RMSNorm with weight norm.
void read_forward(const float *const *values, const float *key, const float *norm, float *y, long T, long N, long D,
                  float eps) {
    for (long t = 0; t < T; t++) {
        float p[N], along[N], r[N], *out = y + t * D;
        weigh(values, key, t, N, D, eps, p, along, r);
        blend(values, p, t, N, D, out);
        float scale = inverse_rms(D, out, eps);
#pragma omp simd
        for (long i = 0; i < D; i++) out[i] = out[i] * scale * norm[i];
    }
}

// Makes the mixture again. Adds to d_key and d_norm, which hold zeros on entry.
void read_backward(const float *const *values, const float *key, const float *norm, const float *d_y, float *const *d_values,
                   float *d_key, float *d_norm, long T, long N, long D, float eps) {
    for (long t = 0; t < T; t++) {
        float p[N], along[N], r[N], dp[N], h[D], dh[D], mean = 0.0f;
        weigh(values, key, t, N, D, eps, p, along, r);
        blend(values, p, t, N, D, h);
        norm_backward(D, h, norm, d_y + t * D, eps, dh, d_norm);
        for (long n = 0; n < N; n++) {
            dp[n] = dot(D, dh, values[n] + t * D);
            mean += p[n] * dp[n];
        }
        for (long n = 0; n < N; n++) {
            const float *v = values[n] + t * D;
            float *dv = d_values[n] + t * D, share = p[n];
            float slope = share * (dp[n] - mean) * r[n], radial = slope * along[n] * r[n] * r[n] / D;
#pragma omp simd
            for (long i = 0; i < D; i++) {
                dv[i] = share * dh[i] + slope * key[i] - radial * v[i];
                d_key[i] += slope * v[i];
            }
        }
    }
}
