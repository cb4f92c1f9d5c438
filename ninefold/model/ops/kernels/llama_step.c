// One token of each row through all layers of a Llama-family model; the PyTorch form is LlamaDecoder.step_torch.

#include "product.h"

typedef struct {
    const float *attention_norm_D;
    const float *qkv_DX; // queries, keys, values; in panels, like the other matrices
    const float *bias_X; // or null
    const float *output_XD;
    const float *mlp_norm_D;
    const float *gate_up_DF; // gate, then up
    const float *down_FD;
} layer_t;

typedef struct {
    long B, S, H, G, Q, D, F;
    int paired; // products in bfloat16
    float eps;
} shape_t;

INLINE void normalise(long B, long D, const float *x, const float *weight, float eps, float *y) {
    for (long b = 0; b < B; b++, x += D, y += D) {
        float r = inverse_rms(D, x, eps);
#pragma omp simd
        for (long i = 0; i < D; i++) y[i] = x[i] * r * weight[i];
    }
}

// y [Q] = x turned by the angles of its place: channels c and c + Q / 2 are a pair.
INLINE void turn(const float *x, const float *cosine, const float *sine, float scale, float *y, long Q) {
    long half = Q / 2;
    for (long c = 0; c < half; c++) {
        y[c] = (x[c] * cosine[c] - x[half + c] * sine[c]) * scale;
        y[half + c] = (x[half + c] * cosine[c] + x[c] * sine[c]) * scale;
    }
}

// o [Q] of one head over `count` cache entries that lie C floats apart.
INLINE void attend(const float *query, const float *keys, const float *values, float *scores, float *o, long count, long C,
                   long Q) {
    float mixed[Q];
    for (long s = 0; s < count; s++) scores[s] = dot(Q, query, keys + s * C);
    float mass = exponentials(count, scores);
    for (long i = 0; i < Q; i++) mixed[i] = 0.0f;
    for (long s = 0; s < count; s++)
#pragma omp simd
        for (long i = 0; i < Q; i++) mixed[i] += scores[s] * values[s * C + i];
#pragma omp simd
    for (long i = 0; i < Q; i++) o[i] = mixed[i] / mass;
}

// x [B, (H + 2 G) Q]; cache [B, S, 2 G Q] keys, then values; place [B] of the token, whose entry is written.
INLINE void attention(shape_t n, const float *x, const float *cosine, const float *sine, float *cache, const int64_t *place,
                      float *scores, float *y, long Q) {
    long C = 2 * n.G * Q;
    float query[Q], scale = 1.0f / sqrtf((float)Q);
    for (long b = 0; b < n.B; b++, cache += n.S * C, cosine += Q / 2, sine += Q / 2, x += (n.H + 2 * n.G) * Q) {
        float *entry = cache + place[b] * C;
        for (long g = 0; g < n.G; g++) turn(x + (n.H + g) * Q, cosine, sine, 1.0f, entry + g * Q, Q);
        memcpy(entry + n.G * Q, x + (n.H + n.G) * Q, n.G * Q * sizeof(float));
        for (long h = 0; h < n.H; h++, y += Q) {
            long g = h / (n.H / n.G);
            turn(x + h * Q, cosine, sine, scale, query, Q);
            attend(query, cache + g * Q, cache + (n.G + g) * Q, scores, y, place[b] + 1, C, Q);
        }
    }
}

// The same with the head's width as a constant where it is a common one.
INLINE void attention_of(shape_t n, const float *x, const float *cosine, const float *sine, float *cache, const int64_t *place,
                         float *scores, float *y) {
    if (n.Q == 32) attention(n, x, cosine, sine, cache, place, scores, y, 32);
    else if (n.Q == 64) attention(n, x, cosine, sine, cache, place, scores, y, 64);
    else attention(n, x, cosine, sine, cache, place, scores, y, n.Q);
}

INLINE void add(long count, const float *x, float *y) {
#pragma omp simd
    for (long i = 0; i < count; i++) y[i] += x[i];
}

static void layer(shape_t n, layer_t w, const float *cosine, const float *sine, float *cache, const int64_t *place, float *scratch,
                  float *x) {
    long X = (n.H + 2 * n.G) * n.Q, mixed = n.H * n.Q;
    float *narrow = scratch, *wide = narrow + n.B * n.D, *inner = wide + n.B * (X > 2 * n.F ? X : 2 * n.F);
    float *lanes = inner + n.B * (mixed > n.F ? mixed : n.F), *scores = lanes; // never both at once
#define PROJECT(depth, width, from, weight, to) project(n.B, depth, width, from, weight, to, n.paired, lanes)
    normalise(n.B, n.D, x, w.attention_norm_D, n.eps, narrow);
    PROJECT(n.D, X, narrow, w.qkv_DX, wide);
    for (long b = 0; w.bias_X && b < n.B; b++) add(X, w.bias_X, wide + b * X);
    attention_of(n, wide, cosine, sine, cache, place, scores, inner);
    PROJECT(mixed, n.D, inner, w.output_XD, narrow);
    add(n.B * n.D, narrow, x);
    normalise(n.B, n.D, x, w.mlp_norm_D, n.eps, narrow);
    PROJECT(n.D, 2 * n.F, narrow, w.gate_up_DF, wide);
    for (long b = 0; b < n.B; b++) {
        const float *gate = wide + b * 2 * n.F, *up = gate + n.F;
#pragma omp simd
        for (long i = 0; i < n.F; i++) inner[b * n.F + i] = gate[i] * sigmoid(gate[i]) * up[i];
    }
    PROJECT(n.F, n.D, inner, w.down_FD, narrow);
    add(n.B * n.D, narrow, x);
#undef PROJECT
}

// x [B, D] embeddings in, last residual out; first and middle [B, D] are the residuals behind those layers.
void llama_step(float *x, float *first, float *middle, const layer_t *layers, float *const *caches, const float *cosine,
                const float *sine, const int64_t *place, float *scratch, long L, long B, long S, long H, long G, long Q, long D,
                long F, long paired, float eps) {
    shape_t n = {B, S, H, G, Q, D, F, (int)paired, eps};
    for (long l = 0; l < L; l++) {
        layer(n, layers[l], cosine, sine, caches[l], place, scratch, x);
        if (l == 0) memcpy(first, x, B * D * sizeof(float));
        if (l == (L - 1) / 2) memcpy(middle, x, B * D * sizeof(float));
    }
}

// The attention of one layer alone, for those who compute the products elsewhere.
void gqa_step(const float *x, const float *cosine, const float *sine, float *cache, const int64_t *place, float *scores, float *y,
              long B, long S, long H, long G, long Q) {
    shape_t n = {B, S, H, G, Q, 0, 0, 0, 0.0f};
    attention_of(n, x, cosine, sine, cache, place, scores, y);
}
