// Pinocchio's constrained dynamics, single calls on one core: reads a robot and then its point contacts (a count; link,
// x, y, z each) from standard input, prints median nanoseconds per call and their quartiles' distance.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <vector>

#include "robot_model.hpp"

#include <pinocchio/algorithm/constrained-dynamics.hpp>
#include <pinocchio/algorithm/joint-configuration.hpp>

int main() {
    const Model model = read_model();
    Data data(model);
    int count = 0;
    std::cin >> count;
    PINOCCHIO_STD_VECTOR_WITH_EIGEN_ALLOCATOR(RigidConstraintModel) contacts;
    PINOCCHIO_STD_VECTOR_WITH_EIGEN_ALLOCATOR(RigidConstraintData) held;
    for (int c = 0; c < count; c++) {
        int link;
        double x, y, z;
        std::cin >> link >> x >> y >> z;
        const SE3 place(Eigen::Matrix3d::Identity(), Eigen::Vector3d(x, y, z));
        contacts.emplace_back(CONTACT_3D, model, link + 1, place, LOCAL);
    }
    for (const auto &contact : contacts) held.emplace_back(contact);
    initConstraintDynamics(model, data, contacts, held);
    ProximalSettings settings(1e-12, 0.0, 1);
    const int states = 256, repeats = 41;
    std::vector<Eigen::VectorXd> q, v, tau;
    for (int i = 0; i < states; i++) {
        q.push_back(randomConfiguration(model, Eigen::VectorXd::Constant(model.nq, -3), Eigen::VectorXd::Constant(model.nq, 3)));
        v.push_back(Eigen::VectorXd::Random(model.nv));
        tau.push_back(Eigen::VectorXd::Random(model.nv));
    }
    std::vector<double> times;
    for (int r = 0; r < repeats; r++) {
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < states; i++) constraintDynamics(model, data, q[i], v[i], tau[i], contacts, held, settings);
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
        times.push_back(taken.count() / states * 1e9);
    }
    std::sort(times.begin(), times.end());
    std::printf("%.1f %.1f\n", times[repeats / 2], times[repeats / 4 * 3] - times[repeats / 4]);
}
