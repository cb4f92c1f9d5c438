// Microscaling fake quantiser; the PyTorch form is in quant/mx.py.

#include "mx.h"

void mx_fake_quant(const float *x, float *y, long blocks, long mantissa, long least, long top, float largest) {
    mx_round(x, y, blocks, mantissa, least, top, largest);
}
