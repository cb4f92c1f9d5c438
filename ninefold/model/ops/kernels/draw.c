// Draws from softmax(logits / temperature) by the inverse distribution function; the PyTorch form is in engine/sampling.py.

#include "elementary.h"

#define GROUP 16 // weights that are summed together before the search looks at single ones

// weight [V] = exp((x - peak) / temperature), exactly 0 far below the peak.
INLINE void weigh(long V, const float *x, float peak, float rate, float *weight) {
#pragma omp simd
    for (long i = 0; i < V; i++) {
        float z = (x[i] - peak) * rate;
        weight[i] = z < -87.0f ? 0.0f : exponential(z);
    }
}

// First place whose cumulative weight exceeds share of the total; `group` [V / GROUP + 1] is scratch.
INLINE long search(long V, const float *weight, double share, double *group) {
    long groups = (V + GROUP - 1) / GROUP, last = 0;
    double total = 0.0, below = 0.0;
    for (long n = 0; n < groups; n++) {
        long end = (n + 1) * GROUP < V ? (n + 1) * GROUP : V;
        double sum = 0.0;
        for (long i = n * GROUP; i < end; i++) sum += weight[i];
        total += group[n] = sum;
    }
    for (long n = 0; n < groups; n++) {
        if (below + group[n] <= share * total && n + 1 < groups) {
            below += group[n];
            continue;
        }
        for (long i = n * GROUP; i < V; i++) {
            if (weight[i] == 0.0f) continue;
            below += weight[i], last = i;
            if (below > share * total) return i;
        }
    }
    while (last > 0 && weight[last] == 0.0f) last--;
    return last;
}

void softmax_draw(const float *logits, const double *temperature, const double *uniform, int64_t *token, float *weight,
                  double *group, long N, long V) {
    for (long n = 0; n < N; n++, logits += V) {
        float peak = logits[0];
#pragma omp simd reduction(max : peak)
        for (long i = 1; i < V; i++) peak = logits[i] > peak ? logits[i] : peak;
        if (temperature[n] == 0.0) {
            long best = 0;
            while (logits[best] < peak) best++;
            token[n] = best;
        } else {
            weigh(V, logits, peak, (float)(1.0 / temperature[n]), weight);
            token[n] = search(V, weight, uniform[n], group);
        }
    }
}
