// Kimi Delta Attention as a recurrence over packed documents; the PyTorch form is in ops/kda_chunk.py.
// q, k, g [T, H, K], v, o [T, H, V], beta [T, H], states [D, H, K, V], starts [D + 1]: first token of each document, then T.

#include "elementary.h"

#define TILE 16 // tokens between two states saved for the backward pass

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

INLINE void step(const float *q, const float *k, const float *v, const float *g, const float *beta, float *state, float *o,
                 long rows, long K, long V) {
    for (long x = 0; x < rows; x++) token(K, V, q + x * K, k + x * K, v + x * V, g + x * K, beta[x], state + x * K * V, o + x * V);
}

// final [D, H, K, V] holds the initial states on entry. saved [tiles, H, K, V] takes the state at the start of every tile
// of every document, or is NULL.
INLINE void forward(const float *q, const float *k, const float *v, const float *g, const float *beta, const int64_t *starts,
                    float *o, float *final, float *saved, long D, long H, long K, long V) {
    long tile = 0;
    for (long d = 0; d < D; d++) {
        long length = starts[d + 1] - starts[d];
        for (long h = 0; h < H; h++) {
            float *S = final + (d * H + h) * K * V;
            for (long t = 0; t < length; t++) {
                long x = (starts[d] + t) * H + h;
                if (saved && t % TILE == 0) memcpy(saved + ((tile + t / TILE) * H + h) * K * V, S, K * V * sizeof(float));
                token(K, V, q + x * K, k + x * K, v + x * V, g + x * K, beta[x], S, o + x * V);
            }
        }
        tile += (length + TILE - 1) / TILE;
    }
}

// Scratch of the backward pass for one tile of one head.
typedef struct {
    float *decayed; // [TILE, K, V] state after the token's decay, before its write
    float *decay;   // [TILE, K]
    float *read;    // [TILE, V]
    float *write;   // [TILE, V] u
    float *state;   // [K, V]
} scratch_t;

// Replays `count` tokens from the saved state, keeping what their gradients need.
INLINE void replay(const float *k, const float *v, const float *g, const float *beta, const float *saved, scratch_t w,
                   long first, long count, long H, long K, long V) {
    memcpy(w.state, saved, K * V * sizeof(float));
    for (long c = 0; c < count; c++) {
        long x = first + c * H;
        float *decayed = w.decayed + c * K * V, *u = w.write + c * V, *r = w.read + c * V;
        decay_of(K, g + x * K, w.decay + c * K);
        decay_and_read(K, V, w.state, w.decay + c * K, k + x * K, decayed, r);
        for (long j = 0; j < V; j++) u[j] = beta[x] * (v[x * V + j] - r[j]);
        for (long i = 0; i < K; i++) {
#pragma omp simd
            for (long j = 0; j < V; j++) w.state[i * V + j] = decayed[i * V + j] + k[x * K + i] * u[j];
        }
    }
}

// Gradients of one token; dS is the gradient of the state after it on entry, before it on exit.
INLINE void token_backward(const float *q, const float *k, const float *v, const float *d_o, float beta, const float *decayed,
                           const float *decay, const float *read, const float *write, float *dS, float *dq, float *dk,
                           float *dv, float *dg, float *d_beta, long K, long V) {
    float du[V];
    for (long j = 0; j < V; j++) du[j] = 0.0f;
    for (long i = 0; i < K; i++) {
        float sum_q = 0.0f, sum_k = 0.0f;
#pragma omp simd reduction(+ : sum_q, sum_k)
        for (long j = 0; j < V; j++) {
            float s = dS[i * V + j] + q[i] * d_o[j];
            dS[i * V + j] = s;
            sum_q += (decayed[i * V + j] + k[i] * write[j]) * d_o[j];
            sum_k += s * write[j];
            du[j] += k[i] * s;
        }
        dq[i] = sum_q;
        dk[i] = sum_k;
    }
    float sum_beta = 0.0f;
#pragma omp simd reduction(+ : sum_beta)
    for (long j = 0; j < V; j++) {
        sum_beta += du[j] * (v[j] - read[j]);
        dv[j] = beta * du[j];
    }
    *d_beta = sum_beta;
    for (long i = 0; i < K; i++) {
        float sum_k = 0.0f, sum_g = 0.0f;
#pragma omp simd reduction(+ : sum_k, sum_g)
        for (long j = 0; j < V; j++) {
            float s = dS[i * V + j] - k[i] * dv[j];
            sum_k += decayed[i * V + j] * dv[j];
            sum_g += decayed[i * V + j] * s;
            dS[i * V + j] = decay[i] * s;
        }
        dk[i] -= sum_k;
        dg[i] = sum_g;
    }
}

