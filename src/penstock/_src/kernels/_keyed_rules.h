/* The updates of optimizers on one row: the variable's values, its slots, and the gradient, in one pass.

   The rules compute what `ops/nn/training.py` computes with torch; the order of the numbers in `h` is that of the arguments of
   the op ResourceApply<Name>, without the gradient. `option` is the op's one attribute (use_nesterov, update_slots). */
#ifndef PENSTOCK_KEYED_RULES_H
#define PENSTOCK_KEYED_RULES_H
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef float *restrict Values;
typedef void (*Rule)(Values var, Values s0, Values s1, Values s2, const float *restrict g, int64_t n, const float *h, int option);
#define RULE(name) static void name(Values var, Values s0, Values s1, Values s2, const float *restrict g, int64_t n, \
                                    const float *h, int option)
#define EACH for (int64_t i = 0; i < n; i++)
#define UNUSED(x) (void)(x)

static inline float sign_of(float x) { return (float)((x > 0) - (x < 0)); }
static inline float shrunk(float x, float by) { const float left = fabsf(x) - by; return left > 0 ? copysignf(left, x) : 0; }

RULE(gradient_descent)
{
    UNUSED(s0); UNUSED(s1); UNUSED(s2); UNUSED(option);
    const float lr = h[0];
    EACH var[i] -= lr * g[i];
}

RULE(proximal_gradient_descent)
{
    UNUSED(s0); UNUSED(s1); UNUSED(s2); UNUSED(option);
    const float lr = h[0], l1 = lr * h[1], scale = 1 / (1 + lr * h[2]);
    EACH var[i] = shrunk(var[i] - lr * g[i], l1) * scale;
}

RULE(momentum)
{
    UNUSED(s1); UNUSED(s2);
    const float lr = h[0], decay = h[1];
    EACH {
        s0[i] = s0[i] * decay + g[i];
        var[i] -= option ? lr * (g[i] + decay * s0[i]) : lr * s0[i];
    }
}

RULE(keras_momentum)
{
    UNUSED(s1); UNUSED(s2);
    const float lr = h[0], decay = h[1];
    EACH {
        s0[i] = s0[i] * decay - lr * g[i];
        var[i] += option ? decay * s0[i] - lr * g[i] : s0[i];
    }
}

static inline float adam_rate(float lr, float power1, float power2) { return lr * sqrtf(1 - power2) / (1 - power1); }

RULE(adam)
{
    UNUSED(s2);
    const float rate = adam_rate(h[2], h[0], h[1]), b1 = h[3], b2 = h[4], epsilon = h[5];
    if (option) {
        EACH {
            s0[i] += (1 - b1) * (g[i] - s0[i]);
            s1[i] = b2 * s1[i] + (1 - b2) * g[i] * g[i];
            var[i] -= rate * (b1 * s0[i] + (1 - b1) * g[i]) / (sqrtf(s1[i]) + epsilon);
        }
        return;
    }
    EACH {
        s0[i] += (1 - b1) * (g[i] - s0[i]);
        s1[i] = b2 * s1[i] + (1 - b2) * g[i] * g[i];
        var[i] -= rate * s0[i] / (sqrtf(s1[i]) + epsilon);
    }
}

RULE(adam_with_amsgrad)
{
    UNUSED(option);
    const float rate = adam_rate(h[2], h[0], h[1]), b1 = h[3], b2 = h[4], epsilon = h[5];
    EACH {
        s0[i] += (1 - b1) * (g[i] - s0[i]);
        s1[i] = b2 * s1[i] + (1 - b2) * g[i] * g[i];
        s2[i] = s2[i] > s1[i] ? s2[i] : s1[i];
        var[i] -= rate * s0[i] / (sqrtf(s2[i]) + epsilon);
    }
}

RULE(ada_max)
{
    UNUSED(s2); UNUSED(option);
    const float rate = h[1] / (1 - h[0]), b1 = h[2], b2 = h[3], epsilon = h[4];
    EACH {
        const float size = fabsf(g[i]), old = b2 * s1[i];
        s0[i] += (1 - b1) * (g[i] - s0[i]);
        s1[i] = old > size ? old : size;
        var[i] -= rate * s0[i] / (s1[i] + epsilon);
    }
}

RULE(adagrad)
{
    UNUSED(s1); UNUSED(s2);
    const float lr = h[0], kept = (float)(option != 0);
    EACH {
        s0[i] += kept * g[i] * g[i];
        var[i] -= lr * g[i] / sqrtf(s0[i]);
    }
}

RULE(adagrad_v2)
{
    UNUSED(s1); UNUSED(s2);
    const float lr = h[0], epsilon = h[1], kept = (float)(option != 0);
    EACH {
        s0[i] += kept * g[i] * g[i];
        var[i] -= lr * g[i] / (sqrtf(s0[i]) + epsilon);
    }
}

RULE(proximal_adagrad)
{
    UNUSED(s1); UNUSED(s2); UNUSED(option);
    const float lr = h[0], l1 = h[1], l2 = h[2];
    EACH {
        s0[i] += g[i] * g[i];
        const float rate = lr / sqrtf(s0[i]);
        var[i] = shrunk(var[i] - rate * g[i], rate * l1) / (1 + rate * l2);
    }
}

