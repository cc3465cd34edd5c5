// A robot from standard input as Pinocchio's model. Links, then per link: parent type rotation(9) translation(3) axis(3)
// mass com(3) ixx ixy ixz iyy iyz izz.
#pragma once
#include <iostream>
#include <string>
#include <vector>

#include <pinocchio/multibody.hpp>

using namespace pinocchio;

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
