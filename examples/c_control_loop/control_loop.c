/* A controller at 1 kHz in C: a passivity-based law tracks a motion, and an observer feels a push.

   With the error e = q - q_d, v_r = v_d - L e and s = v - v_r,

       tau = H a_r + C v_r + g - k H s,       r = K_o (H v - integral of (tau + C^T v - g + r)),

   where C(q, v) v_r and C(q, v)^T v are products that never form C. V = s^T H s / 2 decays as exp(-2 k t)
   while nothing pushes, and r follows the push with the time constant 1 / K_o. The robot is simulated by its forward dynamics
   in steps of 0.25 ms. Every number comes from the generated functions; nothing else is linked but libm. */

#include <math.h>
#include <stdio.h>
#include <time.h>

#include "robot.h"

enum { N = ROBOT_NV, SUBSTEPS = 4, STEPS = 4000 };

static const double PERIOD = 1e-3;  /* s */
static const double L = 8.0;        /* 1/s */
static const double K = 10.0;       /* k, 1/s */
static const double K_O = 40.0;     /* 1/s */
static const double PUSH = 6.0;     /* N m, on the joint below, while pushed */
static const int PUSHED_JOINT = 1;

static int is_pushed(double t) { return t >= 2.0 && t < 2.5; }

/* The motion that is tracked: each joint swings, slowly beginning. */
static void wanted(double t, double *q, double *v, double *a)
{
    for (int i = 0; i < N; ++i) {
        const double w = 1.5 + 0.3 * i, size = 0.5 / (1 + i);
        q[i] = -0.8 + size * (1.0 - cos(w * t));
        v[i] = size * w * sin(w * t);
        a[i] = size * w * w * cos(w * t);
    }
}

static void multiply(const double *H, const double *x, double *y)
{
    for (int i = 0; i < N; ++i) {
        y[i] = 0.0;
        for (int j = 0; j < N; ++j) {
            y[i] += H[N * i + j] * x[j];
        }
    }
}

static double dot(const double *x, const double *y)
{
    double sum = 0.0;
    for (int i = 0; i < N; ++i) {
        sum += x[i] * y[i];
    }
    return sum;
}

/* What the observer remembers. */
struct observer {
    double integral[N], r[N];
};

/* One period of the controller. Returns a status of the generated functions; writes tau and V. */
static int control(
    double t, const double *q, const double *v, struct observer *observer, double *tau, double *V)
{
    double q_d[N], v_d[N], a_d[N], v_r[N], a_r[N], s[N], H[N * N], Hs[N], p[N], Cv_r[N], CTv[N], g[N];
    int status;
    wanted(t, q_d, v_d, a_d);
    for (int i = 0; i < N; ++i) {
        v_r[i] = v_d[i] - L * (q[i] - q_d[i]);
        a_r[i] = a_d[i] - L * (v[i] - v_d[i]);
        s[i] = v[i] - v_r[i];
    }
    if ((status = robot_mass_matrix(q, H)) != ROBOT_OK) return status;
    if ((status = robot_coriolis_product(q, v, v_r, Cv_r)) != ROBOT_OK) return status;
    if ((status = robot_coriolis_transpose_product(q, v, v, CTv)) != ROBOT_OK) return status;
    if ((status = robot_gravity(q, g)) != ROBOT_OK) return status;
    multiply(H, a_r, tau);
    multiply(H, v, p);
    multiply(H, s, Hs);
    *V = 0.5 * dot(s, Hs);
    for (int i = 0; i < N; ++i) {
        tau[i] += Cv_r[i] + g[i] - K * Hs[i];
        if (t == 0.0) {
            observer->integral[i] = p[i]; /* so that r begins at zero */
            observer->r[i] = 0.0;
        }
        observer->r[i] = K_O * (p[i] - observer->integral[i]);
        observer->integral[i] += PERIOD * (tau[i] + CTv[i] - g[i] + observer->r[i]);
    }
    return ROBOT_OK;
}

/* The robot: a step of Runge and Kutta's method of second order with constant torques. */
static int simulate(double t, double *q, double *v, const double *tau)
{
    const double h = PERIOD / SUBSTEPS;
    for (int k = 0; k < SUBSTEPS; ++k) {
        double pushed[N], a[N], q_half[N], v_half[N];
        int status;
        for (int i = 0; i < N; ++i) {
            pushed[i] = tau[i] + (i == PUSHED_JOINT && is_pushed(t) ? PUSH : 0.0);
        }
        if ((status = robot_forward_dynamics(q, v, pushed, a)) != ROBOT_OK) return status;
        for (int i = 0; i < N; ++i) {
            q_half[i] = q[i] + 0.5 * h * v[i];
            v_half[i] = v[i] + 0.5 * h * a[i];
        }
        if ((status = robot_forward_dynamics(q_half, v_half, pushed, a)) != ROBOT_OK) return status;
        for (int i = 0; i < N; ++i) {
            q[i] += h * v_half[i];
            v[i] += h * a[i];
        }
    }
    return ROBOT_OK;
}

int main(void)
{
    double q[N], v[N], a[N], tau[N], V, seconds = 0.0;
    struct observer observer;
    wanted(0.0, q, v, a);
    for (int i = 0; i < N; ++i) {
        q[i] += 0.2; /* the robot does not begin on the motion */
    }
    printf("t,error,V,push,observed\n");
    for (int step = 0; step < STEPS; ++step) {
        const double t = PERIOD * step;
        double q_d[N], error = 0.0;
        const clock_t start = clock();
        int status = control(t, q, v, &observer, tau, &V);
        seconds += (double)(clock() - start) / CLOCKS_PER_SEC;
        if (status == ROBOT_OK) {
            wanted(t, q_d, a, a);
            for (int i = 0; i < N; ++i) {
                error = fmax(error, fabs(q[i] - q_d[i]));
            }
            const double push = is_pushed(t) ? PUSH : 0.0;
            printf("%.3f,%.9g,%.9g,%g,%.9g\n", t, error, V, push, observer.r[PUSHED_JOINT]);
            status = simulate(t, q, v, tau);
        }
        if (status != ROBOT_OK) {
            fprintf(stderr, "status %d at t = %.3f s\n", status, t);
            return 1;
        }
    }
    fprintf(stderr, "the controller takes %.1f us of its period of 1000 us\n", 1e6 * seconds / STEPS);
    return 0;
}
