// RMSNorm with a learned scale; the PyTorch form is in ops/norm.py.

#include "linear.h"

INLINE void forward(const float *x, const float *weight, float *y, long N, long C, float eps) {
    for (long n = 0; n < N; n++, x += C, y += C) {
        float r = inverse_rms(C, x, eps);
#pragma omp simd
        for (long i = 0; i < C; i++) y[i] = x[i] * r * weight[i];
    }
}

// Adds to d_weight, which holds zeros on entry.
INLINE void backward(const float *x, const float *weight, const float *d_y, float *d_x, float *d_weight, long N, long C,
                     float eps) {
    for (long n = 0; n < N; n++, x += C, d_y += C, d_x += C) norm_backward(C, x, weight, d_y, eps, d_x, d_weight);
}

#define BY_WIDTH(function, ...)                                                                                              \
    do {                                                                                                                     \
        if (C == 32) function(__VA_ARGS__, N, 32, eps);                                                                      \
        else if (C == 64) function(__VA_ARGS__, N, 64, eps);                                                                 \
        else function(__VA_ARGS__, N, C, eps);                                                                               \
    } while (0)

void rms_norm_forward(const float *x, const float *weight, float *y, long N, long C, float eps) {
    BY_WIDTH(forward, x, weight, y);
}

void rms_norm_backward(const float *x, const float *weight, const float *d_y, float *d_x, float *d_weight, long N, long C,
                       float eps) {
    BY_WIDTH(backward, x, weight, d_y, d_x, d_weight);
}
