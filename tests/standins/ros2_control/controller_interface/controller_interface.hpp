// Stand-in for the declarations of ros2_control 6.8 and rclcpp that a controller with parameters uses.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace rclcpp {
class Time {};
class Duration {};
class Logger {};
class Parameter {
public:
    std::variant<double, std::vector<double>, std::vector<std::string>> value;
    double as_double() const { return std::get<0>(value); }
    std::vector<double> as_double_array() const { return std::get<1>(value); }
    std::vector<std::string> as_string_array() const { return std::get<2>(value); }
};
}  // namespace rclcpp

namespace rclcpp_lifecycle {
class State {};
namespace node_interfaces {
struct LifecycleNodeInterface {
    enum class CallbackReturn : uint8_t { SUCCESS = 97, FAILURE = 98, ERROR = 99 };
};
}  // namespace node_interfaces
class LifecycleNode {
public:
    std::map<std::string, rclcpp::Parameter> parameters;
    rclcpp::Parameter get_parameter(const std::string &name) const { return parameters.at(name); }
    rclcpp::Logger get_logger() const { return {}; }
};
}  // namespace rclcpp_lifecycle

namespace hardware_interface {
class LoanedStateInterface {
public:
    std::optional<double> value;
    template <typename T = double> [[nodiscard]] std::optional<T> get_optional(unsigned = 10) const { return value; }
};
class LoanedCommandInterface : public LoanedStateInterface {
public:
    bool is_locked = false;
    template <typename T> [[nodiscard]] bool set_value(const T &number, unsigned = 10) {
        if (!is_locked) value = number;
        return !is_locked;
    }
};
}  // namespace hardware_interface

namespace controller_interface {
using CallbackReturn = rclcpp_lifecycle::node_interfaces::LifecycleNodeInterface::CallbackReturn;
enum class return_type : std::uint8_t { OK = 0, ERROR = 1 };
enum class interface_configuration_type : std::uint8_t { ALL = 0, INDIVIDUAL = 1, NONE = 2 };
struct InterfaceConfiguration {
    interface_configuration_type type;
    std::vector<std::string> names = {};
};

class ControllerInterface {
public:
    virtual ~ControllerInterface() = default;
    virtual CallbackReturn on_init() = 0;
    virtual CallbackReturn on_configure(const rclcpp_lifecycle::State &) { return CallbackReturn::SUCCESS; }
    virtual InterfaceConfiguration command_interface_configuration() const = 0;
    virtual InterfaceConfiguration state_interface_configuration() const = 0;
    virtual return_type update(const rclcpp::Time &, const rclcpp::Duration &) = 0;
    std::shared_ptr<rclcpp_lifecycle::LifecycleNode> get_node() { return node_; }

    // Of the stand-in only: access for a test.
    std::vector<hardware_interface::LoanedCommandInterface> &commands() { return command_interfaces_; }
    std::vector<hardware_interface::LoanedStateInterface> &states() { return state_interfaces_; }

protected:
    template <typename T> auto auto_declare(const std::string &name, const T &value) {
        return node_->parameters.emplace(name, rclcpp::Parameter{value}).first->second;
    }
    std::vector<hardware_interface::LoanedCommandInterface> command_interfaces_;
    std::vector<hardware_interface::LoanedStateInterface> state_interfaces_;

private:
    std::shared_ptr<rclcpp_lifecycle::LifecycleNode> node_ = std::make_shared<rclcpp_lifecycle::LifecycleNode>();
};
}  // namespace controller_interface
