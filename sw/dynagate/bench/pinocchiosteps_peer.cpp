// Pinocchio's own speed in a rollout by semi-implicit Euler, one trajectory after the other on one core: reads a robot
// from standard input, prints nanoseconds per step: of rounds of a hundredth of a second, each with the quickest of its
// calls, the median and the quartiles' distance.
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
    const int trajectories = 8, steps = 50, rounds = 15;
    const double dt = 0.01;
    std::vector<Vector> start, torque;
    for (int i = 0; i < trajectories; i++) {
        start.push_back(randomConfiguration(model, Vector::Constant(model.nq, -1), Vector::Constant(model.nq, 1)));
        torque.push_back(Vector::Random(model.nv));
    }
    Vector q(model.nq), next(model.nq), v(model.nv), move(model.nv);
    std::vector<double> times;
    double sum = 0;
    using Clock = std::chrono::steady_clock;
    std::vector<double> round;
    for (auto end = Clock::now(); times.size() < rounds;) {
        if (!round.empty() && Clock::now() > end) {
            times.push_back(*std::min_element(round.begin(), round.end()));
            round.clear();
        }
        if (round.empty()) end = Clock::now() + std::chrono::milliseconds(10);
        const auto begin = Clock::now();
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
        const std::chrono::duration<double> taken = Clock::now() - begin;
        round.push_back(taken.count() / (trajectories * steps) * 1e9);
    }
    std::sort(times.begin(), times.end());
    std::printf("step %.1f %.1f\n", times[rounds / 2], times[rounds * 3 / 4] - times[rounds / 4]);
    std::fprintf(stderr, "%g\n", sum);
}
