// Pinocchio's own speed, single calls on one core: reads a robot from standard input, prints median nanoseconds per
// call and their quartiles' distance, then with SINGLE the error of its float32.
// Input: links, then per link: parent type rotation(9) translation(3) axis(3) mass com(3) ixx ixy ixz iyy iyz izz.
#include <algorithm>
#include <cmath>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include <pinocchio/multibody.hpp>

#include <pinocchio/algorithm/aba-derivatives.hpp>
#include <pinocchio/algorithm/aba.hpp>
#include <pinocchio/algorithm/crba.hpp>
#include <pinocchio/algorithm/joint-configuration.hpp>
#include <pinocchio/algorithm/rnea-derivatives.hpp>
#include <pinocchio/algorithm/rnea.hpp>

using namespace pinocchio;
using Vector = Eigen::VectorXd;

static double number() {
    double x;
    std::cin >> x;
    return x;
}

static Eigen::Vector3d vector3() {
    const double x = number(), y = number(), z = number();
    return {x, y, z};
}

// The joint model that Pinocchio's own URDF reader would take: cheaper ones about coordinate axes.
static JointModel joint_of(const std::string &type, const Eigen::Vector3d &axis) {
    const bool x = axis.x() == 1, y = axis.y() == 1, z = axis.z() == 1;
    if (type == "floating") return JointModelFreeFlyer();
    if (type == "spherical") return JointModelSpherical();
    if (type == "prismatic") {
        if (x) return JointModelPX();
        if (y) return JointModelPY();
        if (z) return JointModelPZ();
        return JointModelPrismaticUnaligned(axis);
    }
    if (x) return JointModelRX();
    if (y) return JointModelRY();
    if (z) return JointModelRZ();
    return JointModelRevoluteUnaligned(axis);
}

static Model read_model() {
    Model model;
    const int links = int(number());
    std::vector<JointIndex> ids;
    for (int i = 0; i < links; i++) {
        const int parent = int(number());
        std::string type;
        std::cin >> type;
        Eigen::Matrix3d rotation;
        for (int r = 0; r < 3; r++) rotation.row(r) = vector3().transpose();
        const Eigen::Vector3d translation = vector3(), axis = vector3();
        const double mass = number();
        const Eigen::Vector3d com = vector3();
        Eigen::Matrix3d inertia;
        for (int r = 0; r < 3; r++)
            for (int c = r; c < 3; c++) inertia(r, c) = inertia(c, r) = number();
        const JointIndex above = parent < 0 ? 0 : ids[parent];
        ids.push_back(model.addJoint(above, joint_of(type, axis), SE3(rotation, translation), "joint" + std::to_string(i)));
        model.appendBodyToJoint(ids.back(), Inertia(mass, com, inertia), SE3::Identity());
    }
    return model;
}

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
