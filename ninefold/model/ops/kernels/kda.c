// Kimi Delta Attention as a recurrence over packed documents; the PyTorch form is in ops/kda_chunk.py.
// q, k, g [T, H, K], v, o [T, H, V], beta [T, H], states [D, H, K, V], starts [D + 1]: first token of each document, then T.

#include "delta.h"
#include "linear.h"

#define TILE 16 // tokens between two states saved for the backward pass

INLINE void step(const float *q, const float *k, const float *v, const float *g, const float *beta, float *state, float *o,
                 long rows, long K, long V) {
    for (long x = 0; x < rows; x++) token(K, V, q + x * K, k + x * K, v + x * V, g + x * K, beta[x], state + x * K * V, o + x * V);
}

// final [D, H, K, V] holds the initial states on entry. saved [tiles, H, K, V] takes the state at the start of every tile
// of every document, or is NULL. cut [D, H, K, V] takes the state after the first after[d] tokens of each document, or is NULL.
INLINE void forward(const float *q, const float *k, const float *v, const float *g, const float *beta, const int64_t *starts,
                    float *o, float *final, float *saved, const int64_t *after, float *cut, long D, long H, long K, long V) {
    long tile = 0;
    for (long d = 0; d < D; d++) {
        long length = starts[d + 1] - starts[d];
        for (long h = 0; h < H; h++) {
            float *S = final + (d * H + h) * K * V;
            for (long t = 0; t < length; t++) {
                long x = (starts[d] + t) * H + h;
                if (saved && t % TILE == 0) memcpy(saved + ((tile + t / TILE) * H + h) * K * V, S, K * V * sizeof(float));
                token(K, V, q + x * K, k + x * K, v + x * V, g + x * K, beta[x], S, o + x * V);
                if (cut && t + 1 == after[d]) memcpy(cut + (d * H + h) * K * V, S, K * V * sizeof(float));
            }
        }
        tile += (length + TILE - 1) / TILE;
    }
}

// The backward pass keeps states transposed, [V][K]: column j of S then needs one sum, du_j, and everything else that
// depends on it follows in the same pass.

typedef struct {
    float *decayed; // [TILE, V, K] state after the token's decay, before its write
    float *decay;   // [TILE, K]
    float *read;    // [TILE, V] r
    float *write;   // [TILE, V] u
    float *state;   // [V, K]
    float *d_state; // [V, K]
} scratch_t;

INLINE void transpose(long rows, long columns, const float *in, float *out) {
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < columns; j++) out[j * rows + i] = in[i * columns + j];
}

// Moves the transposed state on by one token, keeping what the gradients need.
INLINE void replay(const float *k, const float *v, float beta, const float *decay, float *S, float *decayed, float *read,
                   float *write, long K, long V) {
    for (long j = 0; j < V; j++) {
#pragma omp simd
        for (long i = 0; i < K; i++) decayed[j * K + i] = decay[i] * S[j * K + i];
        float r = dot(K, k, decayed + j * K), u = beta * (v[j] - r);
        read[j] = r, write[j] = u;
#pragma omp simd
        for (long i = 0; i < K; i++) S[j * K + i] = decayed[j * K + i] + k[i] * u;
    }
}

// Gradients of one token; dS, transposed, is the gradient of the state after it on entry, before it on exit.
INLINE void token_backward(const float *q, const float *k, const float *v, float beta, const float *d_o, const float *decay,
                           const float *decayed, const float *read, const float *write, float *dS, float *d_q, float *d_k,
                           float *dv, float *d_g, float *d_beta, long K, long V) {
    float dq[K], dk[K], dg[K], sum = 0.0f;
    for (long i = 0; i < K; i++) dq[i] = dk[i] = dg[i] = 0.0f;
    for (long j = 0; j < V; j++) {
        float o = d_o[j], u = write[j];
#pragma omp simd
        for (long i = 0; i < K; i++) dS[j * K + i] += q[i] * o;
        float du = dot(K, k, dS + j * K), dr = beta * du; // dr: of v - r
        dv[j] = dr;
        sum += du * (v[j] - read[j]);
#pragma omp simd
        for (long i = 0; i < K; i++) {
            float d = decayed[j * K + i], s = dS[j * K + i];
            dq[i] += (d + k[i] * u) * o;
            dk[i] += s * u - d * dr;
            s -= k[i] * dr;
            dg[i] += d * s;
            dS[j * K + i] = decay[i] * s;
        }
    }
    *d_beta = sum;
    memcpy(d_q, dq, sizeof dq), memcpy(d_k, dk, sizeof dk), memcpy(d_g, dg, sizeof dg);
}

// d_state [D, H, K, V] holds the gradient of the final states on entry, of the initial states on exit.
INLINE void backward(const float *q, const float *k, const float *v, const float *g, const float *beta, const int64_t *starts,
                     const float *saved, const float *d_o, float *d_state, float *dq, float *dk, float *dv, float *dg,
                     float *d_beta, float *scratch, long D, long H, long K, long V) {
    scratch_t w = {.decayed = scratch, .decay = scratch + TILE * K * V};
    w.read = w.decay + TILE * K, w.write = w.read + TILE * V;
    w.state = w.write + TILE * V, w.d_state = w.state + K * V;
    long tile = 0;
    for (long d = 0; d < D; d++) {
        long length = starts[d + 1] - starts[d], tiles = (length + TILE - 1) / TILE;
        for (long h = 0; h < H; h++) {
            transpose(K, V, d_state + (d * H + h) * K * V, w.d_state);
            for (long n = tiles - 1; n >= 0; n--) {
                long left = length - n * TILE, count = left < TILE ? left : TILE, first = (starts[d] + n * TILE) * H + h;
                transpose(K, V, saved + ((tile + n) * H + h) * K * V, w.state);
                for (long c = 0; c < count; c++) {
                    long x = first + c * H;
                    decay_of(K, g + x * K, w.decay + c * K);
                    replay(k + x * K, v + x * V, beta[x], w.decay + c * K, w.state, w.decayed + c * K * V, w.read + c * V,
                           w.write + c * V, K, V);
                }
                for (long c = count - 1; c >= 0; c--) {
                    long x = first + c * H;
                    token_backward(q + x * K, k + x * K, v + x * V, beta[x], d_o + x * V, w.decay + c * K,
                                   w.decayed + c * K * V, w.read + c * V, w.write + c * V, w.d_state, dq + x * K, dk + x * K,
                                   dv + x * V, dg + x * K, d_beta + x, K, V);
                }
            }
            transpose(V, K, w.d_state, d_state + (d * H + h) * K * V);
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
                 float *o, float *final, float *saved, const int64_t *after, float *cut, long D, long H, long K, long V) {
    BY_WIDTH(forward, q, k, v, g, beta, starts, o, final, saved, after, cut, D, H);
}

void kda_backward(const float *q, const float *k, const float *v, const float *g, const float *beta, const int64_t *starts,
                  const float *saved, const float *d_o, float *d_state, float *dq, float *dk, float *dv, float *dg,
                  float *d_beta, float *scratch, long D, long H, long K, long V) {
    BY_WIDTH(backward, q, k, v, g, beta, starts, saved, d_o, d_state, dq, dk, dv, dg, d_beta, scratch, D, H);
}