// d_state [D, H, K, V] holds the gradient of the final states on entry, of the initial states on exit.
INLINE void backward(const float *q, const float *k, const float *v, const float *g, const float *beta, const int64_t *starts,
                     const float *saved, const float *d_o, float *d_state, float *dq, float *dk, float *dv, float *dg,
                     float *d_beta, float *scratch, long D, long H, long K, long V) {
    scratch_t w = {.decayed = scratch, .decay = scratch + TILE * K * V};
    w.read = w.decay + TILE * K, w.write = w.read + TILE * V, w.state = w.write + TILE * V;
    long tile = 0;
    for (long d = 0; d < D; d++) {
        long length = starts[d + 1] - starts[d], tiles = (length + TILE - 1) / TILE;
        for (long h = 0; h < H; h++) {
            float *dS = d_state + (d * H + h) * K * V;
            for (long n = tiles - 1; n >= 0; n--) {
                long left = length - n * TILE, count = left < TILE ? left : TILE, first = (starts[d] + n * TILE) * H + h;
                replay(k, v, g, beta, saved + ((tile + n) * H + h) * K * V, w, first, count, H, K, V);
                for (long c = count - 1; c >= 0; c--) {
                    long x = first + c * H;
                    token_backward(q + x * K, k + x * K, v + x * V, d_o + x * V, beta[x], w.decayed + c * K * V,
                                   w.decay + c * K, w.read + c * V, w.write + c * V, dS, dq + x * K, dk + x * K, dv + x * V,
                                   dg + x * K, d_beta + x, K, V);
                }
            }
        }
        tile += tiles;
    }
}

// One copy of each loop per common head width, so that the compiler knows its bounds; any other width runs the last.
#define BY_WIDTH(function, ...)                                                                                              \
    do {                                                                                                                     \
        if (K == 16 && V == 16) function(__VA_ARGS__, 16, 16);                                                               \
        else if (K == 32 && V == 32) function(__VA_ARGS__, 32, 32);                                                          \
        else if (K == 64 && V == 64) function(__VA_ARGS__, 64, 64);                                                          \
        else if (K == 128 && V == 128) function(__VA_ARGS__, 128, 128);                                                      \
        else function(__VA_ARGS__, K, V);                                                                                    \
    } while (0)

void kda_step(const float *q, const float *k, const float *v, const float *g, const float *beta, float *state, float *o,
              long rows, long K, long V) {
    BY_WIDTH(step, q, k, v, g, beta, state, o, rows);
}

void kda_forward(const float *q, const float *k, const float *v, const float *g, const float *beta, const int64_t *starts,
                 float *o, float *final, float *saved, long D, long H, long K, long V) {
    BY_WIDTH(forward, q, k, v, g, beta, starts, o, final, saved, D, H);
}

void kda_backward(const float *q, const float *k, const float *v, const float *g, const float *beta, const int64_t *starts,
                  const float *saved, const float *d_o, float *d_state, float *dq, float *dk, float *dv, float *dg,
                  float *d_beta, float *scratch, long D, long H, long K, long V) {
    BY_WIDTH(backward, q, k, v, g, beta, starts, saved, d_o, d_state, dq, dk, dv, dg, d_beta, scratch, D, H);
}
