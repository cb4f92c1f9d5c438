// One token of the delta rule, shared by the recurrence (kda.c) and the layer's decode step (kda_layer.c).

#pragma once

#include "elementary.h"

// The state of one head is S [K][V]. A token does S <- diag(decay) S; u = beta (v - k^T S); S <- S + k u^T; o = q^T S.

INLINE void decay_of(long K, const float *g, float *decay) {
#pragma omp simd
    for (long i = 0; i < K; i++) decay[i] = exponential(g[i]);
}

// Decays S into `decayed` (which may be S) and reads r = k^T S from it.
INLINE void decay_and_read(long K, long V, const float *S, const float *decay, const float *k, float *decayed, float *r) {
    for (long j = 0; j < V; j++) r[j] = 0.0f;
    for (long i = 0; i < K; i++) {
#pragma omp simd
        for (long j = 0; j < V; j++) {
            float s = decay[i] * S[i * V + j];
            decayed[i * V + j] = s;
            r[j] += k[i] * s;
        }
    }
}

INLINE void token(long K, long V, const float *q, const float *k, const float *v, const float *g, float beta, float *S,
                  float *o) {
    float decay[K], u[V], out[V];
    decay_of(K, g, decay);
    decay_and_read(K, V, S, decay, k, S, u);
    for (long j = 0; j < V; j++) u[j] = beta * (v[j] - u[j]), out[j] = 0.0f;
    for (long i = 0; i < K; i++) {
#pragma omp simd
        for (long j = 0; j < V; j++) {
            float s = S[i * V + j] + k[i] * u[j];
            S[i * V + j] = s;
            out[j] += q[i] * s;
        }
    }
    memcpy(o, out, sizeof out);
}
