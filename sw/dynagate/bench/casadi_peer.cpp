// Pinocchio's algorithms on CasADi's expressions: reads a robot from standard input, writes C to the file that it is given.
#include <pinocchio/autodiff/casadi.hpp>

#include <pinocchio/algorithm/aba-derivatives.hpp>
#include <pinocchio/algorithm/aba.hpp>
#include <pinocchio/algorithm/rnea-derivatives.hpp>
#include <pinocchio/algorithm/rnea.hpp>

#include "robot_model.hpp"

using S = ::casadi::SX;
using Vector = Eigen::Matrix<S, Eigen::Dynamic, 1>;

static Vector vector_of(const S &entries) {
    Vector result(entries.size1());
    for (int i = 0; i < result.size(); i++) result[i] = entries(i);
    return result;
}

template <typename Matrix> static S expression_of(const Matrix &matrix) {
    S result(matrix.rows(), matrix.cols());
    for (int i = 0; i < matrix.rows(); i++)
        for (int j = 0; j < matrix.cols(); j++) result(i, j) = matrix(i, j);
    return result;
}

int main(int, char **arguments) {
    const Model plain = read_model();
    const ModelTpl<S> model = plain.cast<S>();
    DataTpl<S> data(model);
    const S q = S::sym("q", model.nq), v = S::sym("v", model.nv), u = S::sym("u", model.nv);
    const Vector x = vector_of(q), y = vector_of(v), z = vector_of(u);
    ::casadi::CodeGenerator file(arguments[1]);
    auto add = [&](const char *name, const std::vector<S> &results) {
        file.add(::casadi::Function(name, {q, v, u}, S::cse(results)));
    };
    add("inverse_dynamics", {expression_of(rnea(model, data, x, y, z))});
    add("forward_dynamics", {expression_of(aba(model, data, x, y, z, Convention::LOCAL))});
    data.Minv.setZero();
    computeABADerivatives(model, data, x, y, z);
    add("forward_dynamics_gradient", {expression_of(data.ddq_dq), expression_of(data.ddq_dv)});
    file.generate();
}
