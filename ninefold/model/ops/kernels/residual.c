// Attention residuals: a softmax mixture of sources per token; the PyTorch form is in ops/attnres.py.

#include "elementary.h"

// h [T, D] = softmax over n of (key . v_n / rms(v_n)) mixing the N sources v_n [T, D]; p, dot, inverse_rms [T, N] are kept.
void mix_forward(const float *const *values, const float *key, float *h, float *p, float *dot, float *inverse_rms, long T,
                 long N, long D, float eps) {
    for (long t = 0; t < T; t++, p += N, dot += N, inverse_rms += N) {
        float peak = 0.0f, mass = 0.0f, *out = h + t * D;
        for (long n = 0; n < N; n++) {
            const float *v = values[n] + t * D;
            float along = 0.0f, square = 0.0f;
#pragma omp simd reduction(+ : along, square)
            for (long i = 0; i < D; i++) {
                along += key[i] * v[i];
                square += v[i] * v[i];
            }
            dot[n] = along;
            inverse_rms[n] = 1.0f / sqrtf(square / D + eps);
            p[n] = along * inverse_rms[n];
            peak = n == 0 || p[n] > peak ? p[n] : peak;
        }
        for (long n = 0; n < N; n++) mass += p[n] = exponential(p[n] - peak);
        for (long n = 0; n < N; n++) p[n] /= mass;
        for (long n = 0; n < N; n++) {
            const float *v = values[n] + t * D;
            float share = p[n];
            if (n == 0)
#pragma omp simd
                for (long i = 0; i < D; i++) out[i] = share * v[i];
            else
#pragma omp simd
                for (long i = 0; i < D; i++) out[i] += share * v[i];
        }
    }
}

// Adds to d_key, which holds zeros on entry.
void mix_backward(const float *const *values, const float *key, const float *p, const float *dot, const float *inverse_rms,
                  const float *d_h, float *const *d_values, float *d_key, long T, long N, long D) {
    for (long t = 0; t < T; t++, p += N, dot += N, inverse_rms += N) {
        const float *dh = d_h + t * D;
        float dp[N], mean = 0.0f;
        for (long n = 0; n < N; n++) {
            const float *v = values[n] + t * D;
            float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
            for (long i = 0; i < D; i++) sum += dh[i] * v[i];
            dp[n] = sum;
            mean += p[n] * sum;
        }
        for (long n = 0; n < N; n++) {
            const float *v = values[n] + t * D;
            float *dv = d_values[n] + t * D, r = inverse_rms[n], share = p[n];
            float along = share * (dp[n] - mean) * r, radial = along * dot[n] * r * r / D;
#pragma omp simd
            for (long i = 0; i < D; i++) {
                dv[i] = share * dh[i] + along * key[i] - radial * v[i];
                d_key[i] += along * v[i];
            }
        }
    }
}
