// One token of each row through absorbed latent attention; the PyTorch form is FusedMLA.step.

#include "linear.h"

typedef struct {
    const float *query_norm_A;  // scale of the query latent's norm
    const float *query_up_AX;   // [A, H Q]
    const float *latent_norm_L; // scale of the cached latent's norm
    const float *key_up_HNL;
    const float *value_up_HLV;
    float eps;
} layer_t;

INLINE void normalise(long N, const float *x, const float *weight, float eps, float *y) {
    float r = inverse_rms(N, x, eps);
#pragma omp simd
    for (long i = 0; i < N; i++) y[i] = x[i] * r * weight[i];
}

// o [V] of one head from its absorbed query [L + R] over `count` cache entries.
INLINE void attend(const float *query, const float *entries, const float *value_up, float *scores, float *o, long count, long L,
                   long R, long V) {
    long C = L + R;
    float mixed[L];
    for (long s = 0; s < count; s++) scores[s] = dot(C, query, entries + s * C);
    float mass = exponentials(count, scores);
    for (long i = 0; i < L; i++) mixed[i] = 0.0f;
    for (long s = 0; s < count; s++)
#pragma omp simd
        for (long i = 0; i < L; i++) mixed[i] += scores[s] * entries[s * C + i];
    for (long i = 0; i < L; i++) mixed[i] /= mass;
    product_row(L, V, mixed, value_up, o);
}

// x [B, I] holds query latent, cached latent, shared key channels and output gate; cache [B, S, L + R]; place [B] of the token.
INLINE void step_rows(const float *x, const layer_t *w, float *cache, const int64_t *place, float *scores, float *y, long B,
                      long S, long H, long A, long N, long L, long R, long V) {
    long Q = N + R, C = L + R, I = A + C + H * V;
    float normed[A], q[H * Q], query[C], scale = 1.0f / sqrtf((float)Q);
    for (long b = 0; b < B; b++, x += I, cache += S * C, y += H * V) {
        const float *latent = x + A, *gate = latent + C;
        float *entry = cache + place[b] * C;
        normalise(A, x, w->query_norm_A, w->eps, normed);
        product_row(A, H * Q, normed, w->query_up_AX, q);
        normalise(L, latent, w->latent_norm_L, w->eps, entry);
        memcpy(entry + L, latent + L, R * sizeof(float));
        for (long h = 0; h < H; h++) {
            float *head = q + h * Q, *out = y + h * V;
            product_row(N, L, head, w->key_up_HNL + h * N * L, query);
            memcpy(query + L, head + N, R * sizeof(float));
            for (long i = 0; i < C; i++) query[i] *= scale;
            attend(query, cache, w->value_up_HLV + h * L * V, scores, out, place[b] + 1, L, R, V);
#pragma omp simd
            for (long i = 0; i < V; i++) out[i] *= sigmoid(gate[h * V + i]);
        }
    }
}

void mla_layer_step(const float *x, const float *query_norm, const float *query_up, const float *latent_norm, const float *key_up,
              const float *value_up, float *cache, const int64_t *place, float *scores, float *y, long B, long S, long H,
              long A, long N, long L, long R, long V, float eps) {
    layer_t w = {query_norm, query_up, latent_norm, key_up, value_up, eps};
    if (L == 32 && R == 8) step_rows(x, &w, cache, place, scores, y, B, S, H, A, N, 32, 8, V);
    else step_rows(x, &w, cache, place, scores, y, B, S, H, A, N, L, R, V);
}
