void matmul(const float *restrict a, const float *restrict b, const float *restrict bias, float *restrict y, long m, long n,
            long k, float alpha) {
    for (long i = 0; i < m; i++, a += k, y += n) {
        for (long j = 0; j < n; j++) y[j] = bias[j];
        for (long l = 0; l < k; l++)
            for (long j = 0; j < n; j++) y[j] += a[l] * b[l * n + j];
        for (long j = 0; j < n; j++) y[j] = y[j] > 0 ? alpha * y[j] : 0;
    }
}
