// Pinocchio's own speed in a rollout by semi-implicit Euler, one trajectory after the other on one core: reads a robot
// from standard input, prints median nanoseconds per step and their quartiles' distance.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "robot_model.hpp"

#include <pinocchio/algorithm/aba.hpp>
#include <pinocchio/algorithm/joint-configuration.hpp>

using Vector = Eigen::VectorXd;

int main() {
    const Model model = read_model();
    Data data(model);
    const int trajectories = 64, steps = 50, repeats = 21;
    const double dt = 0.01;
    std::vector<Vector> start, torque;
    for (int i = 0; i < trajectories; i++) {
        start.push_back(randomConfiguration(model, Vector::Constant(model.nq, -1), Vector::Constant(model.nq, 1)));
        torque.push_back(Vector::Random(model.nv));
    }
    Vector q(model.nq), next(model.nq), v(model.nv), move(model.nv);
    std::vector<double> times;
    double sum = 0;
    for (int r = 0; r < repeats; r++) {
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < trajectories; i++) {
            q = start[i];
            v.setZero();
            for (int k = 0; k < steps; k++) {
                v.noalias() += dt * aba(model, data, q, v, torque[i], Convention::LOCAL);
                move.noalias() = dt * v;
                integrate(model, q, move, next);
                q.swap(next);
            }
            sum += q[0];
        }
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
        times.push_back(taken.count() / (trajectories * steps) * 1e9);
    }
    std::sort(times.begin(), times.end());
    std::printf("step %.1f %.1f\n", times[repeats / 2], times[repeats / 4 * 3] - times[repeats / 4]);
    std::fprintf(stderr, "%g\n", sum);
}