RULE(adagrad_da)
{
    UNUSED(s2); UNUSED(option);
    const float lr = h[0], l1 = h[1] * h[3], l2 = h[2] * h[3] * lr;
    EACH {
        s0[i] += g[i];
        s1[i] += g[i] * g[i];
        var[i] = -lr * (l1 ? shrunk(s0[i], l1) : s0[i]) / (sqrtf(s1[i]) + l2);
    }
}

RULE(adadelta)
{
    UNUSED(s2); UNUSED(option);
    const float lr = h[0], rho = h[1], epsilon = h[2];
    EACH {
        s0[i] = rho * s0[i] + (1 - rho) * g[i] * g[i];
        const float step = sqrtf((s1[i] + epsilon) / (s0[i] + epsilon)) * g[i];
        var[i] -= lr * step;
        s1[i] = rho * s1[i] + (1 - rho) * step * step;
    }
}

RULE(rms_prop)
{
    UNUSED(s2); UNUSED(option);
    const float lr = h[0], rho = h[1], decay = h[2], epsilon = h[3];
    EACH {
        s0[i] = rho * s0[i] + (1 - rho) * g[i] * g[i];
        s1[i] = decay * s1[i] + lr * g[i] / sqrtf(s0[i] + epsilon);
        var[i] -= s1[i];
    }
}

RULE(centered_rms_prop)
{
    UNUSED(option);
    const float lr = h[0], rho = h[1], decay = h[2], epsilon = h[3];
    EACH {
        s1[i] = rho * s1[i] + (1 - rho) * g[i] * g[i];
        s0[i] += (1 - rho) * (g[i] - s0[i]);
        s2[i] = decay * s2[i] + lr * g[i] / sqrtf(s1[i] - s0[i] * s0[i] + epsilon);
        var[i] -= s2[i];
    }
}

static inline void ftrl_row(Values var, Values accum, Values linear, const float *restrict g, int64_t n, float lr, float l1,
                            float l2, float shrinkage, float power)
{
    const int half = power == -0.5f;
    EACH {
        const float new = accum[i] + g[i] * g[i];
        const float root = half ? sqrtf(new) : powf(new, -power), old = half ? sqrtf(accum[i]) : powf(accum[i], -power);
        linear[i] += g[i] + 2 * shrinkage * var[i] - (root - old) / lr * var[i];
        var[i] = fabsf(linear[i]) > l1 ? (sign_of(linear[i]) * l1 - linear[i]) / (root / lr + 2 * l2) : 0;
        accum[i] = new;
    }
}

RULE(ftrl)
{
    UNUSED(s2); UNUSED(option);
    ftrl_row(var, s0, s1, g, n, h[0], h[1], h[2], 0, h[3]);
}

RULE(ftrl_v2)
{
    UNUSED(s2); UNUSED(option);
    ftrl_row(var, s0, s1, g, n, h[0], h[1], h[2], h[3], h[4]);
}

RULE(add_sign)
{
    UNUSED(s1); UNUSED(s2); UNUSED(option);
    const float lr = h[0], alpha = h[1], decay = h[2], beta = h[3];
    EACH {
        s0[i] += (1 - beta) * (g[i] - s0[i]);
        var[i] -= lr * (alpha + decay * sign_of(g[i]) * sign_of(s0[i])) * g[i];
    }
}

RULE(power_sign)
{
    UNUSED(s1); UNUSED(s2); UNUSED(option);
    const float lr = h[0], scale = h[1] * h[2], beta = h[3];
    EACH {
        s0[i] += (1 - beta) * (g[i] - s0[i]);
        var[i] -= lr * expf(scale * sign_of(g[i]) * sign_of(s0[i])) * g[i];
    }
}

static const struct { const char *name; Rule run; int slots, numbers; } RULES[] = {
    {"GradientDescent", gradient_descent, 0, 1}, {"ProximalGradientDescent", proximal_gradient_descent, 0, 3},
    {"Momentum", momentum, 1, 2}, {"KerasMomentum", keras_momentum, 1, 2}, {"Adam", adam, 2, 6},
    {"AdamWithAmsgrad", adam_with_amsgrad, 3, 6}, {"AdaMax", ada_max, 2, 5}, {"Adagrad", adagrad, 1, 1},
    {"AdagradV2", adagrad_v2, 1, 2}, {"ProximalAdagrad", proximal_adagrad, 1, 3}, {"AdagradDA", adagrad_da, 2, 4},
    {"Adadelta", adadelta, 2, 3}, {"RMSProp", rms_prop, 2, 4}, {"CenteredRMSProp", centered_rms_prop, 3, 4},
    {"Ftrl", ftrl, 2, 4}, {"FtrlV2", ftrl_v2, 2, 5}, {"AddSign", add_sign, 1, 4}, {"PowerSign", power_sign, 1, 4}};
enum { RULE_COUNT = sizeof RULES / sizeof *RULES, MOST_NUMBERS = 8 };
#endif
