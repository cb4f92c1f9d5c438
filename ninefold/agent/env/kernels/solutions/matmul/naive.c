void matmul(const float *a, const float *b, const float *bias, float *y, long m, long n, long k, float alpha) {
    for (long i = 0; i < m; i++)
        for (long j = 0; j < n; j++) {
            float sum = bias[j];
            for (long l = 0; l < k; l++) sum += a[i * k + l] * b[l * n + j];
            y[i * n + j] = sum > 0 ? alpha * sum : 0;
        }
}
