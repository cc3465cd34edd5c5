// Stand-in for the logging of rclcpp: messages go to the standard error.
#pragma once
#include <cstdio>
#define RCLCPP_ERROR(logger, ...) ((void)(logger), std::fprintf(stderr, __VA_ARGS__), std::fprintf(stderr, "\n"))
