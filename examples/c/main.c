/* One state in, its acceleration out. */
#include <stdio.h>

#include "two_joint_arm_forward_dynamics_gradient.h"

int main(void) {
    const double q[2] = {0.3, -0.5}, qd[2] = {1.0, 2.0}, tau[2] = {0.0, 0.1};
    double qdd[2], dqdd_dq[4] = {0}, dqdd_dqd[4] = {0}, minv[4] = {0};
    const double *inputs[] = {q, qd, tau};
    double *outputs[] = {qdd, dqdd_dq, dqdd_dqd, minv};
    two_joint_arm_forward_dynamics_gradient_one_f64(inputs, outputs);
    printf("%.17g %.17g\n", qdd[0], qdd[1]);
    return 0;
}
