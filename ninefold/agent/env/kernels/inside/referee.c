/* What the driver does to arrays: fills them from a seed and compares them. Only trusted processes load it. */
#include <math.h>
#include <stdint.h>

static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static float uniform(uint64_t seed, uint64_t place, float low, float high) {
    return low + (high - low) * ((mix(seed + place * 0x9e3779b97f4a7c15u) >> 40) * 0x1p-24f);
}

/* x[i] uniform in [low, high). */
void fill(float *x, long n, uint64_t seed, double low, double high) {
    for (long i = 0; i < n; i++) x[i] = uniform(seed, i, low, high);
}

/* Change a few values of x and leave the rest. */
void change(float *x, long n, uint64_t seed, double low, double high, long count) {
    for (long c = 0; c < count; c++) x[mix(seed ^ (c + 1)) % (uint64_t)n] = uniform(seed + 1, c, low, high);
}

/* The largest |y − e| as a multiple of what is allowed, absolute + relative·|e|; infinite where only one is a number. */
double worst(const float *y, const float *e, long n, double absolute, double relative) {
    double most = 0;
    for (long i = 0; i < n; i++) {
        double off = fabs((double)y[i] - e[i]) / (absolute + relative * fabs((double)e[i]));
        if (y[i] == e[i] || (isnan(y[i]) && isnan(e[i]))) continue;
        if (!(off <= most)) most = isnan(off) ? INFINITY : off;
    }
    return most;
}
