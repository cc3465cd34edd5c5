// Pinocchio's own speed, single calls on one core: reads a robot from standard input, prints median nanoseconds per
// call and their quartiles' distance, then with SINGLE the error of its float32.
#include <algorithm>
#include <cmath>
#include <chrono>
#include <cstdio>
#include <vector>

#include "robot_model.hpp"

#include <pinocchio/algorithm/aba-derivatives.hpp>
#include <pinocchio/algorithm/aba.hpp>
#include <pinocchio/algorithm/crba.hpp>
#include <pinocchio/algorithm/joint-configuration.hpp>
#include <pinocchio/algorithm/rnea-derivatives.hpp>
#include <pinocchio/algorithm/rnea.hpp>

using Vector = Eigen::VectorXd;

int main() {
    const Model model = read_model();
    Data data(model);
    const int states = 256, repeats = 41;
    std::vector<Vector> q, v, a;
    for (int i = 0; i < states; i++) {
        q.push_back(randomConfiguration(model, Vector::Constant(model.nq, -3), Vector::Constant(model.nq, 3)));
        v.push_back(Vector::Random(model.nv));
        a.push_back(Vector::Random(model.nv));
    }
    auto measure = [&](const char *name, auto call) {
        std::vector<double> times;
        for (int r = 0; r < repeats; r++) {
            const auto start = std::chrono::steady_clock::now();
            for (int i = 0; i < states; i++) call(q[i], v[i], a[i]);
            const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
            times.push_back(taken.count() / states * 1e9);
        }
        std::sort(times.begin(), times.end());
        std::printf("%s %.1f %.1f\n", name, times[repeats / 2], times[repeats / 4 * 3] - times[repeats / 4]);
    };
    measure("inverse_dynamics", [&](auto &x, auto &y, auto &z) { rnea(model, data, x, y, z); });
    measure("forward_dynamics", [&](auto &x, auto &y, auto &z) { aba(model, data, x, y, z, Convention::LOCAL); });
    measure("mass_matrix", [&](auto &x, auto &, auto &) { crba(model, data, x, Convention::LOCAL); });
    measure("mass_matrix_inverse", [&](auto &x, auto &, auto &) { computeMinverse(model, data, x); });
    measure("inverse_dynamics_gradient", [&](auto &x, auto &y, auto &z) { computeRNEADerivatives(model, data, x, y, z); });
    const Eigen::MatrixXd minv = Eigen::MatrixXd::Identity(model.nv, model.nv); // any: it is given
    Eigen::MatrixXd by_q(model.nv, model.nv), by_v(model.nv, model.nv);
    measure("forward_dynamics_gradient_given_minv", [&](auto &x, auto &y, auto &z) {
        computeRNEADerivatives(model, data, x, y, z);
        by_q.noalias() = -minv * data.dtau_dq;
        by_v.noalias() = -minv * data.dtau_dv;
    });
    measure("forward_dynamics_gradient", [&](auto &x, auto &y, auto &z) { computeABADerivatives(model, data, x, y, z); });

#ifdef SINGLE // relative L2 error of its own float32, over all states; its templates take several gigabytes to compile
    const ModelTpl<float> single = model.cast<float>();
    DataTpl<float> rough(single);
    double error[2] = {0, 0}, size[2] = {0, 0};
    for (int i = 0; i < states; i++) {
        computeABADerivatives(model, data, q[i], v[i], a[i]);
        computeABADerivatives(single, rough, q[i].cast<float>().eval(), v[i].cast<float>().eval(), a[i].cast<float>().eval());
        error[0] += (data.ddq_dq - rough.ddq_dq.cast<double>()).squaredNorm();
        error[1] += (data.ddq_dv - rough.ddq_dv.cast<double>()).squaredNorm();
        size[0] += data.ddq_dq.squaredNorm();
        size[1] += data.ddq_dv.squaredNorm();
    }
    std::printf("float32_error %.3g %.3g\n", std::sqrt(error[0] / size[0]), std::sqrt(error[1] / size[1]));
#endif
}
